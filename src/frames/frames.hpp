// Requests answered whole on a device: PP, S, KC, RD and WR in one kernel, from the bytes that were received to the
// bytes of their replies. Or PP and S alone: the kernel tells where the requests' keys are, in the input and, as
// candidates, in the heap, and the host's fast lane answers them. This file has the words that host and device
// exchange; frames-inl.hpp is the body of the kernel, written once for GPUs and for the simulated device.
//
// Input is a batch's input arena: pieces of TCP streams, datagrams of memcached's UDP protocol, and such datagrams in
// raw frames of a network (codec/ethernet.hpp). Pieces are gathered in tiles, which blocks of threads answer
// independently of each other. A tile finds the lines of its pieces by their ends, without knowing what stands before
// it: where an earlier line of the stream is not one of these requests, the host finds that out and parses what follows
// it.
//
// Raw frames have tiles of their own. A frame's checksums are verified, and its reply is a whole frame with headers and
// checksums. A frame that has a fault, or a request that is left, is the host's; its reply begins behind it.
//
// Grammar: `get` and `gets` of 1 to 16 keys, and `mg key` with the flag v and any of k or K, f, s, c, t, O and, but in
// a datagram, q, each once and in any order; one space between words, keys of 1 to 240 bytes above the space, lines of
// at most frame_line_bytes_max bytes that end in \r\n. Anything else is left to the host, and so is a request for an
// item that has no image, or has expired, is flushed, stale or of another key; a reply to a datagram of more than
// udp_datagram_bytes_max; and what does not fit a tile's tables. A datagram is answered whole or not at all, a raw
// frame likewise. Where the kernel tells locations: streams' `get`, `gets`, `mg key v` without other flags, and lines
// that begin with `set key ` or `ms key `, of which it reads no more. A line of a value may look like one of these.
//
// Linearizability: a launch follows a drain that began after its requests were received. All changes that completed
// before are in the replica, so an image that the launch finds was its key's item at some moment after the request's
// receipt (docs/decisions/0035-frames.md). A miss is the host's to confirm (final_miss()).
//
// Source: MemcachedGPU (Hetherington, O'Connor, Aamodt, SoCC 2015) 3.2.2, 4.1.1. Departures: values are in device
// memory, so replies are complete; TCP streams; no lock is taken.
#pragma once
#include <array>
#include <cstdint>
#include <type_traits>

#include "base/fingerprint.hpp"
#include "codec/ethernet.hpp"
#include "device/device.hpp"
#include "index/cuckoo/table_kernels.hpp"
#include "index/item_images.hpp"

namespace tandem {

// What the device reads of the arena at a time.
inline constexpr std::uint32_t frame_unit_bytes = 16;
inline constexpr std::uint32_t frame_line_bytes_max = 512;
inline constexpr std::uint32_t frame_line_bytes_min = 7;  // "get k\r\n"
inline constexpr std::uint32_t frame_line_keys_max = 16;
inline constexpr std::uint32_t frame_key_bytes_max = 240;
inline constexpr std::uint32_t frame_opaque_bytes_max = 32;  // of mg's flag O, the letter included
inline constexpr std::uint32_t raw_frame_bytes_min = ethernet::header_bytes + 8 + frame_line_bytes_min;
inline constexpr std::uint32_t raw_frame_bytes_max = ethernet::header_bytes + frame_line_bytes_max;

// Of a tile, at most: bytes of its pieces; pieces; units, which include what is read behind the last piece; lines and
// keys, beyond which the host answers.
inline constexpr std::uint32_t tile_bytes = 3584;
inline constexpr std::uint32_t tile_pieces_max = 128;
inline constexpr std::uint32_t tile_units_max = 288;
inline constexpr std::uint32_t tile_lines_max = 640;
inline constexpr std::uint32_t tile_keys_max = 768;

// A part of one stream, a datagram, or a raw frame. Its requests are those that begin in its `bytes` bytes; one of a
// stream may end in the `more` bytes behind them.
struct FramePiece {
  enum Kind : std::uint8_t { stream, datagram, raw };

  std::uint32_t first_unit;  // of the arena
  std::uint16_t tile_unit;   // where that is in the tile
  std::uint16_t units;
  std::uint16_t skip;  // bytes of the first unit before the piece
  std::uint16_t bytes;
  std::uint16_t more;
  Kind kind;
  // A stream: the piece does not begin at the stream's beginning. The byte before it is in its units, and the first
  // request is the one behind the next line end, from that byte on.
  bool continues;
};
static_assert(sizeof(FramePiece) == 16 && std::is_trivially_copyable_v<FramePiece>);

// Its pieces' units follow each other. With raw frames they are neighbouring units of the arena, and two pieces may
// have one in common.
struct FrameTile {
  std::uint32_t first_piece;
  std::uint8_t pieces;
  bool is_raw;  // all of them, or none
  std::uint16_t units;
};
static_assert(tile_pieces_max < 256);
static_assert(sizeof(FrameTile) == 8);

// Neighbouring requests of a piece that the device has answered, and their replies: contiguous, in order. Or raw frames
// without a gap between them. Or a piece of a stream, and the keys that are located in it.
struct FrameRun {
  std::uint32_t begin;     // of the first request (or of the datagram, headers included), from the arena's beginning
  std::uint32_t reply_at;  // in the arena of replies
  std::uint32_t reply_bytes;
  std::uint16_t bytes;     // of the requests
  std::uint16_t requests;  // lines; raw frames
  std::uint16_t keys, hits;
  std::uint16_t metas;       // of the requests: `mg`
  std::uint16_t first_read;  // its first one among the tile's reads
};
static_assert(sizeof(FrameRun) == 24);

// What a launch answers with.
enum class FrameAnswers : std::uint8_t {
  replies,
  locations,  // a LocatedKey for each of a run's keys, in place of its replies; it has no misses and no reads
};

// A key of a request, and its location when the launch searched.
struct alignas(8) LocatedKey {
  Location location;  // no_location: the replica has none
  std::uint16_t at;   // from the run's begin
  std::uint8_t key_bytes;
  std::uint8_t kind;  // the command, and what follows

  // Commands. Those of sets, and no others, have the bit.
  static constexpr std::uint8_t get = 0, gets = 1, meta_read = 2, set = 5, meta_store = 6;
  static constexpr std::uint8_t set_bit = 4, command_mask = 7;
  static constexpr std::uint8_t last_of_line = 1 << 3;
  static constexpr std::uint8_t continues = 1 << 4;    // not the first key of its line
  static constexpr std::uint8_t begins_many = 1 << 5;  // the first of several
  static constexpr std::uint8_t behind_gap = 1 << 6;   // the line before it has no located key, or is no neighbour
};
static_assert(sizeof(LocatedKey) == 8);

// Sums of runs.
struct FrameCounts {
  std::uint32_t requests = 0, keys = 0, hits = 0, metas = 0;

  static constexpr FrameCounts of(const FrameRun& run) { return {run.requests, run.keys, run.hits, run.metas}; }
  constexpr void add(const FrameCounts& other) {
    requests += other.requests;
    keys += other.keys;
    hits += other.hits;
    metas += other.metas;
  }
};

// An answered key that was not found, for the host to confirm.
struct FrameMiss {
  Fingerprint f;
  std::uint32_t line;  // where its line (or raw frame) begins, from the arena's beginning
  // Of the line's run: what it has before that line.
  std::uint32_t reply_bytes;
  std::uint16_t requests, keys, hits, metas;
};
static_assert(sizeof(FrameMiss) == 24);

// Why lines of a tile are left to the host.
enum class FrameLeft : std::uint8_t {
  other,     // they are not of the grammar, or not whole
  item,      // the item has no image, or needs the host
  length,    // the reply is longer than a datagram
  room,      // no room for keys, or for what the tile has to tell
  headers,   // a raw frame that is not plain UDP over IPv4
  checksum,  // a raw frame with a wrong one: dropped, as UDP drops it
};
inline constexpr std::size_t frame_left_count = 6;

struct FrameTileAnswer {
  std::uint32_t run_at, miss_at, read_at;
  std::uint16_t runs, misses;
  std::uint16_t reads;  // items read for the first time since their mark was cleared: their locations
  std::array<std::uint16_t, frame_left_count> left;  // lines
  std::uint16_t keys;                                // answered
};
static_assert(sizeof(FrameTileAnswer) == 32);

// One batch. Device addresses, of pinned memory.
struct FramePart {
  std::uint64_t input = 0, pieces = 0, tiles = 0;                           // read
  std::uint64_t answers = 0, runs = 0, misses = 0, reads = 0, replies = 0;  // written; an answer for each tile
  std::uint64_t input_bytes = 0;                                            // a multiple of frame_unit_bytes
  std::uint32_t tile_count = 0, piece_count = 0;
  std::uint32_t runs_max = 0, misses_max = 0, reads_max = 0, reply_bytes_max = 0;
  bool cas = true;       // `gets` tells CAS ids, else 0
  bool has_raw = false;  // some of its tiles have raw frames
};
inline constexpr std::uint32_t frame_parts_max = 32;  // of one launch

// Ends of what is used of a part's columns. In device memory, zero before the launch.
struct FrameCursors {
  std::uint32_t runs, misses, reads, replies;
};

// What the answers depend on, as of the launch.
struct FrameRules {
  std::uint64_t seed = 0, flush_cas = 0;   // of the key hash; items with smaller CAS ids are flushed, 0: none
  std::uint32_t now_s = 0;                 // of the store's clock
  std::array<std::uint64_t, 24> secret{};  // of XXH3
};

struct FramesArguments {
  DeviceIndex index;
  DeviceImages images;
  DevicePtr<FrameCursors> cursors;  // frame_parts_max of them
  FrameRules rules;
  FrameAnswers answers = FrameAnswers::replies;  // of all parts
  std::uint32_t parts = 0;                       // at most frame_parts_max; else the launch fails
  std::array<FramePart, frame_parts_max> part{};

  std::uint64_t queries() const noexcept;  // estimated by their bytes
  void memory(MemoryUse& use) const;
};

// Answers the pieces' requests. Tiles are independent: each appends what it has to tell behind other tiles' data, in
// any order.
extern const Kernel<FramesArguments> answer_frames;

// Its CUDA entry (frames_cuda.cu).
int cuda_answer_frames(const FramesArguments& a, CUstream_st* stream) noexcept;

// Rules of the key hash for this seed.
FrameRules frame_rules(std::uint64_t seed) noexcept;

}  // namespace tandem
