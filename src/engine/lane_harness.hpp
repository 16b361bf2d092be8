// For tests and fuzzing: the same input to two stores, to one with a lane ahead of the general path, to the other
// without. Input for the lane lies in an allocation of exactly what it may read, and behind its end stands what could
// be taken for more of it.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "engine/reply_harness.hpp"
#include "lane/lane.hpp"

namespace tandem {

// A copy of `input` and the padding that a lane wants.
inline std::unique_ptr<char[]> padded(std::string_view input) {
  constexpr std::string_view decoy =
      "\r\nget k1\r\nget k2 v\r\nmg k1 v\r\nmg k1 v K\r\n\r\n k1 k2\r\nEND\r\nget k1\r\nmg k1 v\r\n";
  static_assert(decoy.size() >= lane_padding_bytes);
  std::unique_ptr<char[]> copy(new char[input.size() + lane_padding_bytes]);
  std::memcpy(copy.get(), input.data(), input.size());
  std::memcpy(copy.get() + input.size(), decoy.data(), lane_padding_bytes);
  return copy;
}

// A segment's replies; values that they pin are unpinned.
inline std::string replies_of(const LaneSegment& segment, const Output& out, Heap& heap) {
  std::string replies;
  std::size_t at = segment.output_begin;
  for (std::size_t i = segment.externals_begin; i < segment.externals_end; ++i) {
    const Output::Segment& external = out.externals()[i];
    replies.append(out.data() + at, external.offset - at).append(external.external, external.bytes);
    at = external.offset;
    if (external.pin != no_location) heap.unpin(external.pin);
  }
  return replies.append(out.data() + at, segment.output_end - at);
}

class LaneHarness {
 public:
  explicit LaneHarness(std::string_view instructions, const ProtocolOptions& options = {},
                       const EngineOptions& engine = codec::ReplyHarness::small_engine())
      : with_(options, engine), without_(options, engine), lane_(with_.context(), with_.options(), instructions) {
    with_.ahead = [this](Parser& parser, std::string_view input, Output& out) { return run(parser, input, out); };
  }

  // Both answer; what they say must be equal.
  struct Answers {
    std::string with, without;
  };
  Answers exchange(std::string_view input) { return {with_.exchange(input), without_.exchange(input)}; }
  void set_time(std::uint32_t now_s) {
    with_.set_time(now_s);
    without_.set_time(now_s);
  }
  bool closed() const noexcept { return with_.closed(); }
  const StoreCounters& counters_with() noexcept { return with_.context().counters; }
  const StoreCounters& counters_without() noexcept { return without_.context().counters; }
  Context& context_with() noexcept { return with_.context(); }
  Lane& lane() noexcept { return lane_; }
  Context& context_without() noexcept { return without_.context(); }
  std::uint64_t queries_of_lane = 0, sets_of_lane = 0, rows_of_lane = 0;
  std::size_t output_bytes_max = std::size_t{1} << 20;

 private:
  std::size_t run(Parser& parser, std::string_view input, Output& out) {
    const Parser::Speaks speaks = parser.speaks();
    if (speaks == Parser::Speaks::neither || !lane_.may_run()) return 0;
    const auto copy = padded(input);
    LaneSegment segment{.begin = copy.get(),
                        .end = copy.get() + input.size(),
                        .parser = &parser,
                        .binary = speaks == Parser::Speaks::binary,
                        .within_command = !parser.begins_command()};
    for (bool goes_on = true; goes_on;) {
      goes_on = lane_.run({&segment, 1}, out, out.size() + output_bytes_max) == 0 && segment.rest != segment.begin;
      queries_of_lane += segment.queries;
      rows_of_lane += segment.rows;
      for (const LaneCommand set : {LaneCommand::set, LaneCommand::meta_store, LaneCommand::binary_store})
        sets_of_lane += segment.commands[static_cast<std::size_t>(set)];
      if (goes_on) segment.resume();
    }
    return static_cast<std::size_t>(segment.rest - copy.get());
  }

  codec::ReplyHarness with_, without_;
  Lane lane_;
};

}  // namespace tandem
