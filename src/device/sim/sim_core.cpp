#include "device/sim/sim_core.hpp"

#include <algorithm>

#include "device/sim/sim_queue.hpp"

namespace tandem::sim {

Core::Core(const SimOptions& o)
    : options(o),
      info{.name = "sim",
           .backend = "sim",
           .number = o.number,
           .memory_bytes = o.memory_bytes,
           .multiprocessors = o.lanes},
      memory(o.number, o.memory_bytes) {}

void Core::set_lost() noexcept {
  lost_.store(true, std::memory_order_release);
  wake_all();
}

void Core::set_hung(bool hung) noexcept {
  hung_.store(hung, std::memory_order_release);
  wake_all();
}

Nanoseconds Core::copy_time(std::uint64_t bytes) const noexcept {
  if (options.copy_bytes_per_s <= 0) return Nanoseconds(0);
  return Nanoseconds(static_cast<std::int64_t>(static_cast<double>(bytes) / options.copy_bytes_per_s * 1e9));
}

Nanoseconds Core::kernel_time(std::uint64_t queries) const noexcept {
  if (options.lanes == 0) return Nanoseconds(0);
  return options.lane_time * static_cast<std::int64_t>((queries + options.lanes - 1) / options.lanes);
}

Core::Span Core::reserve(Engine engine, Clock::time_point ready, Nanoseconds duration) noexcept {
  const std::lock_guard lock(engines_mutex_);
  Clock::time_point& free = engine_free_[static_cast<std::size_t>(engine)];
  const Clock::time_point begin = std::max(ready, free);
  free = begin + duration;
  return {begin, free};
}

void Core::enrol(Queue& queue) {
  const std::lock_guard lock(queues_mutex_);
  queues_.push_back(&queue);
}

void Core::leave(Queue& queue) noexcept {
  const std::lock_guard lock(queues_mutex_);
  std::erase(queues_, &queue);
}

void Core::wake_all() noexcept {
  const std::lock_guard lock(queues_mutex_);
  for (Queue* queue : queues_) queue->wake();
}

}  // namespace tandem::sim
