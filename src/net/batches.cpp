#include "net/batches.hpp"

#include "base/ticks.hpp"

namespace tandem::net {

Batches::Batches(WorkerState& worker) : worker_(worker), in_flight_(worker.runner->count()) { begin_intake(); }

void Batches::begin_intake() {
  in_.batch = &worker_.runner->filling();
  input().reuse();
  in_.restart_clock(cycles_now());
  in_.since = pass_begin_;
  in_.sampled = worker_.meter.sampled();
}

void Batches::begin_answer() {
  answering_ = worker_.runner->oldest();
  std::swap(in_, in_flight_[answering_]);
  mark_in_flight(false);
  static_cast<void>(worker_.runner->begin_answer());  // it is in_.batch
}

void Batches::end_answer() noexcept {
  worker_.runner->end_answer();
  std::swap(in_, in_flight_[answering_]);
}

// Connections and UDP ports with input in the intake wait for its answers: a port's buffers hold the datagrams.
void Batches::mark_in_flight(bool is_in_flight) noexcept {
  UdpPort* port = nullptr;
  for (const LaneWait& wait : in_.waits) {
    if (wait.connection != nullptr) {
      wait.connection->in_flight = is_in_flight;
    } else if (wait.datagram->reply.port != port) {
      port = wait.datagram->reply.port;
      port->batches_in_flight += is_in_flight ? 1u : ~0u;
    }
  }
}

}  // namespace tandem::net
