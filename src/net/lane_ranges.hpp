// Where the lane has put a segment's replies.
#pragma once
#include "lane/lane.hpp"
#include "net/output_range.hpp"

namespace tandem::net {

inline OutputRange range_of(const LaneSegment& segment, const Output& output) noexcept {
  return {&output, segment.output_begin, segment.output_end, segment.externals_begin, segment.externals_end};
}

// Keys of the line are left.
inline bool is_within_line(const LaneSegment& segment) noexcept {
  return segment.rest != segment.end && !segment.binary && !segment.parser->begins_command() &&
         segment.rest[-1] != '\n';
}

}  // namespace tandem::net
