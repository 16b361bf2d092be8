// State shared by the streams of a simulated device: its memory, its engines, its faults. Streams hold a reference, so
// it lives until the last of them is destroyed. Thread-safe.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "device/sim/sim_device.hpp"
#include "device/sim/sim_memory.hpp"

namespace tandem::sim {

using Clock = std::chrono::steady_clock;
using Nanoseconds = std::chrono::nanoseconds;

enum class Engine : std::uint8_t { copy_in, copy_out, kernel };

class Queue;

// Triggers one event: the nth call of hit() after set(n).
class Countdown {
 public:
  void set(std::uint64_t nth) noexcept { left_.store(nth, std::memory_order_relaxed); }
  bool hit() noexcept {
    std::uint64_t left = left_.load(std::memory_order_relaxed);
    while (left != 0 && !left_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
    }
    return left == 1;
  }

 private:
  std::atomic<std::uint64_t> left_{0};
};

class Core {
 public:
  explicit Core(const SimOptions& o);

  const SimOptions options;
  const DeviceInfo info;
  Memory memory;
  Countdown refuse, fail;
  std::atomic<double> slow{1};

  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  bool hung() const noexcept { return hung_.load(std::memory_order_acquire); }
  void set_lost() noexcept;
  void set_hung(bool hung) noexcept;
  // While true, calls block.
  void set_calls_blocked(bool blocked) noexcept {
    calls_blocked_.store(blocked);
    calls_blocked_.notify_all();
  }
  void wait_for_calls() const noexcept { calls_blocked_.wait(true); }

  // --- of the model
  Nanoseconds copy_time(std::uint64_t bytes) const noexcept;
  Nanoseconds kernel_time(std::uint64_t queries) const noexcept;
  struct Span {
    Clock::time_point begin, end;
  };
  // Reserves the engine for work that may begin at `ready`.
  Span reserve(Engine engine, Clock::time_point ready, Nanoseconds duration) noexcept;

  // Enrolled queues are woken when a fault begins or ends.
  void enrol(Queue& queue);
  void leave(Queue& queue) noexcept;
  void wake_all() noexcept;

 private:
  std::atomic<bool> lost_{false}, hung_{false}, calls_blocked_{false};
  std::mutex engines_mutex_;
  std::array<Clock::time_point, 3> engine_free_;
  std::mutex queues_mutex_;
  std::vector<Queue*> queues_;
};

}  // namespace tandem::sim
