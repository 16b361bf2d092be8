#include "lane/divide.hpp"

#include <cstring>
#include <utility>

#include "codec/scan.hpp"
#include "codec/tokens.hpp"

namespace tandem {

void StreamDivider::divide(const char* begin, const char* end, std::vector<StreamPart>& parts) {
  keys_.clear();
  refused_ = 0;
  next_.reset();
  const std::size_t first = parts.size();
  for (const char* at = begin;;) {
    StreamPart part;
    take(at, end, part);
    part.begin = at;
    const bool goes_on = at != end && parts.size() - first + 1 < parts_max;
    const char* const next = goes_on ? resume(at, end) : nullptr;
    part.end = at = next != nullptr ? next : end;
    parts.push_back(part);
    if (next == nullptr) return;
  }
}

// The device's answers from `at` on, which passes them.
void StreamDivider::take(const char*& at, const char* end, StreamPart& part) {
  const std::uint64_t end_offset = input_->offset_of(end);
  while (at != end) {
    FrameRun run;
    if (next_) {
      run = *next_;  // nothing was looked for since
      next_.reset();
    } else if (!runner_.find_frames(input_->offset_of(at), end_offset, run) || !is_free(at, run.bytes)) {
      return;
    }
    add(run, part);
    at += run.bytes;
  }
}

void StreamDivider::add(const FrameRun& run, StreamPart& part) {
  const char* const replies = runner_.reply(run);
  if (part.answered.requests == 0) {
    part.replies = replies;
  } else {
    if (const char* const first = std::exchange(part.replies, nullptr); first != nullptr) {
      part.joined_begin = joined_.size();
      joined_.append(first, part.reply_bytes);
    }
    joined_.append(replies, run.reply_bytes);
  }
  part.reply_bytes += run.reply_bytes;
  part.answered.add(FrameCounts::of(run));
  runner_.mark_frames();
}

// Behind requests from `at` on that are the lane's: where the device's answers go on. nullptr: nowhere in the stream.
const char* StreamDivider::resume(const char* at, const char* end) noexcept {
  const std::uint64_t end_offset = input_->offset_of(end);
  for (;;) {
    const std::uint64_t found = runner_.next_frames(input_->offset_of(at));
    if (found >= end_offset) return nullptr;
    const char* const run_begin = input_->begin() + found;
    // Where a run begins in a value, the value's end is behind it.
    while (at < run_begin) {
      at = scan(at, end);
      if (at == nullptr) return nullptr;
    }
    if (at != run_begin) continue;
    FrameRun run;
    if (!runner_.find_frames(found, end_offset, run)) {  // its first request has a miss that is not final
      at = scan(at, end);
      if (at == nullptr) return nullptr;
      continue;
    }
    if (is_free(run_begin, run.bytes)) {
      next_ = run;
      return run_begin;
    }
    if (refused_ == refused_max) return nullptr;
  }
}

// Notes the keys of the request at `p` and returns its end. nullptr: it is not a whole one that the lane may execute.
const char* StreamDivider::scan(const char* p, const char* end) noexcept {
  using codec::starts_with;
  constexpr std::ptrdiff_t request_bytes_min = 7;
  if (end - p < request_bytes_min) return nullptr;
  const auto* const line_end = static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p)));
  if (line_end == nullptr) return nullptr;
  if (starts_with(p, "get ")) return scan_keys(p + 4, line_end) ? line_end + 1 : nullptr;
  if (starts_with(p, "gets ")) return scan_keys(p + 5, line_end) ? line_end + 1 : nullptr;
  const bool is_set = starts_with(p, "set ");
  if (!is_set && !starts_with(p, "mg ") && !starts_with(p, "ms ")) return nullptr;
  const char* const key = p + (is_set ? 4 : 3);
  const char* const key_end = codec::find_delimiter(key, line_end, p);
  if (key_end == key || !keys_.add({key, static_cast<std::size_t>(key_end - key)})) return nullptr;
  if (starts_with(p, "mg ")) return line_end + 1;
  std::uint32_t value_bytes = 0;
  const char* word = key_end;
  for (int numbers = is_set ? 3 : 1; numbers != 0; --numbers) {
    if (*word != ' ') return nullptr;
    word = codec::number::read_plain(word + 1, line_end, value_bytes);
    if (word == nullptr) return nullptr;
  }
  constexpr std::ptrdiff_t around_value_bytes = 3;  // '\n', and "\r\n" behind it
  return end - line_end >= around_value_bytes + value_bytes ? line_end + around_value_bytes + value_bytes : nullptr;
}

// Notes the keys of a line up to its '\n'. False: there are too many.
bool StreamDivider::scan_keys(const char* p, const char* line_end) noexcept {
  for (;; ++p) {
    const char* const key_end = codec::find_delimiter(p, line_end, p);
    if (key_end == p || !keys_.add({p, static_cast<std::size_t>(key_end - p)})) return false;
    p = key_end;
    if (*p != ' ') return true;
  }
}

// Whether these answers have no key of what the lane is to execute ahead of them.
bool StreamDivider::is_free(const char* begin, std::size_t bytes) noexcept {
  const bool is_free = keys_.empty() || !keys_.may_have_any(begin, begin + bytes);
  refused_ = is_free ? 0 : refused_ + 1;
  return is_free;
}

void StreamDivider::append_segments(std::span<const StreamPart> parts, std::vector<LaneSegment>& segments) const {
  for (std::size_t i = 0; i < parts.size() && parts[i].begin != parts[i].end; ++i) {
    segments.push_back({.begin = parts[i].begin,
                        .end = parts[i].end,
                        .binary = false,
                        .front = i == 0 ? replies(parts[i]) : std::string_view{},
                        .back = i + 1 < parts.size() ? replies(parts[i + 1]) : std::string_view{},
                        .follows = i != 0});
  }
}

StreamDivider::Rest StreamDivider::finish(std::span<const StreamPart> parts,
                                          std::span<const LaneSegment> segments) noexcept {
  Rest rest{nullptr, {}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const StreamPart& part = parts[i];
    runner_.count_frames(part.answered);
    rest.answered.add(part.answered);
    if (i < segments.size() && !segments[i].is_answered()) {
      rest.begin = segments[i].rest;
      break;
    }
  }
  return rest;
}

std::size_t offer_again(std::span<LaneSegment> segments, std::size_t next) noexcept {
  while (next != 0 && next < segments.size() && segments[next].follows && !segments[next - 1].is_answered()) ++next;
  for (LaneSegment& segment : segments.subspan(next)) {
    segment = {.begin = segment.rest,
               .end = segment.end,
               .binary = segment.binary,
               .front = segment.front,
               .back = segment.back,
               .follows = segment.follows,
               .rest = segment.rest};
  }
  return next;
}

}  // namespace tandem
