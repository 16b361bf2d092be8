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

  // Judges the misses: calls is_final(fingerprint) for each. A line with one that is not final is left to the host.
  template <class IsFinal>
  void begin(IsFinal is_final);
  // The run up to its first line that is left to the host.
  FrameRun final_part(const FrameRun& run) const noexcept;
  // Of a run of this tile, or such a part of it: items that it was the first to read since their marks were cleared.
  std::span<const Location> reads_of(std::uint32_t tile, const FrameRun& run) const noexcept {
    return TD_LIKELY(answers_[tile].reads == 0) ? std::span<const Location>() : some_reads_of(answers_[tile], run);
  }
  const char* reply(const FrameRun& run) const noexcept { return replies_.data() + run.reply_at; }
  std::uint64_t keys() const noexcept;  // answered
  // Lines left to the host, by FrameLeft, misses that were not final not among them.
  std::array<std::uint64_t, frame_left_count> left() const noexcept;

  // All runs in the order of the input (FrameRuns, LocatedKeys).
  struct Place {
    std::uint32_t tile = 0, run = 0;
  };
  // At the first run of the last tile that begins at or before `at`.
  Place place_of(std::uint64_t at) const noexcept;
  // The run there, of Place::tile, which the place passes; nullptr: there are no more.
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
  std::span<const Location> some_reads_of(const FrameTileAnswer& answer, const FrameRun& run) const noexcept;

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
  std::vector<FrameMiss> cuts_;  // of misses that are not final, in the order of their lines
};

template <class IsFinal>
void FrameColumns::begin(IsFinal is_final) {
  cuts_.clear();
  for (std::uint32_t t = 0; t < tile_count_; ++t) {
    const FrameTileAnswer& answer = answers_[t];
    for (std::uint32_t m = answer.miss_at; m != answer.miss_at + answer.misses; ++m) {
      if (!is_final(misses_[m].f)) cuts_.push_back(misses_[m]);
    }
  }
}

}  // namespace tandem
