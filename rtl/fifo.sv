// A queue of DEPTH words over a memory with one write and one synchronous read port, so that it fits block RAM. The
// oldest word stands at `head` while `head_valid` is set; a word shows there two cycles after it was pushed. `ready`
// says that a push is taken.
module fifo #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 4
) (
    input logic clk,
    input logic rst,
    input logic push,
    input logic [WIDTH-1:0] data,
    output logic ready,
    input logic pop,
    output logic head_valid,
    output logic [WIDTH-1:0] head
);
  localparam int PTR_W = DEPTH > 1 ? $clog2(DEPTH) : 1;
  localparam int COUNT_W = $clog2(DEPTH + 1);
  localparam logic [PTR_W-1:0] LAST = PTR_W'(DEPTH - 1);

  logic [WIDTH-1:0] mem[0:DEPTH-1];
  logic [PTR_W-1:0] write_at, read_at, read_next;
  logic [COUNT_W-1:0] count;
  logic pushed, popped;

  assign ready = count != COUNT_W'(DEPTH);
  assign pushed = push && ready;
  assign popped = pop && head_valid;
  assign read_next = !popped ? read_at : read_at == LAST ? '0 : read_at + 1'b1;

  always_ff @(posedge clk) begin
    if (pushed) mem[write_at] <= data;
    head <= mem[read_next];
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      write_at <= '0;
      read_at <= '0;
      count <= '0;
      head_valid <= 1'b0;
    end else begin
      if (pushed) write_at <= write_at == LAST ? '0 : write_at + 1'b1;
      read_at <= read_next;
      count <= count + COUNT_W'(pushed) - COUNT_W'(popped);
      // What is pushed in this cycle is in the memory only in the next one.
      head_valid <= count != COUNT_W'(popped);
    end
  end
endmodule
