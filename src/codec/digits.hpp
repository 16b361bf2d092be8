// Decimal numbers into a reply.
#pragma once
#include <cstdint>
#include <cstring>

#include "base/platform.hpp"

namespace tandem::codec {

inline constexpr std::size_t digits_max = 20;

namespace detail {
struct DigitPairs {
  char text[200];
  constexpr DigitPairs() : text() {
    for (int i = 0; i < 100; ++i) {
      text[2 * i] = static_cast<char>('0' + i / 10);
      text[2 * i + 1] = static_cast<char>('0' + i % 10);
    }
  }
};
inline constexpr DigitPairs digit_pairs;
}  // namespace detail

// Writes `n` at `to`, where digits_max bytes are free; returns the end.
TD_INLINE char* write_digits(char* to, std::uint64_t n) noexcept {
  if (n < 10) {
    *to = static_cast<char>('0' + n);
    return to + 1;
  }
  if (TD_LIKELY(n < 100)) {
    std::memcpy(to, detail::digit_pairs.text + 2 * n, 2);
    return to + 2;
  }
  char reversed[digits_max];
  char* p = reversed + digits_max;
  while (n >= 100) {
    p -= 2;
    std::memcpy(p, detail::digit_pairs.text + 2 * (n % 100), 2);
    n /= 100;
  }
  if (n >= 10) {
    p -= 2;
    std::memcpy(p, detail::digit_pairs.text + 2 * n, 2);
  } else {
    *--p = static_cast<char>('0' + n);
  }
  const auto count = static_cast<std::size_t>(reversed + digits_max - p);
  for (std::size_t i = 0; i < count; ++i) to[i] = p[i];
  return to + count;
}

}  // namespace tandem::codec
