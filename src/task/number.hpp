// Numbers of incr and decr, read as memcached reads them with strtoull, quirks included.
#pragma once
#include <cstdint>
#include <limits>
#include <string_view>

#include "codec/tokens.hpp"
#include "heap/item_rewrite.hpp"

namespace tandem::task {

// Leading white space, an optional sign, digits, then the end, white space or a zero byte. False: not a number, or it
// does not fit 64 bits. A minus sign is accepted as long as the wrapped number's top bit is clear ("-0").
inline bool read_number(std::string_view text, std::uint64_t& number) noexcept {
  codec::number::Parsed n;
  if (!codec::number::parse(text, n, true)) return false;
  const std::uint64_t value = n.negative ? 0 - n.magnitude : n.magnitude;
  if (n.negative && value >> 63 != 0) return false;
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
