// Finds the end of a token, and copies short strings. Both are on the path of every request.
//
// No function reads outside [p, end), because the bytes behind it may be unmapped.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/platform.hpp"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tandem::codec {

template <class Word>
TD_INLINE Word load(const char* p) noexcept {
  Word w;
  std::memcpy(&w, p, sizeof w);
  return w;
}

// Bytes at `p` equal the literal. REQUIRES: they are readable.
template <std::size_t N>
TD_INLINE bool starts_with(const char* p, const char (&literal)[N]) noexcept {
  return std::memcmp(p, literal, N - 1) == 0;
}

namespace detail {
// The first byte in [p, end) that matches; `end` if there is none. One 16-byte step for most keys. `begin` <= p is how
// far back one may read. Matcher: a byte as bool, 16 bytes as a bit mask (SSE2), 8 bytes as their bytes' top bits, of
// which the lowest set one is exact (elsewhere).
template <class Matcher>
TD_INLINE const char* find(const char* p, const char* end, [[maybe_unused]] const char* begin) noexcept {
#if defined(__SSE2__)
  const auto matches = [](const char* at) noexcept {
    return Matcher::mask(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  };
  for (; end - p >= 16; p += 16) {
    if (const unsigned found = matches(p); found != 0) return p + std::countr_zero(found);
  }
  if (TD_LIKELY(end - begin >= 16)) {
    // The last 16 bytes, less those before p.
    const unsigned found = matches(end - 16) >> (16 - (end - p));
    return found != 0 ? p + std::countr_zero(found) : end;
  }
#else
  if constexpr (std::endian::native == std::endian::little) {
    for (; end - p >= 8; p += 8) {
      if (const std::uint64_t found = Matcher::tops(load<std::uint64_t>(p)); found != 0) {
        return p + std::countr_zero(found) / 8;
      }
    }
  }
#endif
  while (p != end && !Matcher::matches(*p)) ++p;
  return p;
}

inline constexpr std::uint64_t every_byte = 0x0101010101010101, every_top = 0x8080808080808080;

template <char Limit>
struct Below {
  static_assert(Limit > 0);
#if defined(__SSE2__)
  static unsigned mask(__m128i v) noexcept {
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(Limit - 1)), v)));
  }
#endif
  // A byte is below Limit when subtracting that borrows and its own top bit is clear; borrows only travel upwards.
  static std::uint64_t tops(std::uint64_t w) noexcept { return (w - every_byte * Limit) & ~w & every_top; }
  static bool matches(char c) noexcept { return static_cast<unsigned char>(c) < Limit; }
};

template <char Byte>
struct Equal {
#if defined(__SSE2__)
  static unsigned mask(__m128i v) noexcept {
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(Byte))));
  }
#endif
  static std::uint64_t tops(std::uint64_t w) noexcept { return Below<1>::tops(w ^ (every_byte * Byte)); }
  static bool matches(char c) noexcept { return c == Byte; }
};
}  // namespace detail

// The end of a word of a plain line: the first space or control character.
TD_INLINE const char* find_delimiter(const char* p, const char* end, const char* begin) noexcept {
  return detail::find<detail::Below<' ' + 1>>(p, end, begin);
}
TD_INLINE const char* find_control(const char* p, const char* end, const char* begin) noexcept {
  return detail::find<detail::Below<' '>>(p, end, begin);
}
TD_INLINE const char* find_space(const char* p, const char* end, const char* begin) noexcept {
  return detail::find<detail::Equal<' '>>(p, end, begin);
}

// memcpy for short strings: no call, exact reads and writes.
TD_INLINE char* copy_short(char* to, const char* from, std::size_t bytes) noexcept {
  if (TD_LIKELY(bytes >= 16)) {
    std::size_t i = 0;
    for (; i + 16 <= bytes; i += 16) std::memcpy(to + i, from + i, 16);
    std::memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 4) {
    std::memcpy(to, from, 4);
    std::memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
  return to + bytes;
}

}  // namespace tandem::codec
