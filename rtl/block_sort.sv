// Sorts W records (a power of two) without regard to their order: runs of 1, 2, 4, ... are merged by bitonic networks.
module block_sort #(
    parameter int W = 2,
    parameter int WIDTH = 49
) (
    input logic [W*WIDTH-1:0] in,
    output logic [W*WIDTH-1:0] out
);
  localparam int STEPS = $clog2(W);
  for (genvar s = 0; s < STEPS; s++) begin : g_step
    logic [W*WIDTH-1:0] from, to;
    if (s == 0) begin : g_in
      assign from = in;
    end else begin : g_from
      assign from = g_step[s-1].to;
    end
    localparam int HALF = 1 << s;
    for (genvar r = 0; r < W / (2 * HALF); r++) begin : g_run
      half_merger #(
          .W(HALF),
          .WIDTH(WIDTH)
      ) merger (
          .a(from[2*r*HALF*WIDTH+:HALF*WIDTH]),
          .b(from[(2*r+1)*HALF*WIDTH+:HALF*WIDTH]),
          .low(to[2*r*HALF*WIDTH+:HALF*WIDTH]),
          .high(to[(2*r+1)*HALF*WIDTH+:HALF*WIDTH])
      );
    end
  end
  if (STEPS == 0) begin : g_same
    assign out = in;
  end else begin : g_out
    assign out = g_step[STEPS-1].to;
  end
endmodule
