// The flags of a meta command, checked and read in one walk.
#pragma once
#include <cstdint>
#include <string_view>

#include "codec/protocol.hpp"

namespace tandem::codec {

struct MetaFlags {
  // memcached takes at most 20 words of a line, the command, the key, the end, and the length of ms included.
  static constexpr std::size_t count_max = 17;

  explicit MetaFlags(std::string_view line_key) noexcept : key(line_key) {}

  // Walks [p, end). A failure leaves `failed` and the error line that memcached's walk ends with; `count` is of all
  // flags on the line even then. `ours`: flags beyond memcached's that this command knows; without arguments.
  void read(const char* p, const char* end, const Clock& clock, InputArena& input, std::uint64_t ours = 0);

  static constexpr std::uint64_t bit(char flag) noexcept { return std::uint64_t{1} << (flag & 63); }
  bool has(char flag) const noexcept { return (seen & bit(flag)) != 0; }
  static consteval std::uint64_t bits(std::string_view flags) noexcept {
    std::uint64_t all = 0;
    for (const char flag : flags) all |= bit(flag);
    return all;
  }
  bool has_any(std::uint64_t flags) const noexcept { return (seen & flags) != 0; }
  void fail(std::string_view line) noexcept {
    failed = true;
    error = line;
  }

  std::string_view key;    // decoded, with b
  std::uint64_t seen = 0;  // flags are letters: bit flag - 64
  std::size_t count = 0;
  bool failed = false;
  bool opaque_too_long = false;  // not a failure by itself: commands check it at different times
  bool recache_before_touch = false;
  char mode = 0;                                  // M
  std::uint32_t expiry_s = Clock::never;          // T
  std::uint32_t created_expiry_s = Clock::never;  // of the later of N and T on the line: a vivified item's expiry
  std::uint32_t recache_ttl_s = 0;                // R
  std::uint32_t client_flags = 0;                 // F
  std::uint64_t cas = 0;                          // C
  std::uint64_t delta = 1, initial = 0;           // D, J
  std::string_view error;

 private:
  void read_one(std::string_view flag, const Clock& clock, InputArena& input);
};

}  // namespace tandem::codec
