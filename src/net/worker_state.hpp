// What all parts of one worker share: the store's context, the planner and runner of its batches, and what observes its
// work. The parts are, each knowing only those before it:
//
//   Connections, ConnectionLimits   sockets and their life; what they may hold
//   Sender                          SD: output to sockets
//   Streams                         answers that are sent in pieces
//   Responder, with Messages        the output, and answers to control commands
//   Batches                         intakes from RV to SD, here or in flight
//   LaneStage, FrameStage           PP to WR: answers by the lane, and by a device
//   Dispatcher                      what answers an input: the lane, or a device before it
//   Receiver                        RV
//   Worker                          the event loop
//
// Thread safety: the worker's thread, except for what the members say themselves.
#pragma once
#include <cstdint>
#include <memory>

#include "net/counters.hpp"
#include "net/meter.hpp"
#include "net/recorder.hpp"
#include "net/state.hpp"
#include "pipeline/runner.hpp"
#include "planner/planner.hpp"

namespace tandem::net {

struct WorkerState {
  // `server` outlives the worker. Without memory that a device can read, the host runs all batches. Throws
  // std::runtime_error (no context left).
  explicit WorkerState(State& server);

  Heap& heap() const noexcept { return server.engine.shared().heap; }
  const Clock& clock() const noexcept { return server.engine.shared().clock; }
  bool is_verbose(int level) const noexcept { return server.verbosity.load(std::memory_order_relaxed) >= level; }

  State& server;
  Planner planner;
  const Engine::ContextPtr context;
  NetCounters counters;
  Recorder recorder;
  Meter meter;
  std::unique_ptr<Runner> runner;  // each intake has the batch of one of its flights
  std::uint64_t pass = 0;          // number of the present pass
};

}  // namespace tandem::net
