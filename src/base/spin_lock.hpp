// A lock of one byte for critical sections of nanoseconds with rare contention: one exchange to take, one store to
// release. Meets the standard's Lockable requirements (std::lock_guard, std::unique_lock). Not recursive.
#pragma once
#include <atomic>

#include "base/platform.hpp"
#include "base/yield.hpp"

namespace tandem {

class SpinLock {
 public:
  TD_INLINE void lock() noexcept {
    if (TD_UNLIKELY(locked_.exchange(true, std::memory_order_acquire))) lock_contended();
  }
  bool try_lock() noexcept {
    return !locked_.load(std::memory_order_relaxed) && !locked_.exchange(true, std::memory_order_acquire);
  }
  TD_INLINE void unlock() noexcept { locked_.store(false, std::memory_order_release); }
  bool is_locked() const noexcept { return locked_.load(std::memory_order_relaxed); }

 private:
  // Spins briefly, then yields: with fewer processors than threads the holder may need this one.
  TD_NOINLINE void lock_contended() noexcept {
    constexpr int spins_before_yield = 64;
    for (int spins = 0;; ++spins) {
      if (try_lock()) return;
      if (spins < spins_before_yield) {
        cpu_relax();
      } else {
        yield_processor();
      }
    }
  }

  std::atomic<bool> locked_{false};
};

}  // namespace tandem
