// Sorts a bitonic sequence of W records (a power of two) by log2(W) stages of compare-exchange.
module bitonic_merge #(
    parameter int W = 2,
    parameter int WIDTH = 49
) (
    input logic [W*WIDTH-1:0] in,
    output logic [W*WIDTH-1:0] out
);
  localparam int STAGES = $clog2(W);
  for (genvar s = 0; s < STAGES; s++) begin : g_stage
    logic [W*WIDTH-1:0] from, to;
    if (s == 0) begin : g_in
      assign from = in;
    end else begin : g_from
      assign from = g_stage[s-1].to;
    end
    localparam int APART = W >> (s + 1);
    for (genvar i = 0; i < W; i++) begin : g_pair
      if ((i & APART) == 0) begin : g_exchange
        compare_exchange #(
            .WIDTH(WIDTH)
        ) exchange (
            .a(from[i*WIDTH+:WIDTH]),
            .b(from[(i+APART)*WIDTH+:WIDTH]),
            .low(to[i*WIDTH+:WIDTH]),
            .high(to[(i+APART)*WIDTH+:WIDTH])
        );
      end
    end
  end
  if (STAGES == 0) begin : g_same
    assign out = in;
  end else begin : g_out
    assign out = g_stage[STAGES-1].to;
  end
endmodule
