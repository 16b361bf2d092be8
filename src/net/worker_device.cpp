// Batches that a device searches while the worker serves others.
#include <chrono>
#include <utility>

#include "net/worker.hpp"

namespace tandem::net {

// Hands the batch that was filled over, if the planner says so. Its last connection's further input (goes_on) waits
// until it is answered.
bool Worker::hand_over(bool goes_on) {
  Batch& batch = *in_.batch;
  batch.plan = planner_.plan_for(batch.size());
  if (batch.plan.of(Task::index) != Processor::device) return false;
  // The last one that is free stays free, to fill. A device that is late is not waited for: others would wait with it.
  constexpr std::chrono::microseconds patience(1000);
  while (device_->in_flight() + 1 == device_->count()) {
    if (!device_->wait_for_oldest(patience)) {
      batch.plan = plan_cpu;
      return false;
    }
    answer_oldest();
  }
  if (goes_on && in_.entries.back().rest != in_.entries.back().input_end) {
    in_.entries.back().stop = Stop::yield;
    counters_.conn_yields.add();
  }
  mark_in_flight(true);
  std::swap(in_, in_flight_[device_->next()]);
  device_->submit();
  begin_intake();
  return true;
}

// REQUIRES: what was taken in before is answered or handed over.
void Worker::begin_intake() {
  in_.batch = device_ != nullptr ? &device_->filling() : batch_.get();
  if (in_.arena == nullptr) {
    in_.arena.reset(new char[input_arena_bytes + lane_padding_bytes]);
    in_.entries.reserve(2 * events_per_pass);
  }
  in_.arena_used = 0;
  in_.begin = cycles_now();
  in_.since = pass_begin_;
  in_.oldest_receipt = UINT64_MAX;
  in_.sampled = sampled_;
}

bool Worker::has_answers() const noexcept { return device_->in_flight() != 0 && device_->oldest_is_done(); }

// Answers the batch that was handed over first, whatever is being taken in meanwhile.
void Worker::answer_oldest() {
  Intake& answered = in_flight_[device_->oldest()];
  std::swap(in_, answered);
  mark_in_flight(false);
  static_cast<void>(device_->begin_answer());  // it is in_.batch
  execute(false);
  device_->end_answer();
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
