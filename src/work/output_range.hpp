// A stretch of an Output: the replies to a stream, or one message to a datagram.
#pragma once
#include <cstddef>
#include <cstdint>

#include "codec/output.hpp"
#include "lane/lane.hpp"

namespace tandem {

// Output is sent at the latest when a strip ends with so much of it (pinned values counted).
inline constexpr std::size_t output_flush_bytes = 256 * 1024;

struct OutputRange {
  const Output* output;
  std::size_t begin, end;                      // buffer bytes
  std::size_t externals_begin, externals_end;  // pinned or lent stretches spliced in

  bool empty() const noexcept { return begin == end && externals_begin == externals_end; }
  bool has_externals() const noexcept { return externals_begin != externals_end; }
  // Whether it begins with a lent stretch; one that begins with a pinned one may have lent ones, too.
  bool is_lent() const noexcept { return has_externals() && output->externals()[externals_begin].pin == no_location; }
  std::size_t copied_bytes() const noexcept { return end - begin; }
  std::size_t bytes() const noexcept {
    std::size_t sum = copied_bytes();
    for (std::size_t i = externals_begin; i < externals_end; ++i)
      sum += static_cast<std::size_t>(output->externals()[i].bytes);
    return sum;
  }
  // How many stretches for_each() calls for, at most.
  std::size_t stretches_max() const noexcept { return 2 * (externals_end - externals_begin) + 1; }
  // Calls f(pointer, bytes, pin or no_location) for each stretch in order.
  template <class F>
  void for_each(F f) const {
    std::size_t at = begin;
    for (std::size_t i = externals_begin; i < externals_end; ++i) {
      const Output::Segment& segment = output->externals()[i];
      if (segment.offset > at) f(output->data() + at, segment.offset - at, no_location);
      f(segment.external, static_cast<std::size_t>(segment.bytes), segment.pin);
      at = segment.offset;
    }
    if (end > at) f(output->data() + at, end - at, no_location);
  }
};

// Where the lane has put a segment's replies.
inline OutputRange range_of(const LaneSegment& segment, const Output& output) noexcept {
  return {&output, segment.output_begin, segment.output_end, segment.externals_begin, segment.externals_end};
}

// Keys of the line are left.
inline bool is_within_line(const LaneSegment& segment) noexcept {
  return segment.rest != segment.end && !segment.binary && !segment.parser->begins_command() &&
         segment.rest[-1] != '\n';
}

}  // namespace tandem
