// Two sorted blocks of W records in; the W lowest of them and the W highest out, each sorted.
module half_merger #(
    parameter int W = 2,
    parameter int WIDTH = 49
) (
    input logic [W*WIDTH-1:0] a,
    input logic [W*WIDTH-1:0] b,
    output logic [W*WIDTH-1:0] low,
    output logic [W*WIDTH-1:0] high
);
  logic [W*WIDTH-1:0] low_bitonic, high_bitonic;
  for (genvar i = 0; i < W; i++) begin : g_cross
    compare_exchange #(
        .WIDTH(WIDTH)
    ) exchange (
        .a(a[i*WIDTH+:WIDTH]),
        .b(b[(W-1-i)*WIDTH+:WIDTH]),
        .low(low_bitonic[i*WIDTH+:WIDTH]),
        .high(high_bitonic[i*WIDTH+:WIDTH])
    );
  end
  bitonic_merge #(
      .W(W),
      .WIDTH(WIDTH)
  ) low_sort (
      .in (low_bitonic),
      .out(low)
  );
  bitonic_merge #(
      .W(W),
      .WIDTH(WIDTH)
  ) high_sort (
      .in (high_bitonic),
      .out(high)
  );
endmodule
