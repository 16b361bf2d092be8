// What all parts of one worker share: the store's context, the planner, and what observes its work. The parts are, each
// knowing only those before it:
//
//   Connections, ConnectionLimits   sockets and their life; what they may hold
//   Sender                          SD: output to sockets
//   Streams                         answers that are sent in pieces
//   Work (src/work)                 intakes from RV to SD, here or in flight, and what answers them: PP to WR
//   Responder                       answers to control commands
//   Replies, with Messages          the work's sink: what only a server does for its clients
//   Receiver                        RV
//   Worker                          the event loop
//
// Thread safety: the worker's thread, except for what the members say themselves.
#pragma once
#include <cstdint>
#include <memory>

#include "net/counters.hpp"
#include "pipeline/runner.hpp"
#include "planner/planner.hpp"
#include "work/meter.hpp"
#include "worker/recorder.hpp"
#include "worker/state.hpp"

namespace tandem::net {

struct WorkerState {
  // `server` outlives the worker. Throws std::runtime_error (no context left).
  explicit WorkerState(State& server);

  // For the worker's Work. Without memory that a device can read, the host answers all.
  std::unique_ptr<Runner> make_runner();

  Heap& heap() const noexcept { return server.engine.shared().heap; }
  const Clock& clock() const noexcept { return server.engine.shared().clock; }
  bool is_verbose(int level) const noexcept { return server.verbosity.load(std::memory_order_relaxed) >= level; }

  State& server;
  Planner planner;
  const Engine::ContextPtr context;
  NetCounters counters;
  Recorder recorder;
  Meter meter;
  std::uint64_t pass = 0;  // number of the present pass
};

}  // namespace tandem::net
