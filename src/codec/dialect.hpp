// Which of memcached's protocols a connection may speak.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem {

enum class Dialect : std::uint8_t { automatic, text, binary };

// memcached's names for them (-B).
constexpr std::optional<Dialect> dialect_of(std::string_view name) noexcept {
  if (name == "auto") return Dialect::automatic;
  if (name == "ascii") return Dialect::text;
  if (name == "binary") return Dialect::binary;
  return std::nullopt;
}

}  // namespace tandem
