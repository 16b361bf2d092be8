// For tests of scans: writers that rest when a reader wants them to. A scan of all keys beside a writer that never
// rests may not meet one moment without a change: with a processor for each, and a sanitizer, none does.
#pragma once
#include <atomic>
#include <chrono>
#include <thread>

namespace tandem {

// Thread safety: any thread.
class WritersRest {
 public:
  // From now on. No one waits until all rest: the first scan meets the last changes.
  void want(bool wanted) noexcept { is_wanted_.store(wanted, std::memory_order_relaxed); }
  // A writer's place to rest, between any two changes.
  void rest_if_wanted() const {
    while (is_wanted_.load(std::memory_order_relaxed)) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

 private:
  std::atomic<bool> is_wanted_{false};
};

}  // namespace tandem
