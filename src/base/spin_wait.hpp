// Waits for an action of another thread that takes a few hundred nanoseconds.
#pragma once
#include <cstdint>

#include "base/platform.hpp"
#include "base/yield.hpp"

namespace tandem {

// Spins first, then yields the processor (yield_processor()), since the other thread may have been preempted. One
// object per wait. Thread safety: one thread.
class SpinWait {
 public:
  void once() noexcept {
    if (++turns_ <= spins_max) {
      cpu_relax();
    } else {
      yield_processor();
    }
  }

 private:
  static constexpr std::uint32_t spins_max = 64;
  std::uint32_t turns_ = 0;
};

}  // namespace tandem
