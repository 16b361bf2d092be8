// Selects events for close observation: one in `mean`, with random gaps (uniform on 1 .. 2 mean - 1), so that no rhythm
// of the traffic is always hit or always missed.
//
// Thread safety: one thread.
#pragma once
#include <cstdint>

#include "base/platform.hpp"

namespace tandem {

class Sampler {
 public:
  static constexpr std::uint32_t mean = 16;  // number of events that a sample stands for

  explicit Sampler(std::uint32_t seed) noexcept : random_(seed | 1) { left_ = draw() % mean + 1; }

  TD_INLINE bool next() noexcept {
    if (TD_LIKELY(--left_ != 0)) return false;
    left_ = 1 + draw() % (2 * mean - 1);
    return true;
  }
  // Uniform on 0 .. 2^32 - 1, 0 excepted.
  std::uint32_t draw() noexcept {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 17;
    random_ ^= random_ << 5;
    return random_;
  }

 private:
  std::uint32_t random_;
  std::uint32_t left_;
};

}  // namespace tandem
