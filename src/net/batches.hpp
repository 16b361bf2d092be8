// The batches of a worker: the intake that is being filled, or answered, and those in flight with devices, which are
// answered in the order in which they were handed over. A connection with queries in flight is neither received from
// nor parsed, so that its replies come in order.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "net/connection_limits.hpp"
#include "net/connections.hpp"
#include "net/intake.hpp"
#include "net/responder.hpp"
#include "net/worker_state.hpp"

namespace tandem::net {

class Batches {
 public:
  // All outlive the batches.
  Batches(WorkerState& worker, Connections& connections, ConnectionLimits& limits, Responder& responder);

  void begin_pass(std::uint64_t now) noexcept {
    pass_begin_ = in_.begin = in_.since = now;
    in_.sampled = worker_.meter.sampled();
  }
  // REQUIRES: what was received is answered or handed over.
  void end_pass() noexcept {
    TD_ASSERT(!in_.has_unparsed());
    input().reuse();
  }

  // The intake that is being filled; between begin_answer() and end_answer(), the oldest of those that were in flight.
  Intake& in() noexcept { return in_; }
  Batch& batch() noexcept { return *in_.batch; }
  InputArena& input() noexcept { return in_.batch->input(); }
  // Adds an entry: input of a connection, or of a datagram (c: nullptr).
  Entry& add_entry(Connection* c, const char* begin, const char* end, UdpDatagram* datagram = nullptr);

  // Runs the batch on the host and sends its replies (MM to SD); keeps each connection's rest of its input. continues:
  // the last entry's connection or datagram has more input to parse. Its entry stays, unless it cannot continue now
  // (the connection is blocked, closed or streaming, or its turn has ended).
  void run(bool continues);

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
  // Between them: as run(), the stages that devices did not run.
  void answer() { execute(false); }
  void end_answer() noexcept;

  // What `stats conns` says that the connection waits for, where the parser knows.
  static void note_input(Connection& c) noexcept;

 private:
  void begin_intake();
  void mark_in_flight(bool is_in_flight) noexcept;
  void execute(bool continues);
  void finish(Entry& entry);

  WorkerState& worker_;
  Connections& connections_;
  ConnectionLimits& limits_;
  Responder& responder_;
  Intake in_;
  std::vector<Intake> in_flight_;  // by the number of the flight
  unsigned answering_ = 0;         // number of the flight that is being answered
  std::uint64_t pass_begin_ = 0;   // ticks
};

}  // namespace tandem::net
