// Finds the ends of short lines and words, 64 bytes at a time. Walking from one end to the next makes each search wait
// for the previous one, some 20 cycles; a block yields all its ends together.
#pragma once
#include <cstddef>
#include <cstdint>

#include "codec/scan.hpp"

namespace tandem::codec {

#if defined(__SSE2__)
inline constexpr std::ptrdiff_t block_bytes = 64;

// Bit i: p[i] matches. REQUIRES: block_bytes are readable.
template <class Matcher>
TD_INLINE std::uint64_t find_in_block(const char* p) noexcept {
  const auto found = [p](std::size_t at) noexcept {
    return std::uint64_t{Matcher::mask(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + at)))} << at;
  };
  return found(0) | found(16) | found(32) | found(48);
}

// Whether the first space or control character from `word` on is at word + bytes. REQUIRES: 16 bytes from `word` on
// and one at word + bytes are readable, and that one is such a character.
TD_INLINE bool is_word(const char* word, std::size_t bytes) noexcept {
  const auto delimiters = [](const char* at) noexcept {
    return detail::Below<' ' + 1>::mask(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  };
  constexpr unsigned none = 1u << 16;
  const auto first = static_cast<std::size_t>(std::countr_zero(delimiters(word) | none));
  if (TD_LIKELY(bytes < 16)) return first == bytes;
  if (first != 16) return false;
  for (std::size_t at = 16; at + 16 <= bytes; at += 16) {
    if (delimiters(word + at) != 0) return false;
  }
  return delimiters(word + bytes - 16) == 0;
}
#endif

// The ends of consecutive words, as find_delimiter() finds them.
class WordEnds {
 public:
  WordEnds(const char* begin, const char* end) noexcept : begin_(begin), end_(end) {}
  // Of the word at `word`. REQUIRES: except in the first call, it starts behind the last end.
  TD_INLINE const char* next(const char* word) noexcept {
#if defined(__SSE2__)
    while (TD_UNLIKELY(found_ == 0)) {
      const char* const block = block_ == nullptr ? word : block_ + block_bytes;
      if (end_ - block < block_bytes) return find_delimiter(word, end_, begin_);
      block_ = block;
      found_ = find_in_block<detail::Below<' ' + 1>>(block);
    }
    const char* const at = block_ + std::countr_zero(found_);
    found_ &= found_ - 1;
    return at;
#else
    return find_delimiter(word, end_, begin_);
#endif
  }

 private:
  const char* const begin_;
  const char* const end_;
  const char* block_ = nullptr;
  std::uint64_t found_ = 0;
};

}  // namespace tandem::codec
