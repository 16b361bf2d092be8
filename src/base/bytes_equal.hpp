// Equality of short byte strings, such as keys.
#pragma once
#include <cstdint>
#include <cstring>

#include "base/platform.hpp"

namespace tandem {

// Whether the n bytes are equal: overlapping words up to 32 bytes. Unlike a vectorised memcmp() it reads nothing past
// them: what follows an item's key may be a cache line that was not prefetched.
TD_INLINE bool bytes_equal(const char* a, const char* b, std::size_t n) noexcept {
  const auto differ = [a, b]<class Word>(Word, std::size_t at) {
    Word x, y;
    std::memcpy(&x, a + at, sizeof x);
    std::memcpy(&y, b + at, sizeof y);
    return x ^ y;
  };
  constexpr std::uint64_t word8 = 0;
  constexpr std::uint32_t word4 = 0;
  if (n >= 8) {
    if (n <= 16) return (differ(word8, 0) | differ(word8, n - 8)) == 0;
    if (n <= 32) return (differ(word8, 0) | differ(word8, 8) | differ(word8, n - 16) | differ(word8, n - 8)) == 0;
    return std::memcmp(a, b, n) == 0;
  }
  if (n >= 4) return (differ(word4, 0) | differ(word4, n - 4)) == 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

}  // namespace tandem
