// Batches that a device searches while the worker serves others.
#include <chrono>
#include <utility>

#include "net/worker.hpp"

namespace tandem::net {

// Submits the batch that was filled, if devices begin with its plan. Its last connection's further input (goes_on)
// waits until it is answered.
bool Worker::hand_over(bool goes_on) {
  const Plan& plan = planner_.plan_for(in_.batch->size());
  in_.batch->plan = plan_cpu;
  if (!runner_->can_begin(plan)) return false;
  // The last one that is free stays free, to fill. A device that is late is not waited for: others would wait with it.
  constexpr std::chrono::microseconds patience(1000);
  while (runner_->in_flight() + 1 == runner_->count()) {
    if (!runner_->wait_for_oldest(patience)) return false;
    answer_oldest();
  }
  if (goes_on && in_.entries.back().rest != in_.entries.back().input_end) {
    in_.entries.back().stop = Stop::yield;
    counters_.conn_yields.add();
  }
  mark_in_flight(true);
  std::swap(in_, in_flight_[runner_->next()]);
  runner_->submit(plan);
  begin_intake();
  return true;
}

// REQUIRES: what was taken in before is answered or handed over.
void Worker::begin_intake() {
  in_.batch = &runner_->filling();
  in_.batch->input().reuse();
  in_.entries.reserve(2 * events_per_pass);
  in_.begin = cycles_now();
  in_.since = pass_begin_;
  in_.oldest_receipt = UINT64_MAX;
  in_.sampled = sampled_;
}

bool Worker::has_answers() const noexcept { return runner_->in_flight() != 0 && runner_->oldest_is_done(); }

// Answers the batch that was handed over first, whatever is being taken in meanwhile.
void Worker::answer_oldest() {
  Intake& answered = in_flight_[runner_->oldest()];
  std::swap(in_, answered);
  mark_in_flight(false);
  static_cast<void>(runner_->begin_answer());  // it is in_.batch
  execute(false);
  runner_->end_answer();
  std::swap(in_, answered);
}

// Whose queries the batch has.
void Worker::mark_in_flight(bool is_in_flight) noexcept {
  UdpPort* port = nullptr;
  for (const Entry& entry : in_.entries) {
    if (entry.connection != nullptr) {
      entry.connection->in_flight = is_in_flight;
    } else if (entry.reply.port != port) {
      port = entry.reply.port;
      port->batches_in_flight += is_in_flight ? 1u : ~0u;
      if (port->batches_in_flight == 0) udp_waits_ |= std::exchange(port->waits, false);
    }
  }
}

}  // namespace tandem::net
