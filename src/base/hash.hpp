// Seeded key hashing: three rounds of AES for keys of at most 16 bytes (short_hash.hpp), XXH3 (xxhash library) for
// longer ones. The seed is random per process so that clients cannot prepare bucket floods.
#pragma once
#include <cstdint>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/fingerprint.hpp"
#include "base/platform.hpp"
#include "base/short_hash.hpp"

namespace tandem {

TD_INLINE Fingerprint long_fingerprint_of(const char* key, std::size_t key_bytes, std::uint64_t seed) noexcept {
  return split_hash(XXH3_64bits_withSeed(key, key_bytes, seed));
}
TD_INLINE Fingerprint fingerprint_of(const char* key, std::size_t key_bytes, std::uint64_t seed) noexcept {
  if (TD_LIKELY(key_bytes <= short_key_bytes_max))
    return split_hash(short_hash_of(load_short_key(key, key_bytes), key_bytes, seed));
  return long_fingerprint_of(key, key_bytes, seed);
}
TD_INLINE Fingerprint fingerprint_of(std::string_view key, std::uint64_t seed) noexcept {
  return fingerprint_of(key.data(), key.size(), seed);
}

}  // namespace tandem
