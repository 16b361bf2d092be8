// A driver with batches divided among threads.
#include <stdexcept>

#include "base/ticks.hpp"
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

// Takes the replies to the oldest batch. While other drivers have not executed its parcels, executes theirs; its own if
// they do not begin.
void WireDriver::answer_dispatched() {
  constexpr double patience_ns = 20'000;
  static const auto patience_ticks = static_cast<std::uint64_t>(patience_ns / ns_per_tick());
  for (std::uint64_t since = cycles_now(); !dispatch_->oldest_is_done();) {
    if (TD_UNLIKELY(dispatch_->has_failed())) throw std::runtime_error("another thread has failed");
    if (cycles_now() - since > patience_ticks) {
      execute(dispatch_->take_back());
      since = cycles_now();
    } else if (!execute(dispatch_->take_parcels())) {
      cpu_relax();
    }
  }
  const auto [queries, received_ticks] = dispatch_->take_replies(output_);
  answered_.queries += queries;
  output_replies_.push_back({0, {&output_, 0, output_.size(), 0, output_.externals().size()}});
  hand_over();
  record_latency(received_ticks, queries);
}

// False: there was nothing to do.
bool WireDriver::execute(std::span<Parcel* const> parcels) {
  if (parcels.empty()) return false;
  const Answered own = answered_;
  try {
    execute_all(parcels);
  } catch (...) {
    dispatch_->fail();
    throw;
  }
  answered_ = own;
  dispatch_->finish_parcels();
  return true;
}

// By the lane, all together; then what it leaves, and what is behind that.
void WireDriver::execute_all(std::span<Parcel* const> parcels) {
  input_.segments.clear();
  for (const Parcel* parcel : parcels) {
    const char* const begin = parcel->requests.get();
    const char* const end = begin + parcel->request_bytes;
    input_.segments.push_back({.begin = begin,
                               .end = end,
                               .parser = &lane_parser(input_.segments.size()),
                               .binary = false,
                               .follows = parcel->follows,
                               .rest = begin});
  }
  const std::span<LaneSegment> all(input_.segments);
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
    // What follows a segment that is not answered is not offered.
    for (i += done; i != 0 && i < all.size() && all[i].follows && !all[i - 1].is_answered();) ++i;
    for (LaneSegment& segment : all.subspan(i)) segment.resume();
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (TD_LIKELY(all[i].rest == all[i].end)) continue;
    executed_ = parcels[i];
    finish(all[i], 0);
    executed_ = nullptr;
  }
}

}  // namespace tandem::bench
