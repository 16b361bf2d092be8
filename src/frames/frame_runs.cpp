#include "frames/frame_runs.hpp"

#include <cstring>

namespace tandem {

void FrameRuns::begin(const FrameColumns& columns, const char* input) noexcept {
  columns_ = &columns;
  input_ = input;
  counts_ = {};
  stream_end_ = given_back_ = nullptr;
  go_to(input);
}

void FrameRuns::go_to(const char* at) noexcept {
  place_ = columns_->place_of(static_cast<std::uint64_t>(at - input_));
  pass();
}

void FrameRuns::pass() noexcept {
  next_ = columns_->next_run(place_);
  next_tile_ = place_.tile;
}

bool FrameRuns::find(const char* at) noexcept {
  while (next_ != nullptr && begin_of(*next_) < at) pass();
  if (next_ == nullptr || begin_of(*next_) != at) return false;
  run_ = columns_->final_part(*next_);
  run_tile_ = next_tile_;
  pass();
  return run_.requests != 0;
}

bool FrameRuns::find_whole(const char* at, const char* end) noexcept {
  while (next_ != nullptr && begin_of(*next_) < at) pass();
  if (next_ == nullptr || begin_of(*next_) != at || at + next_->bytes != end) return false;
  run_ = columns_->final_part(*next_);
  if (run_.bytes != next_->bytes) return false;
  run_tile_ = next_tile_;
  pass();
  return true;
}

void FrameRuns::begin_stream(const char* end) noexcept {
  stream_end_ = end;
  executed_.clear();
  refused_ = 0;
  gives_back_ = end == given_back_;
}

void FrameRuns::leave(const char* end) noexcept {
  if (end != stream_end_) given_back_ = end;  // what it has noted of this one is gone
}

bool FrameRuns::take(const char* at) noexcept {
  if (gives_back_ || !find(at)) return false;
  if (TD_LIKELY(executed_.empty() || !executed_.may_have_any(at, at + run_.bytes))) {
    refused_ = 0;
    return true;
  }
  gives_back_ = ++refused_ == refused_max;
  return false;
}

void offer_first_keys(const char* begin, const char* end, KeySample& keys) noexcept {
  while (begin < end) {
    const auto* const space = static_cast<const char*>(std::memchr(begin, ' ', static_cast<std::size_t>(end - begin)));
    if (space == nullptr) return;
    const char* key_end = space + 1;
    while (key_end < end && static_cast<unsigned char>(*key_end) > ' ') ++key_end;
    keys.offer({space + 1, static_cast<std::size_t>(key_end - space - 1)});
    const auto* const line_end =
        static_cast<const char*>(std::memchr(key_end, '\n', static_cast<std::size_t>(end - key_end)));
    if (line_end == nullptr) return;
    begin = line_end + 1;
  }
}

}  // namespace tandem
