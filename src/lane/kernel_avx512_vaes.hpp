// AVX-512 with VAES: one AES instruction hashes four keys. Included inside a target region, after kernel_avx512.hpp.
#pragma once

// GCC 12 warns of uninitialised operands inside its own intrinsics (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace tandem::lane {

struct Avx512VaesKernel : Avx512Kernel {
  TD_INLINE static void hash(Strip& strip, std::uint64_t seed) noexcept {
    const __m512i seeds = _mm512_set1_epi64(static_cast<long long>(seed));
    const auto round_key = [&](int i) {
      const auto* const key = reinterpret_cast<const __m128i*>(short_hash::rounds[i]);
      return _mm512_xor_si512(seeds, _mm512_broadcast_i32x4(_mm_loadu_si128(key)));
    };
    const __m512i k0 = round_key(0), k1 = round_key(1), k2 = round_key(2), k3 = round_key(3);
    const __m256i infos = _mm256_load_si256(reinterpret_cast<const __m256i*>(strip.info));
    const __m512i lengths =
        _mm512_cvtepu32_epi64(_mm256_and_si256(infos, _mm256_set1_epi32(static_cast<int>(info::key_bytes_mask))));
    const auto four = [&](const char(*keys)[short_key_bytes_max], __m512i bytes) {
      // The low word of each pair takes the key's length, and holds the hash at the end.
      const __m512i length = _mm512_maskz_expand_epi64(0x55, bytes);
      __m512i s = _mm512_xor_si512(_mm512_load_si512(keys), k0);
      s = _mm512_aesenc_epi128(s, _mm512_xor_si512(k1, length));
      s = _mm512_aesenc_epi128(_mm512_aesenc_epi128(s, k2), k3);
      return _mm512_castsi512_si256(_mm512_maskz_compress_epi64(0x55, s));
    };
    const __m256i low = four(strip.key16, lengths);
    const __m256i high = four(strip.key16 + 4, _mm512_castsi256_si512(_mm512_extracti64x4_epi64(lengths, 1)));
    // As split_hash(): the hash's upper half is the signature, which is stored first and is never 0.
    const __m512i split = _mm512_rol_epi64(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1), 32);
    const __mmask16 zeros = 0x5555 & _mm512_testn_epi32_mask(split, split);
    static_assert(offsetof(Fingerprint, signature) == 0);
    _mm512_store_si512(strip.fingerprint, _mm512_mask_mov_epi32(split, zeros, _mm512_set1_epi32(1)));
  }
};

}  // namespace tandem::lane

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
