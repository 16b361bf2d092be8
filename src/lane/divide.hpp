// Divides what a connection sent, when a device has seen it, into requests that the device has answered and parts for
// the lane.
//
// A device answers plain reads wherever they stand in the stream. Behind a request that it has left, its answers count
// if the lane executes all requests between: plain reads and sets, of other keys. Requests of one key take effect in
// the connection's order; a read of another key may take effect before a set ahead of it, at its launch
// (docs/decisions/0035-frames.md). What is between is scanned for its keys and ends; the lane parses it again, and
// where it does not execute all of it, the answers behind are given back. Answers that may have one of these keys are
// the lane's, and their keys count like those of what the device has left.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "codec/output.hpp"
#include "lane/lane.hpp"
#include "lane/left_keys.hpp"
#include "pipeline/runner.hpp"
#include "query/input_arena.hpp"

namespace tandem {

// Requests that the device has answered, and behind them a part that is for the lane.
struct StreamPart {
  FrameCounts answered{};
  // Their replies: where the device has put them, or joined from several places.
  const char* replies = nullptr;  // nullptr: they are joined
  std::size_t joined_begin = 0, reply_bytes = 0;
  const char* begin = nullptr;  // the lane's; nothing if the two are equal, which only the last part's may be
  const char* end = nullptr;
};

// Thread safety: one thread at a time, that of the runner.
class StreamDivider {
 public:
  static constexpr std::size_t parts_max = 4096;  // of one stream

  // hash_seed: of the store.
  StreamDivider(Runner& runner, std::uint64_t hash_seed) : runner_(runner), keys_(hash_seed) {}

  // Begins with the runner's oldest flight, whose input this is. REQUIRES: Runner::begin_frames() was true.
  void begin(const InputArena& input) noexcept {
    input_ = &input;
    joined_.clear();
  }
  // Appends the parts of the stream [begin, end), at least one, and marks the items that the device has read for the
  // first time. REQUIRES: the flight's epoch lasts; streams are divided in the order of the input. Throws
  // std::bad_alloc as Output does.
  void divide(const char* begin, const char* end, std::vector<StreamPart>& parts);
  // Valid until the flight ends, and the next stream is divided.
  std::string_view replies(const StreamPart& part) const noexcept {
    return {part.replies != nullptr ? part.replies : joined_.data() + part.joined_begin, part.reply_bytes};
  }
  // Appends a segment for each part that is not empty. The first one has the replies ahead of it, and each those behind
  // it. REQUIRES: no other stream is divided before the lane has run.
  void append_segments(std::span<const StreamPart> parts, std::vector<LaneSegment>& segments) const;
  // When the lane has run over the stream's segments, any number of times: where the general path goes on, and nullptr
  // if all of the stream is answered. Counts the device's answers up to there; those behind do not count.
  struct Rest {
    const char* begin;
    FrameCounts answered;  // by the device
  };
  Rest finish(std::span<const StreamPart> parts, std::span<const LaneSegment> segments) noexcept;

 private:
  // Answers with a left key in a row, behind which others are not looked for.
  static constexpr unsigned refused_max = 8;

  void take(const char*& at, const char* end, StreamPart& part);
  const char* resume(const char* at, const char* end) noexcept;
  const char* scan(const char* p, const char* end) noexcept;
  bool scan_keys(const char* p, const char* line_end) noexcept;
  bool is_free(const char* begin, std::size_t bytes) noexcept;
  void add(const FrameRun& run, StreamPart& part);

  Runner& runner_;
  const InputArena* input_ = nullptr;
  Output joined_;
  std::optional<FrameRun> next_;  // where resume() has found that the device's answers go on
  // Of the stream that is being divided.
  LeftKeys keys_;
  unsigned refused_ = 0;  // runs in a row
};

// After a run that has ended before segments[next]: prepares the rest for another one. Returns the first segment to
// offer: those behind what the lane has not executed are not.
std::size_t offer_again(std::span<LaneSegment> segments, std::size_t next) noexcept;

}  // namespace tandem
