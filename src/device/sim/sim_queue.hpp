// The work of one simulated stream and the thread that does it.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "device/kernel.hpp"
#include "device/sim/sim_core.hpp"

namespace tandem::sim {

struct Work {
  Engine engine = Engine::kernel;
  Nanoseconds duration{0};
  std::vector<MemoryRange> ranges;             // read and written
  std::function<bool(const HostMemory&)> run;  // false: failed. Empty: a mark, or a wait for one
  Clock::time_point queued{};
  DeviceMark mark = 0;
  std::shared_ptr<Queue> other;  // queue of the `mark` to wait for
};

// Thread safety: all calls at any time, except close().
class Queue {
 public:
  explicit Queue(std::shared_ptr<Core> core);
  ~Queue() { core_->leave(*this); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void run() noexcept;  // by its thread, until close() or the device is lost
  // No more work is submitted. run() returns when the queue is empty, or at once when the device hangs or is lost.
  void close() noexcept;
  void drop() noexcept;  // discards the rest of the queue

  [[nodiscard]] DeviceStatus push(Work work) noexcept;
  DeviceMark mark() noexcept;
  [[nodiscard]] DeviceStatus poll(DeviceMark mark) noexcept;
  [[nodiscard]] DeviceStatus wait(DeviceMark mark, Nanoseconds limit) noexcept;
  [[nodiscard]] std::uint64_t elapsed_ns(DeviceMark from, DeviceMark to) noexcept;
  void wake() noexcept;
  Core& core() const noexcept { return *core_; }

 private:
  struct Settled {
    DeviceMark mark = 0;
    Clock::time_point at;
  };
  static constexpr std::size_t remembered = 4096;  // times of marks

  bool stopped() const noexcept;  // no more work may be done here
  // False: stopped meanwhile.
  bool sleep_until(Clock::time_point t) noexcept;
  bool wait_while_hung() noexcept;
  bool wait_for(Queue& other, DeviceMark mark) noexcept;
  bool do_work(Work& work, bool& good) noexcept;
  // False: it failed, or its memory was released.
  bool run(const Work& work) const noexcept;
  void complete(DeviceMark mark, bool good) noexcept;

  const std::shared_ptr<Core> core_;
  std::mutex mutex_;
  std::condition_variable work_, settled_changed_;
  std::deque<Work> works_;
  DeviceMark last_ = 0;
  std::atomic<DeviceMark> settled_{0};
  std::atomic<bool> closing_{false}, ended_{false};
  std::set<DeviceMark> failed_;
  std::array<Settled, remembered> times_{};
};

}  // namespace tandem::sim
