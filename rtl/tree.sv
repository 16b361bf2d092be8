// Pipelined B+ tree of separators (HeteroKV's HOBT, III-C1): one PE and one memory a level, one look-up or update every
// two cycles. Level l has as many nodes as the levels above can point to; node 0 of each is there from the start, and leaf
// 0 has all keys.
//
// Operations: look up the leaf of a key (0); insert the separator `in_key`, from which on keys belong to leaf `in_leaf`, or
// give it another leaf if it is there (1); remove the separator, so that its keys belong to the leaf to the left (2).
//
// Order. Inserts and look-ups take effect in the order in which they are accepted. A remove takes effect at one moment
// between its acceptance and `remove_done`; look-ups go on meanwhile, other updates wait.
//
// An insert splits full nodes on its way back up. It waits, and is refused (`in_refused`, with `in_ready`) when no update
// is on its way, if a level might lack a node for it: so no split fails half-way. As long as each level has more nodes to
// spare than updates are on their way, inserts never wait. A remove first goes up, too: where the separator is a node's first, it is
// replaced in the level above by the next one, or removed there with its node. Until then look-ups that are on their way
// find the old leaf; a sweep then deletes the dead entry.
//
// Answers stay in order and wait in a queue; a look-up is accepted when the queue has room for it, so that the levels
// never stall.
module tree #(
    parameter int LEVELS = 4,
    parameter int FANOUT = 16,
    parameter int ROOT_FANOUT = FANOUT,
    parameter int KEY_W = 32,
    parameter int PTR_W = 16,
    parameter bit PHASE = 1'b0  // operations are accepted in odd cycles after a reset, or in even ones
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    output logic in_refused,
    input logic [1:0] in_op,
    input logic [KEY_W-1:0] in_key,
    input logic [PTR_W-1:0] in_leaf,
    output logic out_valid,
    input logic out_ready,
    output logic [PTR_W-1:0] out_leaf,
    output logic remove_done,
    output logic remove_found,
    output logic removing,
    output logic idle  // no update is on its way
);
  localparam int ANSWERS = 4 * LEVELS + 8;
  localparam int ANSWERS_W = $clog2(ANSWERS + 1);
  localparam int UPDATES_W = $clog2(4 * LEVELS + 8);
  localparam logic [1:0] LOOKUP = 2'd0, INSERT = 2'd1, REMOVE = 2'd2, SWEEP = 2'd3;

  logic phase;
  always_ff @(posedge clk) phase <= rst ? PHASE : !phase;

  // --- what is accepted
  logic [ANSWERS_W-1:0] asked;  // look-ups accepted, answers not yet taken
  logic [UPDATES_W-1:0] updates;  // on their way
  logic accepted, room_for_insert, sweep_due;
  logic [LEVELS-1:0] level_room;
  logic [KEY_W-1:0] sweep_key, sweep_old;
  assign room_for_insert = &level_room;
  assign idle = updates == '0;
  always_comb begin
    in_ready = 1'b0;
    in_refused = 1'b0;
    if (phase && !sweep_due) begin
      case (in_op)
        LOOKUP: in_ready = asked != ANSWERS_W'(ANSWERS);
        INSERT: begin
          in_ready = !removing && (room_for_insert || idle);
          in_refused = !room_for_insert;
        end
        REMOVE: in_ready = idle && !removing;
        default: in_ready = 1'b0;
      endcase
    end
  end
  assign accepted = in_valid && in_ready && !in_refused;

  // --- levels
  // Element l belongs to what comes down to level l, and to what leaves it upwards.
  /* verilator lint_off UNUSEDSIGNAL */  // above the root and below the lowest level
  localparam int PATH_W = LEVELS * PTR_W;
  logic [LEVELS:0] down_valid, up_valid;
  logic [(LEVELS+1)*2-1:0] down_op, up_op;
  logic [(LEVELS+1)*KEY_W-1:0] down_key, down_old, up_key, up_new;
  logic [(LEVELS+1)*PTR_W-1:0] down_leaf, up_child;
  logic [LEVELS*PTR_W-1:0] answer;
  logic [(LEVELS+1)*PATH_W-1:0] down_path, up_path;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [LEVELS-1:0] done, done_found, done_sweep;
  logic [LEVELS*KEY_W-1:0] done_key;

  logic first_valid;
  logic [1:0] first_op;
  logic [KEY_W-1:0] first_key;
  logic [PTR_W-1:0] first_leaf;
  always_ff @(posedge clk) begin
    if (rst) first_valid <= 1'b0;
    else if (phase) first_valid <= accepted || sweep_due;
    if (phase) begin
      first_op <= sweep_due ? SWEEP : in_op;
      first_key <= sweep_due ? sweep_key : in_key;
      first_leaf <= in_leaf;
    end
  end
  assign down_valid[0] = first_valid;
  assign down_op[0+:2] = first_op;
  assign down_key[0+:KEY_W] = first_key;
  assign down_old[0+:KEY_W] = sweep_old;
  assign down_leaf[0+:PTR_W] = first_leaf;
  assign down_path[0+:PATH_W] = '0;
  assign up_valid[LEVELS] = 1'b0;
  assign up_op[LEVELS*2+:2] = '0;
  assign up_key[LEVELS*KEY_W+:KEY_W] = '0;
  assign up_new[LEVELS*KEY_W+:KEY_W] = '0;
  assign up_child[LEVELS*PTR_W+:PTR_W] = '0;
  assign up_path[LEVELS*PATH_W+:PATH_W] = '0;

  for (genvar l = 0; l < LEVELS; l++) begin : g_level
    // How long a reference to a node that has split may last: down to the lowest level and back.
    localparam int DEPTH = LEVELS - 1 - l;
    localparam int STATIONS = DEPTH == 0 ? 3 : 2 * DEPTH + 1;
    logic [PTR_W-1:0] room;
    tree_level #(
        .LEVEL(l),
        .LEVELS(LEVELS),
        .KEY_W(KEY_W),
        .PTR_W(PTR_W),
        .FANOUT(l == 0 ? ROOT_FANOUT : FANOUT),
        .NODES(l == 0 ? 1 : ROOT_FANOUT * FANOUT ** (l - 1)),
        .STATIONS(STATIONS)
    ) level (
        .clk, .rst, .phase,
        .down_valid(down_valid[l]),
        .down_op(down_op[l*2+:2]),
        .down_key(down_key[l*KEY_W+:KEY_W]),
        .down_old(down_old[l*KEY_W+:KEY_W]),
        .down_leaf(down_leaf[l*PTR_W+:PTR_W]),
        .down_path(down_path[l*PATH_W+:PATH_W]),
        .next_valid(down_valid[l+1]),
        .next_op(down_op[(l+1)*2+:2]),
        .next_key(down_key[(l+1)*KEY_W+:KEY_W]),
        .next_old(down_old[(l+1)*KEY_W+:KEY_W]),
        .next_leaf(down_leaf[(l+1)*PTR_W+:PTR_W]),
        .next_path(down_path[(l+1)*PATH_W+:PATH_W]),
        .next_child(answer[l*PTR_W+:PTR_W]),
        .up_valid(up_valid[l+1]),
        .up_op(up_op[(l+1)*2+:2]),
        .up_key(up_key[(l+1)*KEY_W+:KEY_W]),
        .up_new(up_new[(l+1)*KEY_W+:KEY_W]),
        .up_child(up_child[(l+1)*PTR_W+:PTR_W]),
        .up_path(up_path[(l+1)*PATH_W+:PATH_W]),
        .above_valid(up_valid[l]),
        .above_op(up_op[l*2+:2]),
        .above_key(up_key[l*KEY_W+:KEY_W]),
        .above_new(up_new[l*KEY_W+:KEY_W]),
        .above_child(up_child[l*PTR_W+:PTR_W]),
        .above_path(up_path[l*PATH_W+:PATH_W]),
        .done(done[l]),
        .done_found(done_found[l]),
        .done_sweep(done_sweep[l]),
        .done_key(done_key[l*KEY_W+:KEY_W]),
        .room(room)
    );
    assign level_room[l] = room > PTR_W'(updates);
  end

  // --- updates on their way. Several may end in one cycle.
  logic [UPDATES_W-1:0] ended;
  logic ends_to_sweep, ended_found;
  logic [KEY_W-1:0] next_sweep_key;
  always_comb begin
    ended = '0;
    ends_to_sweep = 1'b0;
    ended_found = 1'b0;
    next_sweep_key = '0;
    for (int l = 0; l < LEVELS; l++) begin
      ended = ended + UPDATES_W'(done[l]);
      if (done[l] && done_sweep[l]) begin
        ends_to_sweep = 1'b1;
        next_sweep_key = done_key[l*KEY_W+:KEY_W];
      end
      if (done[l] && done_found[l]) ended_found = 1'b1;
    end
  end
  always_ff @(posedge clk) begin
    remove_done <= 1'b0;
    if (rst) begin
      updates <= '0;
      removing <= 1'b0;
      sweep_due <= 1'b0;
    end else begin
      // A remove that is to be followed by a sweep has not ended.
      updates <= updates + UPDATES_W'(accepted && in_op != LOOKUP) - (ends_to_sweep ? '0 : ended);
      if (accepted && in_op == REMOVE) begin
        removing <= 1'b1;
        sweep_old <= in_key;
      end else if (removing && ended != '0 && !ends_to_sweep) begin
        removing <= 1'b0;
        remove_done <= 1'b1;
        remove_found <= ended_found;
      end
      if (ends_to_sweep) sweep_due <= 1'b1;
      else if (phase) sweep_due <= 1'b0;
      if (ends_to_sweep) sweep_key <= next_sweep_key;
    end
  end

  // --- answers
  logic answers_ready, unused;
  assign unused = answers_ready;  // `asked` keeps room
  fifo #(
      .WIDTH(PTR_W),
      .DEPTH(ANSWERS)
  ) answers (
      .clk, .rst,
      .push(!phase && down_valid[LEVELS] && down_op[LEVELS*2+:2] == LOOKUP),
      .data(answer[(LEVELS-1)*PTR_W+:PTR_W]),
      .ready(answers_ready),
      .pop(out_ready),
      .head_valid(out_valid),
      .head(out_leaf)
  );
  always_ff @(posedge clk) begin
    if (rst) asked <= '0;
    else asked <= asked + ANSWERS_W'(accepted && in_op == LOOKUP) - ANSWERS_W'(out_valid && out_ready);
  end
endmodule
