// Two records in, the lower one first. A record is {invalid, key, payload}: one unsigned comparison of it all, so that
// padding sorts last and equal keys by payload.
module compare_exchange #(
    parameter int WIDTH = 49
) (
    input logic [WIDTH-1:0] a,
    input logic [WIDTH-1:0] b,
    output logic [WIDTH-1:0] low,
    output logic [WIDTH-1:0] high
);
  logic swap;
  assign swap = b < a;
  assign low = swap ? b : a;
  assign high = swap ? a : b;
endmodule
