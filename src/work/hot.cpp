// Where devices alone have the index: hot keys are answered by the host, ahead of what goes to a device (KVCG 6).
//
// Datagrams in any order, and the begin of a stream with little input, up to the first query whose key is cold. A long
// stream goes to a device whole: its kernel parses and hashes for less than the host would.
#include <cstddef>
#include <cstdint>
#include <utility>

#include "work/work.hpp"

namespace tandem {
namespace {

// Some four requests.
constexpr std::ptrdiff_t stream_bytes_max = 256;

}  // namespace

void Work::answer_hot() {
  if (in_.empty() || rows_only_ || (options_.in_order && runner_->in_flight() != 0) || !lane_.set_hot()) return;
  if (TD_UNLIKELY(in_.has_raw)) open_raw();
  bool any = false;
  followed_.clear();
  for (std::size_t i = 0; i < in_.segments.size(); ++i) {
    LaneSegment& segment = in_.segments[i];
    const bool is_datagram = segment.frame != nullptr;
    followed_.push_back(segment.follows ? 1 : 0);
    segment.follows = segment.follows && !is_datagram;
    if (segment.stopped || in_.askers[i].fills) continue;
    segment.stopped = in_.askers[i].is_over || (!is_datagram && segment.end - segment.begin > stream_bytes_max);
    any = any || !segment.stopped;
  }
  open_ = nullptr;
  if (any) run_while_it_may();
  if (TD_UNLIKELY(open_ != nullptr)) drop_open_message();
  lane_.set_answers(nullptr, nullptr);
  end_hot();
}

// Takes out of the intake what is answered, and whose owner takes no replies now, and tells the sink; prepares the
// rest.
void Work::end_hot() {
  const std::size_t count = in_.segments.size();
  hot_.askers.reserve(count);
  hot_.rows.reserve(in_.rows.size());
  places_.assign(count, 0);
  std::size_t left = 0;
  bool is_behind_left = false;  // the one before, in the order of a port's datagrams, is left
  for (std::size_t i = 0; i < count; ++i) {
    LaneSegment& segment = in_.segments[i];
    Asker& asker = in_.askers[i];
    is_behind_left = is_behind_left && followed_[i] != 0;
    bool is_done = asker.is_over || (segment.frame != nullptr && segment.is_answered());
    // Its connection may be closed, and is not to be met in a flight.
    if (!is_done && segment.frame == nullptr && !sink_.is_open(asker)) {
      sink_.ended(asker, segment, in_.since);
      is_done = true;
    }
    // What it has had by now was of hot keys.
    places_[i] = static_cast<std::uint32_t>(hot_.askers.size());
    hot_.askers.push_back(asker);
    if (is_done) continue;
    asker.commands = {};
    segment.resume();
    segment.stopped = segment.stopped || asker.fills;
    segment.follows = segment.frame != nullptr ? is_behind_left : followed_[i] != 0;
    segment.turn_begin = 0;
    is_behind_left = true;
    in_.segments[left] = segment;
    in_.askers[left++] = asker;
  }
  for (LaneRow row : in_.rows) {
    row.segment = places_[row.segment];
    hot_.rows.push_back(row);
  }
  in_.rows.clear();
  in_.segments.resize(left);
  in_.askers.resize(left);
  hot_.begin = in_.begin;
  hot_.oldest_receipt = in_.oldest_receipt;
  hot_.sampled = in_.sampled;
  hot_.queries = std::exchange(in_.queries, 0);
  hot_.hot = true;
  sink_.answered_all(hot_);
  hot_.clear();
  if (left == 0) in_.oldest_receipt = UINT64_MAX;
}

}  // namespace tandem
