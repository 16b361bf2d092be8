// A batch's columns for answer_frames (frames.hpp), in pinned memory: its input as pieces in tiles, and what the device
// wrote about them.
//
// Thread safety: one thread at a time, and not while a launch uses the columns.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "frames/frames.hpp"

namespace tandem {

class FrameColumns {
 public:
  // For input of `input_bytes` bytes, and answers for up to `keys` keys of `reply_bytes` bytes. Throws DeviceError.
  FrameColumns(Device& device, std::uint64_t input_bytes, std::uint32_t keys, std::uint64_t reply_bytes);

  // --- filling. Offsets are from the arena's beginning, and ascend from call to call.

  // Discards the pieces.
  void clear() noexcept;
  // Adds the bytes of a stream from the beginning of a request on, or a datagram. False: there is no room for it, or it
  // can hold no request of the grammar. REQUIRES: frame_unit_bytes bytes behind it can be read.
  bool add_stream(std::uint64_t begin, std::uint64_t bytes) noexcept;
  bool add_datagram(std::uint64_t begin, std::uint64_t bytes) noexcept;
  // Likewise a raw frame. Replies to frames without a gap between them may be one run.
  bool add_frame(std::uint64_t begin, std::uint64_t bytes) noexcept;
  bool empty() const noexcept { return piece_count_ == 0; }
  // For a launch. input: the arena.
  FramePart part(DevicePtr<const char> input) const noexcept;

  // --- reading, after the launch

  // Begins to read. Calls is_final(fingerprint) for each miss: a line with one that is not final is left to the host.
  template <class IsFinal>
  void begin(IsFinal is_final);
  // The run that begins at `at`, of the stream or datagram that ends at `end`, up to the first line that is left to the
  // host. False: none does. REQUIRES: `at` ascends from call to call.
  bool take_run(std::uint64_t at, std::uint64_t end, FrameRun& run) noexcept;
  // The run that is all of [at, end). False: there is no such run, and nothing has changed. REQUIRES: as take_run().
  bool take_whole(std::uint64_t at, std::uint64_t end, FrameRun& run) noexcept;
  // Where the first run from `at` on begins; ~0: there is none. REQUIRES: as take_run().
  std::uint64_t next_run(std::uint64_t at) noexcept;
  // Of the run that was taken last: items that were read for the first time since their marks were cleared.
  std::span<const Location> reads() const noexcept {
    const FrameTileAnswer& answer = answers_[tile_];
    const std::uint32_t begin = runs_[answer.run_at + run_ - 1].first_read;
    const std::uint32_t end = run_ < answer.runs ? runs_[answer.run_at + run_].first_read : answer.reads;
    return {reads_.data() + answer.read_at + begin, end - begin};
  }
  const char* reply(const FrameRun& run) const noexcept { return replies_.data() + run.reply_at; }
  std::uint64_t keys() const noexcept;  // answered
  // Lines left to the host, by FrameLeft, misses that were not final not among them.
  std::array<std::uint64_t, frame_left_count> left() const noexcept;

  // All runs in the order of the input, for a reader that has a place of its own.
  struct Place {
    std::uint32_t tile = 0, run = 0;
  };
  // At the first run of the last tile that begins at or before `at`.
  Place place_of(std::uint64_t at) const noexcept;
  // The run there, which the place passes; nullptr: there are no more.
  const FrameRun* next_run(Place& place) const noexcept {
    for (; place.tile < tile_count_; ++place.tile, place.run = 0) {
      const FrameTileAnswer& answer = answers_[place.tile];
      if (place.run < answer.runs) return &runs_[answer.run_at + place.run++];
    }
    return nullptr;
  }

 private:
  bool add(std::uint64_t begin, FramePiece piece) noexcept;
  bool begin_tile(bool is_raw) noexcept;
  const FrameRun* look_for(std::uint64_t at) noexcept;

  std::uint64_t input_bytes_;
  PinnedArray<FramePiece> pieces_;
  PinnedArray<FrameTile> tiles_;
  PinnedArray<FrameTileAnswer> answers_;
  PinnedArray<FrameRun> runs_;
  PinnedArray<FrameMiss> misses_;
  PinnedArray<Location> reads_;
  PinnedArray<char> replies_;
  std::uint32_t piece_count_ = 0, tile_count_ = 0;
  std::uint32_t bytes_of_tile_ = 0;
  std::uint64_t first_unit_of_tile_ = 0;  // of one of raw frames
  bool has_raw_ = false;
  // Where reading stands.
  std::uint32_t tile_ = 0, run_ = 0;
  std::vector<FrameMiss> cuts_;  // of misses that are not final, in the order of their lines
};

template <class IsFinal>
void FrameColumns::begin(IsFinal is_final) {
  tile_ = run_ = 0;
  cuts_.clear();
  for (std::uint32_t t = 0; t < tile_count_; ++t) {
    const FrameTileAnswer& answer = answers_[t];
    for (std::uint32_t m = answer.miss_at; m != answer.miss_at + answer.misses; ++m) {
      if (!is_final(misses_[m].f)) cuts_.push_back(misses_[m]);
    }
  }
}

}  // namespace tandem
