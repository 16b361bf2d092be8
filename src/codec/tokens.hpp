// Words of a command line and the numbers in them, read as memcached reads them (strtol and its kin, quirks included).
#pragma once
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/platform.hpp"
#include "codec/scan.hpp"

namespace tandem::codec {

using std::string_view;

// The words of one line: only spaces separate.
class Tokens {
 public:
  Tokens(const char* begin, const char* end) noexcept : begin_(begin), p_(begin), end_(end) {}

  // Takes the next word; false at the line's end. For words of a few letters.
  TD_INLINE bool next(string_view& word) noexcept {
    const char* const first = skip();
    while (p_ != end_ && *p_ != ' ') ++p_;
    word = {first, static_cast<std::size_t>(p_ - first)};
    return p_ != first;
  }
  // The same for longer ones.
  TD_INLINE bool next_key(string_view& word) noexcept {
    const char* const first = skip();
    p_ = find_space(first, end_, begin_);
    word = {first, static_cast<std::size_t>(p_ - first)};
    return p_ != first;
  }
  TD_INLINE bool more() noexcept { return skip() != end_; }
  const char* position() const noexcept { return p_; }

 private:
  TD_INLINE const char* skip() noexcept {
    while (p_ != end_ && *p_ == ' ') ++p_;
    return p_;
  }

  const char* begin_;
  const char* p_;
  const char* end_;
};

// A whole line's words, for commands that take few: memcached looks at 23 at most.
class Words {
 public:
  static constexpr std::size_t max = 23;

  // The line's first word is known.
  Words(string_view first, const char* end) noexcept {
    put(first);
    Tokens tokens(first.data() + first.size(), end);
    string_view word;
    if (!tokens.next_key(word)) return;
    put(word);
    while (count_ < max && tokens.next(word)) put(word);
  }
  std::size_t count() const noexcept { return count_; }
  string_view operator[](std::size_t i) const noexcept {
    return i < count_ ? string_view{words_[i].begin, words_[i].bytes} : string_view{};
  }
  string_view last() const noexcept { return (*this)[count_ - 1]; }
  bool last_is(string_view text) const noexcept { return last() == text; }

 private:
  struct Word {
    const char* begin;
    std::size_t bytes;
  };
  void put(string_view word) noexcept { words_[count_++] = {word.data(), word.size()}; }

  Word words_[max];
  std::size_t count_ = 0;
};

namespace number {

constexpr bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

// So many digits always fit.
template <class T>
inline constexpr std::ptrdiff_t plain_digits_max = std::numeric_limits<T>::digits10;

// Magnitude and sign of [+-]digits behind white space and before white space or the end; nul_ends: or a zero byte.
// False: no number, or beyond 64 bits.
struct Parsed {
  std::uint64_t magnitude = 0;
  bool negative = false;
};
inline bool parse(string_view text, Parsed& to, bool nul_ends = false) noexcept {
  const char* p = text.data();
  const char* const end = p + text.size();
  std::uint64_t value = 0;
  const auto digit_at = [](const char* at) noexcept {
    return static_cast<unsigned>(static_cast<unsigned char>(*at)) - '0';
  };
  if (TD_LIKELY(text.size() - 1 < std::size_t{plain_digits_max<std::uint64_t>})) {  // digits alone, mostly
    while (p != end && TD_LIKELY(digit_at(p) <= 9)) value = value * 10 + digit_at(p++);
    to.magnitude = value;
    if (TD_LIKELY(p == end)) return true;
    p = text.data();
    value = 0;
  }
  while (p != end && is_space(*p)) ++p;
  if (p != end && (*p == '-' || *p == '+')) to.negative = *p++ == '-';
  const char* const first = p;
  for (; p != end; ++p) {
    const unsigned digit = digit_at(p);
    if (digit > 9) break;
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit, &value)) return false;
  }
  if (p == first || (p != end && !is_space(*p) && !(nul_ends && *p == '\0'))) return false;
  to.magnitude = value;
  return true;
}

// memcached's safe_strtoull: a minus sign is refused only when the wrapped number's top bit is set
// ("-18446744073709551615" is 1).
inline bool read_u64(string_view text, std::uint64_t& to) noexcept {
  Parsed n;
  if (!parse(text, n)) return false;
  const std::uint64_t value = n.negative ? 0 - n.magnitude : n.magnitude;
  if (value >> 63 != 0 && text.find('-') != string_view::npos) return false;
  to = value;
  return true;
}

// safe_strtoul into 32 bits: the upper ones are dropped.
inline bool read_u32(string_view text, std::uint32_t& to) noexcept {
  std::uint64_t value = 0;
  if (!read_u64(text, value)) return false;
  to = static_cast<std::uint32_t>(value);
  return true;
}

// safe_strtol into 32 bits: the upper ones are dropped.
inline bool read_i32(string_view text, std::int32_t& to) noexcept {
  Parsed n;
  if (!parse(text, n)) return false;
  constexpr auto max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (n.magnitude > max + (n.negative ? 1 : 0)) return false;
  const std::uint64_t value = n.negative ? 0 - n.magnitude : n.magnitude;
  to = static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
  return true;
}

// Reads a plain number of at most nine digits at p (of 19 with 64 bits), as nearly every client sends. Returns the
// first byte behind it, or nullptr for any other text.
template <class T>
TD_INLINE const char* read_plain(const char* p, const char* end, T& to) noexcept {
  T value = 0;
  const char* const first = p;
  for (; p != end; ++p) {
    const auto digit = static_cast<unsigned>(static_cast<unsigned char>(*p)) - '0';
    if (digit > 9) break;
    value = value * 10 + digit;
    if (p - first == plain_digits_max<T>) return nullptr;
  }
  to = value;
  return p == first || p == end ? nullptr : p;
}

}  // namespace number
}  // namespace tandem::codec
