// Seeded key hashing. XXH3 (xxhash library): good quality, ~3 ns for short keys; the seed is random per process so that
// bucket floods cannot be prepared from outside.
#pragma once
#include <cstdint>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/fingerprint.hpp"
#include "base/platform.hpp"

namespace tandem {

// The two halves of a 64-bit hash; a signature that would be 0 becomes 1.
TD_INLINE constexpr Fingerprint split_hash(std::uint64_t h) noexcept {
  const auto signature = static_cast<std::uint32_t>(h >> 32);
  return {signature != 0 ? signature : 1u, static_cast<std::uint32_t>(h)};
}
TD_INLINE Fingerprint fingerprint_of(const char* key, std::size_t key_bytes, std::uint64_t seed) noexcept {
  return split_hash(XXH3_64bits_withSeed(key, key_bytes, seed));
}
TD_INLINE Fingerprint fingerprint_of(std::string_view key, std::uint64_t seed) noexcept {
  return fingerprint_of(key.data(), key.size(), seed);
}

}  // namespace tandem
