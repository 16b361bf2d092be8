// For tests, benchmarks and fuzzing: packets of the binary protocol as strings.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "codec/binary.hpp"

namespace tandem::codec::binary {

template <class T>
std::string number_text(T number) {
  std::string text(sizeof number, '\0');
  write(text.data(), number);
  return text;
}

// The fields of a request behind its opcode; lengths that are not given are those of the parts.
struct Parts {
  std::string_view key = {}, extras = {}, value = {};
  std::uint64_t cas = 0;
  std::uint32_t opaque = 0x01020304;
  std::uint8_t magic = request_magic;
  std::optional<std::uint16_t> key_bytes = {};
  std::optional<std::uint8_t> extras_bytes = {};
  std::optional<std::uint32_t> body_bytes = {};
  std::uint16_t status = 0;
};

inline std::string packet(std::uint8_t opcode, const Parts& p = {}) {
  std::string text;
  text += static_cast<char>(p.magic);
  text += static_cast<char>(opcode);
  text += number_text(p.key_bytes.value_or(static_cast<std::uint16_t>(p.key.size())));
  text += static_cast<char>(p.extras_bytes.value_or(static_cast<std::uint8_t>(p.extras.size())));
  text += '\0';
  text += number_text(p.status);
  text +=
      number_text(p.body_bytes.value_or(static_cast<std::uint32_t>(p.key.size() + p.extras.size() + p.value.size())));
  text += number_text(p.opaque);
  text += number_text(p.cas);
  return text.append(p.extras).append(p.key).append(p.value);
}

inline std::string response(std::uint8_t opcode, Status status, Parts p = {}) {
  p.magic = response_magic;
  p.status = static_cast<std::uint16_t>(status);
  return packet(opcode, p);
}

inline std::string store_extras(std::uint32_t flags = 0, std::uint32_t expiry = 0) {
  return number_text(flags) + number_text(expiry);
}
inline std::string arithmetic_extras(std::uint64_t delta, std::uint64_t initial = 0, std::uint32_t expiry = 0) {
  return number_text(delta) + number_text(initial) + number_text(expiry);
}
inline std::string range_extras(std::string_view end, std::uint8_t flags, std::uint32_t limit = 0) {
  std::string text = number_text(static_cast<std::uint16_t>(end.size()));
  text += '\0';
  text += static_cast<char>(flags);
  return (text + number_text(limit)).append(end);
}
inline std::string plain(std::string_view user, std::string_view password, std::string_view identity = {}) {
  std::string text(identity);
  text += '\0';
  text += user;
  text += '\0';
  return text.append(password);
}

}  // namespace tandem::codec::binary
