// A device's answers to a batch's input, for a reader that goes through the input from front to back: runs of
// neighbouring requests, as far as their misses are final.
//
// Requests of one key take effect in the order of their connection, and a run took effect at its launch. So the fast
// lane notes the keys of what the host executes of a stream (LeftKeys), and behind them takes no run that may have one
// of them. Where it cannot tell any longer, the stream's remaining answers are given back to it.
//
// Thread safety: one thread at a time, while the columns' launch has ended and they are not filled again.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/key_sample.hpp"
#include "frames/frame_columns.hpp"
#include "frames/left_keys.hpp"

namespace tandem {

class FrameRuns {
 public:
  // store_seed: of the store's hash.
  explicit FrameRuns(std::uint64_t store_seed) : executed_(store_seed) {}

  // Begins with another batch. input: the arena of which the columns describe pieces. REQUIRES: FrameColumns::begin().
  void begin(const FrameColumns& columns, const char* input) noexcept;
  // Goes to any place of the input, before or behind the present one.
  void go_to(const char* at) noexcept;
  // Goes forward to `at`, where a request, a datagram or a raw frame begins. Whether a run begins there of which at
  // least one request counts; it is then run(), and passed. REQUIRES: `at` is not before the present place, and in the
  // input that was asked for.
  bool find(const char* at) noexcept;
  // The same for a run that is all of [at, end). False: none is, and none that begins there is passed.
  bool find_whole(const char* at, const char* end) noexcept;

  // What was found last, and the number of its tile.
  const FrameRun& run() const noexcept { return run_; }
  std::uint32_t tile() const noexcept { return run_tile_; }
  const char* reply(const FrameRun& run) const noexcept { return columns_->reply(run); }
  // Items that the run was the first to read since their marks were cleared.
  std::span<const Location> reads(std::uint32_t tile, const FrameRun& run) const noexcept {
    return columns_->reads_of(tile, run);
  }
  // The run's replies are sent.
  void count(const FrameRun& run) noexcept { counts_.add(FrameCounts::of(run)); }
  const FrameCounts& counts() const noexcept { return counts_; }

  // --- by the lane

  // Reads the stream that ends at `end`, from its begin on or where the last run of the lane has left it.
  void enter(const char* end) noexcept {
    if (TD_UNLIKELY(end != stream_end_)) begin_stream(end);
  }
  // As find(), if the run has no key of what the host executes ahead of it.
  bool take(const char* at) noexcept;
  // Where the next run begins that may be taken, of the stream that ends at `end`; `end`: there is none.
  const char* next(const char* end) const noexcept {
    return gives_back_ || next_ == nullptr || begin_of(*next_) >= end ? end : begin_of(*next_);
  }
  // The host executes a request of this key, of the present stream.
  void note_executed(std::string_view key) noexcept { gives_back_ = !executed_.add(key) || gives_back_; }
  // The lane's run ends within this stream. It may have read ahead of what it has answered.
  void leave(const char* end) noexcept;

 private:
  // After so many runs in a row with a noted key, later ones are not looked at.
  static constexpr unsigned refused_max = 8;

  const char* begin_of(const FrameRun& run) const noexcept { return input_ + run.begin; }
  void begin_stream(const char* end) noexcept;
  void pass() noexcept;

  const FrameColumns* columns_ = nullptr;
  const char* input_ = nullptr;
  FrameColumns::Place place_{};     // behind the next run
  const FrameRun* next_ = nullptr;  // nullptr: there is none
  std::uint32_t next_tile_ = 0, run_tile_ = 0;
  FrameRun run_{};
  FrameCounts counts_;
  // Of the stream that the lane reads.
  LeftKeys executed_;
  const char* stream_end_ = nullptr;
  const char* given_back_ = nullptr;  // the end of the stream that lost its keys
  unsigned refused_ = 0;              // runs in a row
  bool gives_back_ = false;
};

// The first key of each line of requests that a device has answered, in a datagram behind its header.
void offer_first_keys(const char* begin, const char* end, KeySample& keys) noexcept;

}  // namespace tandem
