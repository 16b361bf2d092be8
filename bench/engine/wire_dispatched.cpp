// A driver with batches divided among threads.
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/ticks.hpp"
#include "bench/engine/wire.hpp"

namespace tandem::bench {

void WireDriver::run_dispatched(const Tape::Slice& requests, std::uint64_t received_ticks) {
  while (dispatch_->must_finish()) answer_dispatched();
  {
    const Meter::Timed timed(meter_, Task::receive);
    std::memcpy(received_.data(), requests.requests.data(), requests.requests.size());
    sink_.add_clients(1);
  }
  inputs_.clear();
  std::uint32_t from = 0;
  for (const std::uint32_t end : requests.ends) {
    const std::size_t bytes = end - std::exchange(from, end);
    inputs_.emplace_back(received_.data() + end - bytes, bytes);
  }
  end_task(Task::receive);
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
  Output& output = work_.output();
  const auto [queries, received_ticks] = dispatch_->take_replies(output);
  answered_.queries += queries;
  Client& all = client(0);
  put(all, output.data(), output.size());
  if (TD_UNLIKELY(kept_ != nullptr)) kept_->append(std::exchange(all.kept, {}));
  output.clear();
  record_latency(received_ticks, queries);
}

// By the work, all together. False: there was nothing to do.
bool WireDriver::execute(std::span<Parcel* const> parcels) {
  if (parcels.empty()) return false;
  executes_parcels_ = true;
  try {
    std::size_t number = 0;
    for (Parcel* const parcel : parcels) {
      const char* const begin = parcel->requests.get();
      work_.lend(parcel, client(number++).parser, begin, begin + parcel->request_bytes, 0, false, parcel->follows);
    }
    work_.answer_here();
  } catch (...) {
    dispatch_->fail();
    throw;
  }
  executes_parcels_ = false;
  dispatch_->finish_parcels();
  return true;
}

}  // namespace tandem::bench
