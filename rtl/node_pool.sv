// Numbers of the nodes of one level that are not in use: first those never used, then those given back. Node 0 is in use
// from the start.
module node_pool #(
    parameter int NODES = 4,
    parameter int PTR_W = 16
) (
    input logic clk,
    input logic rst,
    input logic take,
    output logic [PTR_W-1:0] next,
    input logic give,
    input logic [PTR_W-1:0] given,
    output logic [PTR_W-1:0] left
);
  logic [PTR_W-1:0] fresh, back;
  logic back_valid, back_ready, any_fresh, unused;
  assign any_fresh = fresh != PTR_W'(NODES);
  assign next = any_fresh ? fresh : back;
  assign unused = back_ready;  // all nodes fit
  fifo #(
      .WIDTH(PTR_W),
      .DEPTH(NODES)
  ) given_back (
      .clk, .rst,
      .push(give),
      .data(given),
      .ready(back_ready),
      .pop(take && !any_fresh),
      .head_valid(back_valid),
      .head(back)
  );
  always_ff @(posedge clk) begin
    if (rst) begin
      fresh <= PTR_W'(1);
      left <= PTR_W'(NODES - 1);
    end else begin
      if (take && any_fresh) fresh <= fresh + 1'b1;
      left <= left - PTR_W'(take && (any_fresh || back_valid)) + PTR_W'(give);
    end
  end
endmodule
