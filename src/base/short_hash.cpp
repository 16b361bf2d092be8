#include "base/short_hash.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

namespace tandem {
namespace {

#if defined(__x86_64__)

bool has_instructions() noexcept { return __builtin_cpu_supports("aes"); }

// Two words, not a ShortKey: gcc would join its halves on the stack. A load that spans two stores waits until they and
// everything before them have retired.
__attribute__((target("aes"))) std::uint64_t hash(std::uint64_t low, std::uint64_t high, std::size_t key_bytes,
                                                  std::uint64_t seed) noexcept {
  const __m128i seeds = _mm_set1_epi64x(static_cast<long long>(seed));
  const auto* const rounds = reinterpret_cast<const __m128i*>(short_hash::rounds);
  __m128i s = _mm_set_epi64x(static_cast<long long>(high), static_cast<long long>(low));
  s = _mm_xor_si128(s, _mm_xor_si128(seeds, _mm_loadu_si128(rounds)));
  const __m128i length = _mm_cvtsi64_si128(static_cast<long long>(key_bytes));
  s = _mm_aesenc_si128(s, _mm_xor_si128(_mm_xor_si128(seeds, _mm_loadu_si128(rounds + 1)), length));
  s = _mm_aesenc_si128(s, _mm_xor_si128(seeds, _mm_loadu_si128(rounds + 2)));
  s = _mm_aesenc_si128(s, _mm_xor_si128(seeds, _mm_loadu_si128(rounds + 3)));
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(s));
}

#elif defined(__aarch64__)

bool has_instructions() noexcept { return (getauxval(AT_HWCAP) & HWCAP_AES) != 0; }

// AESE adds its key before it substitutes, AESENC behind the mixing. To GCC 12 AES is a part of "crypto".
__attribute__((target("+crypto"))) std::uint64_t hash(std::uint64_t low, std::uint64_t high, std::size_t key_bytes,
                                                      std::uint64_t seed) noexcept {
  const auto at = [seed](int i) __attribute__((target("+crypto"))) {
    return veorq_u64(vld1q_u64(short_hash::rounds[i]), vdupq_n_u64(seed));
  };
  const auto round = [](uint64x2_t state, uint64x2_t k) __attribute__((target("+crypto"))) {
    const uint8x16_t mixed = vaesmcq_u8(vaeseq_u8(vreinterpretq_u8_u64(state), vdupq_n_u8(0)));
    return veorq_u64(vreinterpretq_u64_u8(mixed), k);
  };
  uint64x2_t s = veorq_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)), at(0));
  s = round(s, veorq_u64(at(1), vcombine_u64(vcreate_u64(key_bytes), vcreate_u64(0))));
  s = round(s, at(2));
  s = round(s, at(3));
  return vgetq_lane_u64(s, 0);
}

#else

bool has_instructions() noexcept { return false; }
std::uint64_t hash(std::uint64_t low, std::uint64_t high, std::size_t key_bytes, std::uint64_t seed) noexcept {
  return short_hash_portable({low, high}, key_bytes, seed);
}

#endif

const bool uses_instructions = has_instructions();

}  // namespace

std::uint64_t short_hash_of(ShortKey key, std::size_t key_bytes, std::uint64_t seed) noexcept {
  if (TD_LIKELY(uses_instructions)) return hash(key.low, key.high, key_bytes, seed);
  return short_hash_portable(key, key_bytes, seed);
}

}  // namespace tandem
