// The intakes of a worker: the one that is being filled, or answered, and those in flight with devices, which are
// answered in the order in which they were handed over. A connection with requests in flight is not received from, so
// that its replies come in order.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "net/intake.hpp"
#include "net/worker_state.hpp"

namespace tandem::net {

class Batches {
 public:
  // The worker outlives the batches.
  explicit Batches(WorkerState& worker);

  void begin_pass(std::uint64_t now) noexcept {
    pass_begin_ = in_.begin = in_.since = now;
    in_.sampled = worker_.meter.sampled();
  }
  // REQUIRES: what was received is answered or handed over.
  void end_pass() noexcept {
    TD_ASSERT(in_.empty());
    input().reuse();
  }

  // The intake that is being filled; between begin_answer() and end_answer(), the oldest of those that were in flight.
  Intake& in() noexcept { return in_; }
  InputArena& input() noexcept { return in_.batch->input(); }

  // Hands the intake over: calls submit() for its flight, and begins another one. REQUIRES: Runner::can_fill() after
  // it.
  template <class Submit>
  void hand_over(Submit submit) {
    mark_in_flight(true);
    std::swap(in_, in_flight_[worker_.runner->next()]);
    submit();
    begin_intake();
  }
  // Whether the intake that was handed over first can be answered without waiting.
  bool has_answers() const noexcept { return worker_.runner->in_flight() != 0 && worker_.runner->oldest_is_done(); }
  // Exchanges it with the one that is being filled; end_answer() exchanges them again. REQUIRES: Runner::in_flight() !=
  // 0.
  void begin_answer();
  void end_answer() noexcept;

 private:
  void begin_intake();
  void mark_in_flight(bool is_in_flight) noexcept;

  WorkerState& worker_;
  Intake in_;
  std::vector<Intake> in_flight_;  // by the number of the flight
  unsigned answering_ = 0;         // number of the flight that is being answered
  std::uint64_t pass_begin_ = 0;   // ticks
};

}  // namespace tandem::net
