// Values that say which write they are from, and show if a byte of them is another's. A value is a decimal number, or
// pieces "a<id>/<length>/<length bytes that follow from id>;", of which append and prepend add more.
#pragma once
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::record {

inline char fill_byte(std::uint64_t id, std::uint64_t at) {
  std::uint64_t x = (id + 1) * 0x9E3779B97F4A7C15ull + at / 8 * 0xBF58476D1CE4E5B9ull;
  x ^= x >> 31;
  x *= 0x94D049BB133111EBull;
  return static_cast<char>('0' + ((x >> (at % 8 * 8)) & 63));
}

inline std::string piece_name(std::uint64_t id) { return "a" + std::to_string(id); }

inline std::string piece_bytes(std::uint64_t id, std::uint32_t length) {
  std::string bytes = piece_name(id) + "/" + std::to_string(length) + "/";
  bytes.reserve(bytes.size() + length + 1);
  for (std::uint32_t i = 0; i < length; ++i) bytes.push_back(fill_byte(id, i));
  bytes.push_back(';');
  return bytes;
}

// What the model has for these bytes: a number without what memcached pads it with, or the names of the pieces. A text
// that begins with ! is nothing that a client wrote.
inline std::string value_of(std::string_view bytes) {
  const auto number_end = std::min(bytes.find_first_not_of("0123456789"), bytes.size());
  if (number_end != 0 && bytes.find_first_not_of(' ', number_end) == std::string_view::npos)
    return std::string(bytes.substr(0, number_end));
  std::string names;
  std::size_t at = 0;
  const auto wrong = [&] {
    return "!" + names + "!damaged-at-" + std::to_string(at) + "-of-" + std::to_string(bytes.size());
  };
  while (at < bytes.size()) {
    std::uint64_t id = 0, length = 0;
    const char* const end = bytes.data() + bytes.size();
    if (bytes[at] != 'a') return wrong();
    const auto [id_end, id_error] = std::from_chars(bytes.data() + at + 1, end, id);
    if (id_error != std::errc() || id_end == end || *id_end != '/') return wrong();
    const auto [length_end, length_error] = std::from_chars(id_end + 1, end, length);
    if (length_error != std::errc() || length_end == end || *length_end != '/') return wrong();
    at = static_cast<std::size_t>(length_end + 1 - bytes.data());
    if (bytes.size() - at < length + 1) return wrong();
    for (std::uint64_t i = 0; i < length; ++i, ++at) {
      if (bytes[at] != fill_byte(id, i)) return wrong();
    }
    if (bytes[at++] != ';') return wrong();
    names += (names.empty() ? "" : ",") + piece_name(id);
  }
  return names.empty() ? "!nothing" : names;
}

}  // namespace tandem::record
