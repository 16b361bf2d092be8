#include "codec/base64.hpp"

#include <array>
#include <cstdint>

namespace tandem::codec {
namespace {

constexpr char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t skipped = 0xff;

constexpr std::array<std::uint8_t, 256> make_values() {
  std::array<std::uint8_t, 256> values{};
  values.fill(skipped);
  for (std::uint8_t i = 0; i < 64; ++i) values[static_cast<unsigned char>(alphabet[i])] = i;
  values['='] = 0;
  return values;
}
constexpr std::array<std::uint8_t, 256> values = make_values();

std::uint8_t value_of(char c) noexcept { return values[static_cast<unsigned char>(c)]; }

}  // namespace

char* base64_encode(char* to, const char* from, std::size_t bytes) noexcept {
  const auto byte = [from](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(from[i])); };
  std::size_t i = 0;
  for (; i + 3 <= bytes; i += 3) {
    const std::uint32_t group = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (int shift = 18; shift >= 0; shift -= 6) *to++ = alphabet[group >> shift & 63];
  }
  if (i == bytes) return to;
  const bool two = bytes - i == 2;
  const std::uint32_t group = byte(i) << 16 | (two ? byte(i + 1) << 8 : 0);
  *to++ = alphabet[group >> 18];
  *to++ = alphabet[group >> 12 & 63];
  *to++ = two ? alphabet[group >> 6 & 63] : '=';
  *to++ = '=';
  return to;
}

std::size_t base64_decode(char* to, const char* from, std::size_t bytes) noexcept {
  std::size_t symbols = 0;
  for (std::size_t i = 0; i < bytes; ++i) symbols += value_of(from[i]) != skipped;
  if (symbols == 0 || symbols % 4 != 0) return 0;
  char* const first = to;
  std::uint32_t group = 0;
  int in_group = 0, padding = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::uint8_t value = value_of(from[i]);
    if (value == skipped) continue;
    padding += from[i] == '=';
    group = group << 6 | value;
    if (++in_group < 4) continue;
    if (padding > 2) return 0;
    for (int shift = 16, left = 3 - padding; left > 0; shift -= 8, --left) *to++ = static_cast<char>(group >> shift);
    if (padding != 0) break;
    group = 0;
    in_group = 0;
  }
  return static_cast<std::size_t>(to - first);
}

}  // namespace tandem::codec
