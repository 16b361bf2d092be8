#include "index/stripes.hpp"

namespace tandem {

std::uint64_t StripeLock::wait() noexcept {
  SpinWait waiting;
  for (;;) {
    std::uint64_t seen = stripe_.load(std::memory_order_relaxed);
    if ((seen & StripeWord::locked_bit) == 0 &&
        stripe_.compare_exchange_weak(seen, seen | StripeWord::locked_bit, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
      return seen;
    }
    waiting.once();
  }
}

}  // namespace tandem
