// x86-64 with AVX-512 and AES: a block of input, and a bucket, are one register. Included inside a target region, after
// kernel_avx2.hpp and index/cuckoo/lanes_avx512.hpp.
#pragma once

namespace tandem::lane {

struct Avx512Kernel : Avx2Kernel {
  using Cells = Avx512Lanes;

  TD_INLINE static std::uint64_t blanks(const char* p) noexcept {
    return _cvtmask64_u64(_mm512_cmple_epu8_mask(_mm512_loadu_si512(p), _mm512_set1_epi8(' ')));
  }
  TD_INLINE static void load_key(char* to, const char* key, std::size_t key_bytes) noexcept {
    const __mmask16 bytes = _cvtu32_mask16(_bzhi_u32(0xffff, static_cast<std::uint32_t>(key_bytes)));
    _mm_store_si128(reinterpret_cast<__m128i*>(to), _mm_maskz_loadu_epi8(bytes, key));
  }
};

}  // namespace tandem::lane
