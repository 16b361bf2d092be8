#include "worker/worker_state.hpp"

#include "net/limits.hpp"
#include "net/log.hpp"

namespace tandem::net {

WorkerState::WorkerState(State& s)
    : server(s),
      planner(presets()[s.options.preset].preset, s.engine.schedulers(), s.engine.shared().placement),
      context(s.engine.make_context()),
      recorder(s.events, s.prefixes, s.engine.shared()),
      meter(*context, s.options.hot_keys) {}

std::unique_ptr<Runner> WorkerState::make_runner() {
  constexpr std::uint64_t arena_bytes = input_arena_bytes + lane_padding_bytes;
  if (planner.uses_device()) {
    try {
      auto runner = std::make_unique<Runner>(*context, server.engine.schedulers(), device_batch_queries, arena_bytes,
                                             Runner::Frames::yes);
      planner.join(server.engine.steering());
      return runner;
    } catch (const DeviceError& error) {
      log().warn("a worker goes without the GPU: {}", error.what());
      planner.leave_devices();
    }
  }
  return std::make_unique<Runner>(*context, nullptr, batch_queries, arena_bytes);
}

}  // namespace tandem::net
