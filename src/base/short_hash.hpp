// The hash of keys of at most 16 bytes: three rounds of AES (FIPS 197, 5.1) over the key padded with zeros, under round
// keys made from the seed; the key's length enters with the second one. An idea of aHash's (T. Kaitchuck) and of Go's
// runtime: one instruction a round, and two rounds spread every bit of the key over all 128 of the state. It is no
// cipher and no PRF; docs/decisions/0027-fast-lane.md says what it protects against.
//
// Every form below gives the same number for the same key: with the processor's AES instructions, in portable C++
// without them, and four keys at a time in the fast lane (lane/).
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/fingerprint.hpp"
#include "base/platform.hpp"

namespace tandem {

inline constexpr std::size_t short_key_bytes_max = 16;

// The two halves of a 64-bit hash; a signature that would be 0 becomes 1.
TD_INLINE constexpr Fingerprint split_hash(std::uint64_t h) noexcept {
  const auto signature = static_cast<std::uint32_t>(h >> 32);
  return {signature != 0 ? signature : 1u, static_cast<std::uint32_t>(h)};
}

// A key as two words, first byte lowest, padded with zeros.
struct ShortKey {
  std::uint64_t low, high;
};

namespace short_hash {

// The fraction of pi: nothing-up-my-sleeve numbers. The key of a round is one of these pairs, both words xor the seed.
inline constexpr std::uint64_t rounds[4][2] = {{0x243f6a8885a308d3, 0x13198a2e03707344},
                                               {0xa4093822299f31d0, 0x082efa98ec4e6c89},
                                               {0x452821e638d01377, 0xbe5466cf34e90c6c},
                                               {0xc0ac29b7c97c50dd, 0x3f84d5b5b5470917}};

// S-box and column mixing of one byte: its four products, for the row it is in, from the lowest byte up (FIPS 197,
// 5.1.1 and 5.1.3).
inline constexpr std::array<std::uint32_t, 256> columns = [] {
  const auto times = [](unsigned a, unsigned b) {
    unsigned product = 0;
    for (; b != 0; b >>= 1, a = (a << 1) ^ ((a & 0x80) != 0 ? 0x11bu : 0u)) product ^= (b & 1) != 0 ? a : 0;
    return product & 0xff;
  };
  std::array<std::uint32_t, 256> all{};
  for (unsigned x = 0; x < 256; ++x) {
    unsigned inverse = 1;  // x^254
    for (int i = 0; i < 254; ++i) inverse = times(inverse, x);
    unsigned s = inverse;
    for (unsigned shift = 1; shift <= 4; ++shift) s ^= (inverse << shift | inverse >> (8 - shift)) & 0xff;
    s ^= 0x63;
    all[x] = times(s, 2) | s << 8 | s << 16 | times(s, 3) << 24;
  }
  return all;
}();
static_assert((columns[0] >> 8 & 0xff) == 0x63 && (columns[0x53] >> 8 & 0xff) == 0xed);  // FIPS 197, figure 7

// One round, as AESENC does it: bytes substituted, rows shifted, columns mixed, the key added. by: `columns`, wherever
// they are.
constexpr ShortKey round(const std::uint32_t* by, ShortKey state, ShortKey key) noexcept {
  const std::uint32_t in[4] = {static_cast<std::uint32_t>(state.low), static_cast<std::uint32_t>(state.low >> 32),
                               static_cast<std::uint32_t>(state.high), static_cast<std::uint32_t>(state.high >> 32)};
  std::uint32_t out[4]{};
  for (unsigned c = 0; c < 4; ++c) {
    for (unsigned row = 0; row < 4; ++row)
      out[c] ^= std::rotl(by[in[(c + row) % 4] >> (8 * row) & 0xff], static_cast<int>(8 * row));
  }
  return {(out[0] | std::uint64_t{out[1]} << 32) ^ key.low, (out[2] | std::uint64_t{out[3]} << 32) ^ key.high};
}

}  // namespace short_hash

// Reads only the key's bytes. REQUIRES: key_bytes <= short_key_bytes_max.
TD_INLINE ShortKey load_short_key(const char* key, std::size_t key_bytes) noexcept {
  const auto word = [key]<class Word>(Word w, std::size_t at) -> std::uint64_t {
    std::memcpy(&w, key + at, sizeof w);
    return w;
  };
  if (TD_LIKELY(key_bytes >= 8)) {
    const std::uint64_t end = word(std::uint64_t{}, key_bytes - 8);
    return {word(std::uint64_t{}, 0), key_bytes == 8 ? 0 : end >> (8 * (16 - key_bytes))};
  }
  if (key_bytes >= 4)
    return {word(std::uint32_t{}, 0) | word(std::uint32_t{}, key_bytes - 4) << (8 * (key_bytes - 4)), 0};
  ShortKey k{0, 0};
  for (std::size_t i = 0; i < key_bytes; ++i) k.low |= std::uint64_t{static_cast<unsigned char>(key[i])} << (8 * i);
  return k;
}

// With `columns` at `by`, for processors without AES instructions.
constexpr std::uint64_t short_hash_by(const std::uint32_t* by, ShortKey key, std::uint64_t key_bytes,
                                      std::uint64_t seed) noexcept {
  constexpr std::uint64_t r[4][2] = {{short_hash::rounds[0][0], short_hash::rounds[0][1]},
                                     {short_hash::rounds[1][0], short_hash::rounds[1][1]},
                                     {short_hash::rounds[2][0], short_hash::rounds[2][1]},
                                     {short_hash::rounds[3][0], short_hash::rounds[3][1]}};
  ShortKey state{key.low ^ r[0][0] ^ seed, key.high ^ r[0][1] ^ seed};
  state = short_hash::round(by, state, {r[1][0] ^ seed ^ key_bytes, r[1][1] ^ seed});
  state = short_hash::round(by, state, {r[2][0] ^ seed, r[2][1] ^ seed});
  return short_hash::round(by, state, {r[3][0] ^ seed, r[3][1] ^ seed}).low;
}

// In portable C++.
constexpr std::uint64_t short_hash_portable(ShortKey key, std::size_t key_bytes, std::uint64_t seed) noexcept {
  return short_hash_by(short_hash::columns.data(), key, key_bytes, seed);
}

// With the processor's instructions if it has them.
std::uint64_t short_hash_of(ShortKey key, std::size_t key_bytes, std::uint64_t seed) noexcept;

}  // namespace tandem
