#include "bench/workload/keys.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "base/bytes_equal.hpp"
#include "bench/workload/random.hpp"
#include "bench/workload/value_bytes.hpp"

namespace tandem::workload {
namespace {

// Random words for sizes and values; separate, so that long keys don't have long values.
std::uint64_t key_size_word(std::uint64_t key) noexcept { return mix64(key + 0x2545f4914f6cdd1dU); }
std::uint64_t value_size_word(std::uint64_t key) noexcept { return mix64(key + 0xd1342543de82ef95U); }
std::uint64_t value_word(std::uint64_t key) noexcept { return mix64(key + 0x9e3779b97f4a7c15U); }

// Eight hexadecimal digits at once: nibbles are spread over the bytes of a word, then converted in parallel.
std::uint64_t hex_digits(std::uint32_t number) noexcept {
  std::uint64_t x = number;
  x = ((x & 0xffff0000U) << 16) | (x & 0xffffU);
  x = ((x & 0x0000ff000000ff00U) << 8) | (x & 0x000000ff000000ffU);
  x = ((x & 0x00f000f000f000f0U) << 4) | (x & 0x000f000f000f000fU);
  const std::uint64_t above_nine = ((x + 0x0606060606060606U) >> 4) & 0x0101010101010101U;
  x = x + 0x3030303030303030U + above_nine * ('a' - '0' - 10);
  if constexpr (std::endian::native == std::endian::little) x = __builtin_bswap64(x);
  return x;
}

char* write_key_of(std::uint64_t key, std::uint32_t bytes, char* out) noexcept {
  char digits[16];
  const std::uint64_t low = hex_digits(static_cast<std::uint32_t>(key));
  char* const end = out + bytes;
  if (bytes == 8) {
    std::memcpy(out, &low, 8);
    return end;
  }
  const std::uint64_t high = hex_digits(static_cast<std::uint32_t>(key >> 32));
  if (bytes >= 16) {
    std::memset(out, 'k', bytes - 16);
    std::memcpy(end - 16, &high, 8);
    std::memcpy(end - 8, &low, 8);
    return end;
  }
  std::memcpy(digits, &high, 8);
  std::memcpy(digits + 8, &low, 8);
  std::memcpy(out, digits + 16 - bytes, bytes);
  return end;
}

}  // namespace

KeySpace::KeySpace(const Spec& spec) : keys_(spec.keys), key_sizes_(spec.key_bytes), value_sizes_(spec.value_bytes) {
  validate(spec);
}

std::uint32_t KeySpace::key_bytes(std::uint64_t key) const noexcept {
  if (key_sizes_.model == SizeModel::fixed) return key_sizes_.low;
  return key_sizes_.of(key_size_word(key));
}

std::uint32_t KeySpace::value_bytes(std::uint64_t key) const noexcept {
  if (value_sizes_.model == SizeModel::fixed) return value_sizes_.low;
  return value_sizes_.of(value_size_word(key));
}

char* KeySpace::write_key(std::uint64_t key, char* out) const noexcept {
  return write_key_of(key, key_bytes(key), out);
}

char* KeySpace::write_value(std::uint64_t key, char* out) const noexcept {
  return write_value_bytes(value_word(key), value_bytes(key), out);
}

bool KeySpace::is_key(std::uint64_t key, std::string_view bytes) const noexcept {
  char expected[key_bytes_max];
  if (bytes.size() != key_bytes(key)) return false;
  write_key(key, expected);
  return bytes_equal(expected, bytes.data(), bytes.size());
}

std::optional<std::uint64_t> KeySpace::number_of(std::string_view bytes) const noexcept {
  const std::string_view digits = bytes.substr(bytes.size() - std::min<std::size_t>(bytes.size(), 16));
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  if (error != std::errc{} || stop != digits.data() + digits.size() || !is_key(number, bytes)) return std::nullopt;
  return number;
}

bool KeySpace::is_value(std::uint64_t key, std::string_view bytes) const noexcept {
  return bytes.size() == value_bytes(key) && are_value_bytes(value_word(key), bytes);
}

}  // namespace tandem::workload
