// The fingerprint of a key (base/hash.hpp) for host and device: the same number as fingerprint_of(), from portable
// operations alone. Fuzzed against it (frames_test.cpp).
//
// Source: XXH3 as its specification in the xxHash repository has it (doc/xxhash_spec.md), for 17 to 240 bytes.
#pragma once
#include <cstdint>
#include <cstring>

#include "base/short_hash.hpp"
#include "index/cuckoo/cell.hpp"

namespace tandem::frames {

// Eight bytes at any address. On a device: two or three words, of which the outer ones reach up to 3 bytes beyond.
TD_WORD std::uint64_t load_8(const char* p) {
#if defined(__CUDA_ARCH__)
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  const auto* const words = reinterpret_cast<const std::uint32_t*>(at & ~std::uintptr_t{3});
  const std::uint32_t shift = static_cast<std::uint32_t>(at & 3) * 8;
  const std::uint32_t low = __funnelshift_r(words[0], words[1], shift);
  const std::uint32_t high = __funnelshift_r(words[1], shift != 0 ? words[2] : 0, shift);
  return std::uint64_t{high} << 32 | low;
#else
  std::uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
#endif
}

// The first `bytes` bytes of eight, the rest 0. REQUIRES: bytes <= 8; eight can be read.
TD_WORD std::uint64_t load_up_to_8(const char* p, std::uint32_t bytes) {
  return bytes == 0 ? 0 : load_8(p) & (~std::uint64_t{0} >> (64 - 8 * bytes));
}

TD_WORD std::uint64_t multiply_fold(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH__)
  return (a * b) ^ __umul64hi(a, b);
#else
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
#endif
}

// Eight bytes of the secret from byte `at` on.
TD_WORD std::uint64_t secret_8(const std::uint64_t* secret, std::uint32_t at) {
  const std::uint32_t shift = at % 8 * 8;
  const std::uint64_t low = secret[at / 8];
  return shift == 0 ? low : low >> shift | secret[at / 8 + 1] << (64 - shift);
}

TD_WORD std::uint64_t mix_16(const char* p, const std::uint64_t* secret, std::uint32_t at, std::uint64_t seed) {
  return multiply_fold(load_8(p) ^ (secret_8(secret, at) + seed), load_8(p + 8) ^ (secret_8(secret, at + 8) - seed));
}

TD_WORD std::uint64_t avalanche(std::uint64_t h) {
  h ^= h >> 37;
  h *= 0x165667919E3779F9;
  return h ^ h >> 32;
}

// REQUIRES: 16 < bytes <= 240.
TD_WORD std::uint64_t long_hash(const char* key, std::uint32_t bytes, std::uint64_t seed, const std::uint64_t* secret) {
  constexpr std::uint64_t prime = 0x9E3779B185EBCA87;
  constexpr std::uint32_t secret_bytes_min = 136;
  std::uint64_t acc = bytes * prime;
  if (bytes <= 128) {
    for (std::uint32_t pair = (bytes - 1) / 32 + 1; pair-- != 0;) {
      acc += mix_16(key + 16 * pair, secret, 32 * pair, seed);
      acc += mix_16(key + bytes - 16 * (pair + 1), secret, 32 * pair + 16, seed);
    }
    return avalanche(acc);
  }
  for (std::uint32_t i = 0; i < 8; ++i) acc += mix_16(key + 16 * i, secret, 16 * i, seed);
  acc = avalanche(acc);
  for (std::uint32_t i = 8; i < bytes / 16; ++i) acc += mix_16(key + 16 * i, secret, 16 * (i - 8) + 3, seed);
  return avalanche(acc + mix_16(key + bytes - 16, secret, secret_bytes_min - 17, seed));
}

// columns: short_hash::columns, where this processor reads them fast. REQUIRES: 0 < bytes <= 240; eight bytes more than
// the key's can be read.
TD_WORD Fingerprint fingerprint(const char* key, std::uint32_t bytes, std::uint64_t seed, const std::uint64_t* secret,
                                const std::uint32_t* columns) {
  std::uint64_t h = 0;
  if (bytes <= short_key_bytes_max) {
    const ShortKey k =
        bytes <= 8 ? ShortKey{load_up_to_8(key, bytes), 0} : ShortKey{load_8(key), load_up_to_8(key + 8, bytes - 8)};
    h = short_hash_by(columns, k, bytes, seed);
  } else {
    h = long_hash(key, bytes, seed, secret);
  }
  const auto signature = static_cast<std::uint32_t>(h >> 32);
  return {signature != 0 ? signature : 1u, static_cast<std::uint32_t>(h)};
}

}  // namespace tandem::frames
