// One level of the merge sorter: pairs of sorted runs in, their merged runs out, W records a cycle.
//
// Runs go in turn to queue A and queue B. The merger keeps the W highest records of what it has taken and has not
// passed on; in each cycle it takes a block from the queue with the lower first record, and passes on the W lowest of
// both. A batch with an odd number of runs has an empty run as the last one's partner, so that the merger need not wait
// for a run that does not come. Between two pairs no cycle is lost: what is kept goes out while the next pair's first
// block is taken.
module merge_level #(
    parameter int W = 2,
    parameter int WIDTH = 49,
    parameter int RUN = 1  // blocks in a full run that comes in
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic [W*WIDTH-1:0] in_block,
    input logic in_run_end,
    input logic in_batch_end,
    output logic out_valid,
    input logic out_ready,
    output logic [W*WIDTH-1:0] out_block,
    output logic out_run_end,
    output logic out_batch_end
);
  localparam int BLOCK = W * WIDTH;
  localparam int ENTRY = BLOCK + 3;
  // A whole run waits for its partner; the rest covers the latency of queue and merger.
  localparam int DEPTH = RUN + 4;

  // Queues: {empty run, end of run, end of batch, block}.
  logic to_b, push_a, push_b, odd_end, a_ready, b_ready, a_valid, b_valid, pop_a, pop_b;
  logic [ENTRY-1:0] a_head, b_head;
  assign odd_end = in_batch_end && !to_b;
  assign in_ready = to_b ? b_ready : a_ready && (!in_batch_end || b_ready);
  assign push_a = in_valid && in_ready && !to_b;
  assign push_b = in_valid && in_ready && (to_b || odd_end);
  always_ff @(posedge clk) begin
    if (rst) to_b <= 1'b0;
    else if (in_valid && in_ready && in_run_end) to_b <= !to_b && !in_batch_end;
  end
  fifo #(
      .WIDTH(ENTRY),
      .DEPTH(DEPTH)
  ) queue_a (
      .clk, .rst,
      .push(push_a),
      .data({1'b0, in_run_end, in_batch_end, in_block}),
      .ready(a_ready),
      .pop(pop_a),
      .head_valid(a_valid),
      .head(a_head)
  );
  fifo #(
      .WIDTH(ENTRY),
      .DEPTH(DEPTH)
  ) queue_b (
      .clk, .rst,
      .push(push_b),
      .data({odd_end, in_run_end, in_batch_end, in_block}),
      .ready(b_ready),
      .pop(pop_b),
      .head_valid(b_valid),
      .head(b_head)
  );

  // Merger.
  logic kept_valid, a_done, b_done, batch_end;
  logic [BLOCK-1:0] kept, taken, low, high;
  logic room, between, take, b_empty, from_b;
  assign room = !out_valid || out_ready;
  assign between = !kept_valid || (a_done && b_done);
  assign b_empty = b_head[ENTRY-1];
  always_comb begin
    if (between) begin
      take = a_valid && b_valid;
      from_b = !b_empty && b_head[WIDTH-1:0] < a_head[WIDTH-1:0];
    end else begin
      take = (a_done || a_valid) && (b_done || b_valid);
      from_b = a_done || (!b_done && b_head[WIDTH-1:0] < a_head[WIDTH-1:0]);
    end
  end
  assign taken = from_b ? b_head[BLOCK-1:0] : a_head[BLOCK-1:0];
  assign pop_a = room && take && !from_b;
  assign pop_b = room && take && (from_b || (between && b_empty));
  half_merger #(
      .W(W),
      .WIDTH(WIDTH)
  ) merger (
      .a(kept),
      .b(taken),
      .low(low),
      .high(high)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      kept_valid <= 1'b0;
      out_valid <= 1'b0;
      a_done <= 1'b0;
      b_done <= 1'b0;
    end else if (room) begin
      out_valid <= kept_valid && (between || take);
      if (between) begin
        kept_valid <= take;
        a_done <= !from_b && a_head[ENTRY-2];
        b_done <= b_empty || (from_b && b_head[ENTRY-2]);
      end else if (take) begin
        if (from_b) b_done <= b_head[ENTRY-2];
        else a_done <= a_head[ENTRY-2];
      end
    end
  end
  always_ff @(posedge clk) begin
    if (room) begin
      out_block <= between ? kept : low;
      out_run_end <= between;
      out_batch_end <= between && batch_end;
      if (take) begin
        kept <= between ? taken : high;
        batch_end <= (!between && batch_end) || (from_b || (between && b_empty) ? b_head[ENTRY-3] : a_head[ENTRY-3]);
      end
    end
  end
endmodule
