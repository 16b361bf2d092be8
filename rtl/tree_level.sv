// The processing element (PE) of one level of the tree, with the level's memory (HeteroKV, III-C1 and Fig. 2).
//
// A node is {count, FANOUT lowest keys, FANOUT children}: child i has the keys from low[i] up to low[i+1]. low[0] is never
// compared with a look-up's key, so child 0 has also what lies below it. A child is a node of the next level, or in the
// lowest level the number of a leaf.
//
// Time is counted in slots of two cycles. In cycle 0 of a slot (`phase` 0) the PE reads the node of the operation that
// comes down, in cycle 1 that of the update that comes up; each is worked on in the cycle after its read by the same
// comparators. So each level takes one operation down and one update up per slot, and never stalls: all latencies are
// constant.
//
// Reservation stations. When a node splits, operations are on their way that met its parent before the parent knew: those
// coming down hold the old node's number, and so do the paths of updates that will come back up. The last STATIONS
// slots' splits {old, separator, new} are kept here, and a reference to an old node with a key not below the separator is
// sent to the new one. Latencies are constant, so that after STATIONS slots no such reference is left. Written nodes wait
// for the write port in two registers, from which reads are forwarded.
module tree_level #(
    parameter int LEVEL = 0,  // 0 is the root's
    parameter int LEVELS = 2,
    parameter int KEY_W = 32,
    parameter int PTR_W = 16,
    parameter int FANOUT = 8,
    parameter int NODES = 1,
    parameter int STATIONS = 3
) (
    input logic clk,
    input logic rst,
    input logic phase,
    // Down: steady over both cycles of a slot.
    input logic down_valid,
    input logic [1:0] down_op,
    input logic [KEY_W-1:0] down_key,
    input logic [KEY_W-1:0] down_old,  // sweep: the separator that is gone
    input logic [PTR_W-1:0] down_leaf,  // insert: the leaf's number
    input logic [LEVELS*PTR_W-1:0] down_path,  // the nodes of this level and those above
    output logic next_valid,
    output logic [1:0] next_op,
    output logic [KEY_W-1:0] next_key,
    output logic [KEY_W-1:0] next_old,
    output logic [PTR_W-1:0] next_leaf,
    output logic [LEVELS*PTR_W-1:0] next_path,
    output logic [PTR_W-1:0] next_child,
    // Up, from the level below: steady over cycle 1 of a slot and cycle 0 of the next.
    input logic up_valid,
    input logic [1:0] up_op,
    input logic [KEY_W-1:0] up_key,
    input logic [KEY_W-1:0] up_new,  // replace: the new separator
    input logic [PTR_W-1:0] up_child,  // insert: the new node
    input logic [LEVELS*PTR_W-1:0] up_path,
    output logic above_valid,
    output logic [1:0] above_op,
    output logic [KEY_W-1:0] above_key,
    output logic [KEY_W-1:0] above_new,
    output logic [PTR_W-1:0] above_child,
    output logic [LEVELS*PTR_W-1:0] above_path,
    // An update ends here.
    output logic done,
    output logic done_found,
    output logic done_sweep,  // a node's first entry is dead: sweep with done_key
    output logic [KEY_W-1:0] done_key,
    output logic [PTR_W-1:0] room  // nodes (root: entries) that are left
);
  localparam bit ROOT = LEVEL == 0;
  localparam bit LOWEST = LEVEL == LEVELS - 1;
  localparam int COUNT_W = $clog2(FANOUT + 1);
  localparam int NODE_W = COUNT_W + FANOUT * (KEY_W + PTR_W);
  localparam int ADDR_W = NODES > 1 ? $clog2(NODES) : 1;
  localparam int HALF = FANOUT / 2 + 1;
  // Operations that come down, and updates that go up.
  localparam logic [1:0] LOOKUP = 2'd0, INSERT = 2'd1, REMOVE = 2'd2, SWEEP = 2'd3;
  localparam logic [1:0] REPLACE = 2'd3;

  // --- the operation of this cycle's read, and its node
  logic [KEY_W-1:0] read_key;
  logic [PTR_W-1:0] read_node;
  assign read_key = phase ? up_key : down_key;
  logic [STATIONS-1:0] station_valid;
  logic [PTR_W-1:0] station_old[0:STATIONS-1], station_new[0:STATIONS-1];
  logic [KEY_W-1:0] station_key[0:STATIONS-1];
  always_comb begin
    read_node = phase ? up_path[LEVEL*PTR_W+:PTR_W] : down_path[LEVEL*PTR_W+:PTR_W];
    for (int s = STATIONS - 1; s >= 0; s--) begin  // the oldest first: a new node may itself have split
      if (station_valid[s] && station_old[s] == read_node && read_key >= station_key[s]) read_node = station_new[s];
    end
  end

  // --- memory, written nodes on their way into it
  logic [NODE_W-1:0] mem[0:NODES-1];
  logic [NODE_W-1:0] mem_node, left_node, right_node, hit_node, node;
  logic [PTR_W-1:0] left_at, right_at, at;
  logic left_valid, right_valid, hit, write;
  logic [ADDR_W-1:0] write_addr;
  logic [NODE_W-1:0] write_node;
  localparam bit LEFT_PHASE = !LOWEST;  // the cycle after the one in which updates are worked on
  always_comb begin
    if (rst) begin
      write = 1'b1;
      write_addr = '0;
      write_node = {COUNT_W'(1), {(FANOUT * (KEY_W + PTR_W)) {1'b0}}};
    end else if (phase == LEFT_PHASE) begin
      write = left_valid;
      write_addr = left_at[ADDR_W-1:0];
      write_node = left_node;
    end else begin
      write = right_valid;
      write_addr = right_at[ADDR_W-1:0];
      write_node = right_node;
    end
  end
  always_ff @(posedge clk) begin
    if (write) mem[write_addr] <= write_node;
    mem_node <= mem[read_node[ADDR_W-1:0]];
    at <= read_node;
    hit <= (left_valid && left_at == read_node) || (right_valid && right_at == read_node);
    hit_node <= left_valid && left_at == read_node ? left_node : right_node;
  end
  assign node = hit ? hit_node : mem_node;

  // --- where the key belongs
  logic [KEY_W-1:0] key, low[0:FANOUT-1];
  logic [PTR_W-1:0] child[0:FANOUT-1];
  logic [COUNT_W-1:0] count, index;
  logic exact, is_down, is_up;
  assign is_down = phase && down_valid;
  assign is_up = !phase && up_valid;
  assign key = phase ? down_key : up_key;
  assign count = node[NODE_W-1-:COUNT_W];
  for (genvar i = 0; i < FANOUT; i++) begin : g_entry
    assign low[i] = node[FANOUT*PTR_W+i*KEY_W+:KEY_W];
    assign child[i] = node[i*PTR_W+:PTR_W];
  end
  logic [PTR_W-1:0] chosen;
  always_comb begin
    index = '0;
    exact = low[0] == key;
    chosen = child[0];
    for (int i = 1; i < FANOUT; i++) begin
      if (COUNT_W'(i) < count && low[i] <= key) begin
        index = COUNT_W'(i);
        exact = low[i] == key;
        chosen = child[i];
      end
    end
  end

  // --- what is done to the node
  logic insert, remove, replace, sweep, first, only, full, append, drop, split;
  logic [PTR_W-1:0] pointer, taken;
  assign insert = LOWEST ? is_down && down_op == INSERT : is_up && up_op == INSERT;
  assign remove = LOWEST ? is_down && down_op == REMOVE && exact && key != '0 : is_up && up_op == REMOVE;
  assign replace = !LOWEST && is_up && up_op == REPLACE;
  assign pointer = LOWEST ? down_leaf : up_child;
  assign first = index == '0;
  assign only = count == COUNT_W'(1);
  assign full = count == COUNT_W'(FANOUT);
  assign append = index == COUNT_W'(FANOUT - 1);
  assign sweep = is_down && down_op == SWEEP && low[0] == down_old && !only;
  assign drop = sweep || (remove && !first);
  assign split = insert && !exact && full && !ROOT;

  // The node with one more entry, behind `index`; with `index`'s entry changed; with one less.
  logic [(FANOUT+1)*KEY_W-1:0] more_low;
  logic [(FANOUT+1)*PTR_W-1:0] more_child;
  logic [FANOUT*KEY_W-1:0] same_low, less_low;
  logic [FANOUT*PTR_W-1:0] same_child, less_child;
  logic [COUNT_W-1:0] dropped;
  assign dropped = sweep ? '0 : index;
  for (genvar i = 0; i <= FANOUT; i++) begin : g_more
    if (i == 0) begin : g_first
      assign more_low[0+:KEY_W] = low[0];
      assign more_child[0+:PTR_W] = child[0];
    end else begin : g_later
      logic behind;
      assign behind = COUNT_W'(i) == index + 1'b1;
      if (i < FANOUT) begin : g_inside
        assign more_low[i*KEY_W+:KEY_W] = COUNT_W'(i) <= index ? low[i] : behind ? key : low[i-1];
        assign more_child[i*PTR_W+:PTR_W] = COUNT_W'(i) <= index ? child[i] : behind ? pointer : child[i-1];
      end else begin : g_last
        assign more_low[i*KEY_W+:KEY_W] = behind ? key : low[i-1];
        assign more_child[i*PTR_W+:PTR_W] = behind ? pointer : child[i-1];
      end
    end
  end
  for (genvar i = 0; i < FANOUT; i++) begin : g_same
    logic here;
    assign here = COUNT_W'(i) == index;
    assign same_low[i*KEY_W+:KEY_W] = here && replace ? up_new : low[i];
    assign same_child[i*PTR_W+:PTR_W] = here && insert ? pointer : child[i];
    if (i < FANOUT - 1) begin : g_shift
      assign less_low[i*KEY_W+:KEY_W] = COUNT_W'(i) < dropped ? low[i] : low[i+1];
      assign less_child[i*PTR_W+:PTR_W] = COUNT_W'(i) < dropped ? child[i] : child[i+1];
    end else begin : g_end
      assign less_low[i*KEY_W+:KEY_W] = low[i];
      assign less_child[i*PTR_W+:PTR_W] = child[i];
    end
  end
  // A full node splits in half, but behind its last entry only the new one moves, so that ascending keys fill nodes.
  logic [NODE_W-1:0] changed, right_half, right_single, left_half, left_full;
  logic [KEY_W-1:0] separator;
  assign left_half = {COUNT_W'(HALF), more_low[FANOUT*KEY_W-1:0], more_child[FANOUT*PTR_W-1:0]};
  assign left_full = {COUNT_W'(FANOUT), more_low[FANOUT*KEY_W-1:0], more_child[FANOUT*PTR_W-1:0]};
  assign right_half = {
    COUNT_W'(FANOUT + 1 - HALF),
    {(HALF - 1) {KEY_W'(0)}}, more_low[(FANOUT+1)*KEY_W-1:HALF*KEY_W],
    {(HALF - 1) {PTR_W'(0)}}, more_child[(FANOUT+1)*PTR_W-1:HALF*PTR_W]
  };
  assign right_single = {
    COUNT_W'(1),
    {(FANOUT - 1) {KEY_W'(0)}}, more_low[FANOUT*KEY_W+:KEY_W],
    {(FANOUT - 1) {PTR_W'(0)}}, more_child[FANOUT*PTR_W+:PTR_W]
  };
  assign separator = append ? more_low[FANOUT*KEY_W+:KEY_W] : more_low[HALF*KEY_W+:KEY_W];
  always_comb begin
    if (drop) changed = {count - 1'b1, less_low, less_child};
    else if (insert && !exact && split) changed = append ? left_full : left_half;
    else if (insert && !exact) changed = {count + 1'b1, more_low[FANOUT*KEY_W-1:0], more_child[FANOUT*PTR_W-1:0]};
    else changed = {count, same_low, same_child};
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      left_valid <= 1'b0;
      right_valid <= 1'b0;
    end else if (phase == LOWEST) begin  // updates are worked on in this cycle
      left_valid <= drop || insert || replace;
      right_valid <= split;
    end else if (sweep) begin  // it is alone in the tree
      right_valid <= 1'b1;
    end
    if (phase == LOWEST) begin
      left_at <= at;
      left_node <= changed;
      right_at <= taken;
      right_node <= append ? right_single : right_half;
    end else if (sweep) begin
      right_at <= at;
      right_node <= changed;
    end
  end
  if (ROOT) begin : g_root
    assign taken = '0;
    always_ff @(posedge clk) begin
      if (rst) room <= PTR_W'(FANOUT - 1);
      else if (insert && !exact) room <= room - 1'b1;
      else if (drop) room <= room + 1'b1;
    end
  end else begin : g_pool
    node_pool #(
        .NODES(NODES),
        .PTR_W(PTR_W)
    ) pool (
        .clk, .rst,
        .take(split),
        .next(taken),
        .give(remove && first && only),
        .given(at),
        .left(room)
    );
  end

  // --- stations: one more slot is over
  always_ff @(posedge clk) begin
    if (rst) begin
      station_valid <= '0;
    end else if (phase == LOWEST) begin
      for (int s = STATIONS - 1; s > 0; s--) begin
        station_valid[s] <= station_valid[s-1];
      end
      station_valid[0] <= split;
    end
    if (phase == LOWEST) begin
      for (int s = STATIONS - 1; s > 0; s--) begin
        station_old[s] <= station_old[s-1];
        station_new[s] <= station_new[s-1];
        station_key[s] <= station_key[s-1];
      end
      station_old[0] <= at;
      station_new[0] <= taken;
      station_key[0] <= separator;
    end
  end

  // --- down
  always_ff @(posedge clk) begin
    if (rst) begin
      next_valid <= 1'b0;
    end else if (phase) begin
      next_valid <= down_valid;
    end
    if (phase) begin
      next_op <= down_op;
      next_key <= down_key;
      next_old <= down_old;
      next_leaf <= down_leaf;
      next_child <= chosen;
      next_path <= down_path;
      next_path[LEVEL*PTR_W+:PTR_W] <= at;
      if (!LOWEST) next_path[(LOWEST ? LEVEL : LEVEL + 1)*PTR_W+:PTR_W] <= chosen;
    end
  end

  // --- up. The lowest level's updates are worked on in cycle 1 and wait a cycle.
  logic rise, rise_valid;
  logic [1:0] rise_op, rise_op_held;
  logic [KEY_W-1:0] rise_key, rise_new, rise_key_held, rise_new_held;
  logic [PTR_W-1:0] rise_child_held;
  logic [LEVELS*PTR_W-1:0] rise_path, rise_path_held;
  assign rise = split || (remove && first) || (replace && first && !ROOT);
  assign rise_op = split ? INSERT : remove && only ? REMOVE : REPLACE;
  assign rise_key = split ? separator : key;
  assign rise_new = replace ? up_new : low[1];
  assign rise_path = phase ? down_path : up_path;
  if (LOWEST) begin : g_hold
    always_ff @(posedge clk) begin
      if (rst) rise_valid <= 1'b0;
      else rise_valid <= rise;
      rise_op_held <= rise_op;
      rise_key_held <= rise_key;
      rise_new_held <= rise_new;
      rise_child_held <= taken;
      rise_path_held <= rise_path;
    end
  end else begin : g_pass
    assign rise_valid = rise;
    assign rise_op_held = rise_op;
    assign rise_key_held = rise_key;
    assign rise_new_held = rise_new;
    assign rise_child_held = taken;
    assign rise_path_held = rise_path;
  end
  always_ff @(posedge clk) begin
    if (rst) above_valid <= 1'b0;
    else if (!phase) above_valid <= rise_valid;
    if (!phase) begin
      above_op <= rise_op_held;
      above_key <= rise_key_held;
      above_new <= rise_new_held;
      above_child <= rise_child_held;
      above_path <= rise_path_held;
    end
  end

  // --- ends
  logic down_ends, up_ends;
  assign down_ends = LOWEST && is_down && down_op != LOOKUP && !rise;
  assign up_ends = is_up && !rise;
  always_ff @(posedge clk) begin
    if (rst) done <= 1'b0;
    else done <= down_ends || up_ends;
    done_found <= !(LOWEST && down_op == REMOVE && !remove);
    done_sweep <= replace;
    done_key <= up_new;
  end
endmodule
