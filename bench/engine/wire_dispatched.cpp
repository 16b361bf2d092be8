// A driver whose batches are divided among threads.
#include <cstring>

#include "bench/engine/wire.hpp"
#include "net/limits.hpp"

namespace tandem::bench {

void WireDriver::run_dispatched(const Tape::Slice& requests, std::uint64_t received_ticks) {
  while (dispatch_->must_finish()) answer_dispatched();
  Batch& batch = runner_->filling();
  Segments& segments = segments_[runner_->next()];
  receive(requests, batch, segments);
  inputs_.clear();
  for (const Segment& s : segments) inputs_.push_back(requests_of(batch, s));
  segments.clear();
  dispatch_->post(inputs_, received_ticks);
  take_dispatched();
  while (dispatch_->in_flight() > DispatchMember::in_flight_max) answer_dispatched();
}

// Executes what it is given, and takes the replies that are there.
void WireDriver::take_dispatched() {
  execute(dispatch_->take_parcels());
  while (dispatch_->in_flight() != 0 && dispatch_->oldest_is_done()) answer_dispatched();
}

// Takes the replies to the oldest batch. While others have not executed its parcels, executes theirs; and its own if
// they do not begin.
void WireDriver::answer_dispatched() {
  constexpr unsigned looks_max = 1000;  // some ten microseconds
  for (unsigned looks = 0; !dispatch_->oldest_is_done(); ++looks) {
    if (execute(dispatch_->take_parcels())) {
      looks = 0;
    } else if (looks == looks_max) {
      execute(dispatch_->take_back());
      looks = 0;
    } else {
      cpu_relax();
    }
  }
  const auto [queries, received_ticks] = dispatch_->take_replies(output_);
  answered_.queries += queries;
  hand_over();
  record_latency(received_ticks, queries);
}

// By the lane, all together; what it leaves by the general path. False: there was nothing to do.
bool WireDriver::execute(std::span<Parcel* const> parcels) {
  if (parcels.empty()) return false;
  const Answered own = answered_;
  lane_segments_.clear();
  for (const Parcel* parcel : parcels) {
    const char* const begin = parcel->requests.get();
    lane_segments_.push_back({.begin = begin, .end = begin + parcel->request_bytes, .binary = false, .rest = begin});
  }
  const std::span<LaneSegment> all(lane_segments_);
  for (std::size_t i = 0; i < all.size() && lane_.may_run();) {
    const std::size_t done = lane_.run(all.subspan(i), output_, net::output_flush_bytes);
    bool any = done != 0;
    for (std::size_t k = i; k < all.size(); ++k) {
      any = any || all[k].rest != all[k].begin;
      parcels[k]->replies.append(output_.data() + all[k].output_begin, all[k].output_end - all[k].output_begin);
      all[k].output_begin = all[k].output_end = 0;
    }
    output_.clear();
    if (!any) break;
    i = offer_again(all, i + done);
  }
  Batch& batch = runner_->filling();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto left = static_cast<std::size_t>(all[i].end - all[i].rest);
    if (TD_LIKELY(left == 0)) continue;
    executed_ = parcels[i];
    batch.input().reuse();
    TD_ASSERT(batch.input().has_room(left + lane_padding_bytes));
    char* const to = batch.input().room();
    std::memcpy(to, all[i].rest, left);
    batch.input().take(left);
    const auto at = static_cast<std::uint32_t>(batch.input().offset_of(to));
    finish(batch, {{at, at + static_cast<std::uint32_t>(left)}});
    executed_ = nullptr;
  }
  answered_ = own;
  dispatch_->finish_parcels();
  return true;
}

}  // namespace tandem::bench
