// Numbers of incr and decr, read as memcached reads them with strtoull, quirks included.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

#include "heap/item_rewrite.hpp"

namespace tandem::task {

// Leading white space, an optional sign, digits, then the end, white space or a zero byte. False: not a number, or it
// does not fit 64 bits. A minus sign is accepted as long as the wrapped number's top bit is clear ("-0").
inline bool read_number(std::string_view text, std::uint64_t& number) noexcept {
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  std::size_t i = 0;
  while (i < text.size() && is_space(text[i])) ++i;
  bool negative = false;
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) negative = text[i++] == '-';
  const std::size_t first = i;
  std::uint64_t value = 0;
  const auto digit = [&text, &i] { return static_cast<unsigned>(static_cast<unsigned char>(text[i])) - '0'; };
  constexpr std::size_t fitting = std::numeric_limits<std::uint64_t>::digits10;
  for (const std::size_t end = std::min(text.size(), i + fitting); i < end && digit() <= 9; ++i)
    value = value * 10 + digit();
  for (; i < text.size() && digit() <= 9; ++i) {
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit(), &value)) return false;
  }
  if (i == first || (i < text.size() && text[i] != '\0' && !is_space(text[i]))) return false;
  if (negative) {
    value = 0 - value;
    if (value >> 63 != 0) return false;
  }
  number = value;
  return true;
}

// The number in the value of an item that is not huge. A set may rewrite the item during the read: the caller
// validates.
inline bool read_item_number(const Item* item, std::uint64_t& number) noexcept {
  const std::uint32_t bytes = item->small_value_bytes();
  if (bytes > rewritten_value_bytes_max) return read_number({item->value(), bytes}, number);
  char copy[rewritten_value_bytes_max];
  racing_copy(copy, item->value(), bytes);
  return read_number({copy, bytes}, number);
}

inline std::uint32_t decimal_digits(std::uint64_t number) noexcept {
  constexpr std::uint32_t digits_max = std::numeric_limits<std::uint64_t>::digits10 + 1;
  std::uint32_t digits = 1;
  for (std::uint64_t limit = 10; digits != digits_max && number >= limit; limit *= 10) ++digits;
  return digits;
}

// incr wraps at 2^64, decr stops at 0 (protocol.txt).
inline std::uint64_t apply_delta(std::uint64_t number, std::uint64_t delta, bool decrement) noexcept {
  if (!decrement) return number + delta;
  return delta > number ? 0 : number - delta;
}

}  // namespace tandem::task
