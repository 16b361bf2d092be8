// Head tables of sorted batches (HeteroKV, III-C2 and Fig. 3). In come W requests a cycle with the leaves of their keys,
// equal leaves next to each other; out go the request queue and, for each leaf, {leaf, number of its requests, place of
// the first one in the queue}.
//
// A request that begins another leaf closes the one before: its entry is `head` of that request's lane. A batch's last
// leaf is closed by a block of its own without requests, which has `out_last`: one cycle a batch.
module head_table #(
    parameter int W = 2,
    parameter int KEY_W = 32,
    parameter int INDEX_W = 16,
    parameter int LEAF_W = 16
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic [W-1:0] in_mask,
    input logic [W*KEY_W-1:0] in_keys,
    input logic [W*INDEX_W-1:0] in_indices,
    input logic [W*LEAF_W-1:0] in_leaves,
    input logic in_last,
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
  // The leaf that is open, as it is before and after this block.
  logic open, open_next, closing;
  logic [LEAF_W-1:0] leaf, leaf_next;
  logic [INDEX_W-1:0] count, count_next, first, first_next, place, place_next;
  logic [W-1:0] heads;
  logic [W*LEAF_W-1:0] head_leaves;
  logic [W*INDEX_W-1:0] head_counts, head_firsts;
  logic room, taken;
  assign room = !out_valid || out_ready;
  assign in_ready = room && !closing;
  assign taken = in_valid && in_ready;

  always_comb begin
    open_next = open;
    leaf_next = leaf;
    count_next = count;
    first_next = first;
    place_next = place;
    heads = '0;
    head_leaves = '0;
    head_counts = '0;
    head_firsts = '0;
    for (int i = 0; i < W; i++) begin
      head_leaves[i*LEAF_W+:LEAF_W] = leaf_next;
      head_counts[i*INDEX_W+:INDEX_W] = count_next;
      head_firsts[i*INDEX_W+:INDEX_W] = first_next;
      if (in_mask[i]) begin
        if (open_next && in_leaves[i*LEAF_W+:LEAF_W] == leaf_next) begin
          count_next = count_next + 1'b1;
        end else begin
          heads[i] = open_next;
          leaf_next = in_leaves[i*LEAF_W+:LEAF_W];
          count_next = INDEX_W'(1);
          first_next = place_next;
        end
        open_next = 1'b1;
        place_next = place_next + 1'b1;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      out_valid <= 1'b0;
      open <= 1'b0;
      closing <= 1'b0;
      place <= '0;
    end else if (room) begin
      out_valid <= taken || closing;
      closing <= taken && in_last;
      if (closing) begin
        open <= 1'b0;
        place <= '0;
      end else if (taken) begin
        open <= open_next;
        place <= place_next;
      end
    end
    if (taken) begin
      leaf <= leaf_next;
      count <= count_next;
      first <= first_next;
    end
    if (room) begin
      out_mask <= closing ? '0 : in_mask;
      out_keys <= in_keys;
      out_indices <= in_indices;
      out_leaves <= in_leaves;
      out_last <= closing;
      out_heads <= closing ? W'(open) : heads;
      out_head_leaves <= closing ? {W{leaf}} : head_leaves;
      out_head_counts <= closing ? {W{count}} : head_counts;
      out_head_firsts <= closing ? {W{first}} : head_firsts;
    end
  end
endmodule
