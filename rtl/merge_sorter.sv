// Line-rate merge sorter (HeteroKV, III-B): W records a cycle in and out, batches of up to W * 2^LEVELS records.
//
// A record is {key, payload}. Batches come as blocks of W records of which `in_mask` says which exist; `in_last` marks a
// batch's last block, and an empty batch is one block with an empty mask. Out comes as many blocks, the records in
// ascending order of key and, among equal keys, of payload, with those that do not exist at the end. Where payloads are
// positions the order is stable. Batches follow each other without a gap and are not mixed.
//
// Level 0 sorts each block; level i merges runs of 2^(i-1) blocks in pairs.
module merge_sorter #(
    parameter int W = 2,
    parameter int LEVELS = 12,
    parameter int KEY_W = 32,
    parameter int PAYLOAD_W = 16
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic [W*KEY_W-1:0] in_keys,
    input logic [W*PAYLOAD_W-1:0] in_payloads,
    input logic [W-1:0] in_mask,
    input logic in_last,
    output logic out_valid,
    input logic out_ready,
    output logic [W*KEY_W-1:0] out_keys,
    output logic [W*PAYLOAD_W-1:0] out_payloads,
    output logic [W-1:0] out_mask,
    output logic out_last
);
  localparam int WIDTH = 1 + KEY_W + PAYLOAD_W;
  localparam int BLOCK = W * WIDTH;

  logic [BLOCK-1:0] records, sorted;
  for (genvar i = 0; i < W; i++) begin : g_in
    assign records[i*WIDTH+:WIDTH] = {!in_mask[i], in_keys[i*KEY_W+:KEY_W], in_payloads[i*PAYLOAD_W+:PAYLOAD_W]};
  end
  block_sort #(
      .W(W),
      .WIDTH(WIDTH)
  ) sort (
      .in (records),
      .out(sorted)
  );

  logic first_valid, first_end;
  logic [BLOCK-1:0] first_block;
  always_ff @(posedge clk) begin
    if (rst) first_valid <= 1'b0;
    else if (in_ready) first_valid <= in_valid;
    if (in_ready) begin
      first_block <= sorted;
      first_end <= in_last;
    end
  end

  logic [LEVELS:0] valid, ready, run_end, batch_end;
  logic [(LEVELS+1)*BLOCK-1:0] block;
  assign in_ready = !first_valid || ready[0];
  assign valid[0] = first_valid;
  assign block[0+:BLOCK] = first_block;
  assign run_end[0] = 1'b1;
  assign batch_end[0] = first_end;
  for (genvar l = 0; l < LEVELS; l++) begin : g_level
    merge_level #(
        .W(W),
        .WIDTH(WIDTH),
        .RUN(1 << l)
    ) level (
        .clk, .rst,
        .in_valid(valid[l]),
        .in_ready(ready[l]),
        .in_block(block[l*BLOCK+:BLOCK]),
        .in_run_end(run_end[l]),
        .in_batch_end(batch_end[l]),
        .out_valid(valid[l+1]),
        .out_ready(ready[l+1]),
        .out_block(block[(l+1)*BLOCK+:BLOCK]),
        .out_run_end(run_end[l+1]),
        .out_batch_end(batch_end[l+1])
    );
  end

  assign out_valid = valid[LEVELS];
  assign ready[LEVELS] = out_ready;
  assign out_last = batch_end[LEVELS];
  logic unused;
  assign unused = run_end[LEVELS];  // there is no level behind it
  for (genvar i = 0; i < W; i++) begin : g_out
    assign out_mask[i] = !block[LEVELS*BLOCK+i*WIDTH+WIDTH-1];
    assign out_keys[i*KEY_W+:KEY_W] = block[LEVELS*BLOCK+i*WIDTH+PAYLOAD_W+:KEY_W];
    assign out_payloads[i*PAYLOAD_W+:PAYLOAD_W] = block[LEVELS*BLOCK+i*WIDTH+:PAYLOAD_W];
  end
endmodule
