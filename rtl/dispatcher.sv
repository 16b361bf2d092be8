// The dispatcher (HeteroKV, III-B and III-C): batches of keys in; request queue, grouped by leaf, and head table out.
//
// The sorter passes on W requests a cycle. A tree takes one every two cycles, so there are two groups of W copies, and
// blocks go to the groups in turn: copies 0 to W-1 in one cycle, W to 2W-1 in the next. Their answers are put together
// again in the same order.
//
// All copies get every update, group 1 a cycle after group 0, so that they remain copies bit by bit. Updates enter between
// batches: all requests of a batch meet the same tree, without which a leaf's requests need not be next to each other. A
// batch begins when no update waits and no remove is under way.
//
// A request's number is its place in its batch, so that requests with equal keys keep their order.
module dispatcher #(
    parameter int W = 2,
    parameter int SORT_LEVELS = 12,
    parameter int TREE_LEVELS = 4,
    parameter int FANOUT = 16,
    parameter int KEY_W = 32,
    parameter int INDEX_W = 16,
    parameter int LEAF_W = 16
) (
    input logic clk,
    input logic rst,
    // Requests: as merge_sorter's. Only a batch's last block may have an incomplete mask.
    input logic in_valid,
    output logic in_ready,
    input logic [W*KEY_W-1:0] in_keys,
    input logic [W-1:0] in_mask,
    input logic in_last,
    // Updates: as tree's.
    input logic update_valid,
    output logic update_ready,
    output logic update_refused,
    input logic [1:0] update_op,
    input logic [KEY_W-1:0] update_key,
    input logic [LEAF_W-1:0] update_leaf,
    output logic remove_done,
    output logic remove_found,
    output logic idle,
    output logic differ,  // the copies have answered an update differently since the reset
    // Request queue and head table: as head_table's.
    output logic out_valid,
    input logic out_ready,
    output logic [W-1:0] out_mask,
    output logic [W*KEY_W-1:0] out_keys,
    output logic [W*INDEX_W-1:0] out_indices,
    output logic [W*LEAF_W-1:0] out_leaves,
    output logic [W-1:0] out_heads,
    output logic [W*LEAF_W-1:0] out_head_leaves,
    output logic [W*INDEX_W-1:0] out_head_counts,
    output logic [W*INDEX_W-1:0] out_head_firsts,
    output logic out_last
);
  localparam int COPIES = 2 * W;
  localparam int BEAT = 2 + W + W * (KEY_W + INDEX_W);
  localparam logic [1:0] LOOKUP = 2'd0;

  // --- numbers, sorter
  logic [INDEX_W-1:0] base;
  logic [W*INDEX_W-1:0] numbers;
  for (genvar i = 0; i < W; i++) begin : g_number
    assign numbers[i*INDEX_W+:INDEX_W] = base + INDEX_W'(i);
  end
  always_ff @(posedge clk) begin
    if (rst) base <= '0;
    else if (in_valid && in_ready) base <= in_last ? '0 : base + INDEX_W'(W);
  end
  logic sorted_valid, sorted_ready, sorted_last;
  logic [W*KEY_W-1:0] sorted_keys;
  logic [W*INDEX_W-1:0] sorted_indices;
  logic [W-1:0] sorted_mask;
  merge_sorter #(
      .W(W),
      .LEVELS(SORT_LEVELS),
      .KEY_W(KEY_W),
      .PAYLOAD_W(INDEX_W)
  ) sorter (
      .clk, .rst, .in_valid, .in_ready, .in_keys,
      .in_payloads(numbers),
      .in_mask, .in_last,
      .out_valid(sorted_valid),
      .out_ready(sorted_ready),
      .out_keys(sorted_keys),
      .out_payloads(sorted_indices),
      .out_mask(sorted_mask),
      .out_last(sorted_last)
  );

  // --- what the copies get in this cycle
  logic turn;  // the group that can take something
  logic second;  // group 0 has the update, group 1 has not
  logic in_batch, update_now, may_feed, beat_ready;
  logic [COPIES-1:0] copy_ready, copy_refused, copy_valid, copy_out, copy_pop, copy_done, copy_found, copy_removing;
  logic [COPIES-1:0] copy_idle;
  logic [COPIES*LEAF_W-1:0] copy_leaf;
  logic [W-1:0] turn_ready, turn_refused;
  assign turn_ready = turn ? copy_ready[COPIES-1:W] : copy_ready[W-1:0];
  assign turn_refused = turn ? copy_refused[COPIES-1:W] : copy_refused[W-1:0];
  assign update_now = second || (update_valid && !in_batch && !turn);
  assign update_ready = second && turn_ready[0];
  assign update_refused = second && turn_refused[0];
  assign may_feed = !second && (in_batch || (!update_valid && copy_removing == '0));
  assign sorted_ready = may_feed && beat_ready && (turn_ready | ~sorted_mask) == '1;
  always_ff @(posedge clk) begin
    if (rst) begin
      turn <= 1'b1;
      second <= 1'b0;
      in_batch <= 1'b0;
      differ <= 1'b0;
    end else begin
      turn <= !turn;
      second <= !second && update_now && turn_ready[0];
      if (sorted_valid && sorted_ready) in_batch <= !sorted_last;
      if (update_now && (turn_ready != {W{second || turn_ready[0]}} || turn_refused != {W{turn_refused[0]}})) begin
        differ <= 1'b1;
      end
      if (copy_done[COPIES-1:W] != {W{copy_done[W]}} || copy_found[COPIES-1:W] != {W{copy_found[W]}}) differ <= 1'b1;
    end
  end

  // --- copies
  for (genvar c = 0; c < COPIES; c++) begin : g_copy
    localparam int LANE = c % W;
    localparam bit GROUP = c >= W;
    assign copy_valid[c] = turn == GROUP && (update_now || (sorted_valid && sorted_ready && sorted_mask[LANE]));
    tree #(
        .LEVELS(TREE_LEVELS),
        .FANOUT(FANOUT),
        .KEY_W(KEY_W),
        .PTR_W(LEAF_W),
        .PHASE(GROUP)
    ) copy (
        .clk, .rst,
        .in_valid(copy_valid[c]),
        .in_ready(copy_ready[c]),
        .in_refused(copy_refused[c]),
        .in_op(update_now ? update_op : LOOKUP),
        .in_key(update_now ? update_key : sorted_keys[LANE*KEY_W+:KEY_W]),
        .in_leaf(update_leaf),
        .out_valid(copy_out[c]),
        .out_ready(copy_pop[c]),
        .out_leaf(copy_leaf[c*LEAF_W+:LEAF_W]),
        .remove_done(copy_done[c]),
        .remove_found(copy_found[c]),
        .removing(copy_removing[c]),
        .idle(copy_idle[c])
    );
  end
  assign remove_done = copy_done[W];
  assign remove_found = copy_found[W];
  assign idle = copy_idle == '1 && !second;

  // --- the blocks with leaves being looked up
  logic beat_valid, beat_last, beat_group, beat_pop;
  logic [W-1:0] beat_mask, answered;
  logic [W*KEY_W-1:0] beat_keys;
  logic [W*INDEX_W-1:0] beat_indices;
  logic [W*LEAF_W-1:0] leaves;
  fifo #(
      .WIDTH(BEAT),
      .DEPTH(4 * TREE_LEVELS + 16)
  ) beats (
      .clk, .rst,
      .push(sorted_valid && sorted_ready),
      .data({sorted_last, turn, sorted_mask, sorted_keys, sorted_indices}),
      .ready(beat_ready),
      .pop(beat_pop),
      .head_valid(beat_valid),
      .head({beat_last, beat_group, beat_mask, beat_keys, beat_indices})
  );
  assign leaves = beat_group ? copy_leaf[COPIES*LEAF_W-1:W*LEAF_W] : copy_leaf[W*LEAF_W-1:0];
  assign answered = (beat_group ? copy_out[COPIES-1:W] : copy_out[W-1:0]) | ~beat_mask;
  logic table_ready, table_valid;
  assign table_valid = beat_valid && answered == '1;
  assign beat_pop = table_valid && table_ready;
  for (genvar c = 0; c < COPIES; c++) begin : g_pop
    assign copy_pop[c] = beat_pop && beat_group == (c >= W) && beat_mask[c%W];
  end
  head_table #(
      .W(W),
      .KEY_W(KEY_W),
      .INDEX_W(INDEX_W),
      .LEAF_W(LEAF_W)
  ) table_unit (
      .clk, .rst,
      .in_valid(table_valid),
      .in_ready(table_ready),
      .in_mask(beat_mask),
      .in_keys(beat_keys),
      .in_indices(beat_indices),
      .in_leaves(leaves),
      .in_last(beat_last),
      .out_valid, .out_ready, .out_mask, .out_keys, .out_indices, .out_leaves, .out_heads, .out_head_leaves,
      .out_head_counts, .out_head_firsts, .out_last
  );
endmodule
