// Finding the end of a token, and copying short strings. Both are on the path of every request.
//
// Nothing reads outside [p, end): the bytes behind it may belong to nobody.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/platform.hpp"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tandem::protocol {

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

// The first byte in [p, end) that is less than Limit (as unsigned); `end` if there is none. One 16-byte step for most
// keys. `begin` <= p is how far back one may read.
template <char Limit>
TD_INLINE const char* find_below(const char* p, const char* end, [[maybe_unused]] const char* begin) noexcept {
  static_assert(Limit > 0);
#if defined(__SSE2__)
  const __m128i highest = _mm_set1_epi8(Limit - 1);
  const auto below = [&](const char* at) noexcept {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(v, highest), v)));
  };
  for (; end - p >= 16; p += 16) {
    if (const unsigned found = below(p); found != 0) return p + std::countr_zero(found);
  }
  if (TD_LIKELY(end - begin >= 16)) {
    // The last 16 bytes, less those before p.
    const auto before = static_cast<unsigned>(16 - (end - p));
    const unsigned found = below(end - 16) >> before;
    return found != 0 ? p + std::countr_zero(found) : end;
  }
#else
  if constexpr (std::endian::native == std::endian::little) {
    constexpr std::uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
    for (; end - p >= 8; p += 8) {
      // Exact for the lowest byte found: borrows only travel upwards. A byte is below Limit when subtracting that
      // borrows and its own top bit is clear.
      const auto w = load<std::uint64_t>(p);
      const std::uint64_t found = (w - ones * Limit) & ~w & tops;
      if (found != 0) return p + std::countr_zero(found) / 8;
    }
  }
#endif
  while (p != end && static_cast<unsigned char>(*p) >= Limit) ++p;
  return p;
}

// The end of a word: the first space or control character.
TD_INLINE const char* find_delimiter(const char* p, const char* end, const char* begin) noexcept {
  return find_below<' ' + 1>(p, end, begin);
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

}  // namespace tandem::protocol
