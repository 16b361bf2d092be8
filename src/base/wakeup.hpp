// Wakes one sleeping service thread; cheap to call repeatedly.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace tandem {

class WakeUp {
 public:
  // Any thread. A call while a wake-up is already pending is one relaxed load.
  void notify() noexcept {
    if (pending_.load(std::memory_order_relaxed)) return;
    {
      const std::lock_guard lock(mutex_);
      pending_.store(true, std::memory_order_relaxed);
    }
    condition_.notify_one();
  }
  // Called by the service thread: returns true when notified, or false after `timeout`.
  bool wait_for(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    const bool notified =
        condition_.wait_for(lock, timeout, [this] { return pending_.load(std::memory_order_relaxed); });
    pending_.store(false, std::memory_order_relaxed);
    return notified;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  std::atomic<bool> pending_{false};
};

}  // namespace tandem
