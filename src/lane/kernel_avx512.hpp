// x86-64 with AVX-512 and AES: one register holds a block of input, or a bucket. Included inside a target region, after
// kernel_avx2.hpp and index/cuckoo/lanes_avx512.hpp.
#pragma once

// GCC 12 warns of uninitialised operands inside its own intrinsics (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace tandem::lane {

struct Avx512Kernel : Avx2Kernel {
  using Tags = Avx512TagLanes;
  using Slabs = Avx512SlabLanes;

  TD_INLINE static Cell cell_of(const Bucket* bucket, std::uint32_t signature) noexcept {
    // Even words are signatures.
    const __mmask16 same =
        _mm512_mask_cmpeq_epi32_mask(0x5555, _mm512_set1_epi32(static_cast<int>(signature)), _mm512_load_si512(bucket));
    const std::uint32_t lowest = static_cast<std::uint32_t>(std::countr_zero(_cvtmask16_u32(same))) % 16;
    return ScalarLanes{}.take(bucket, {}, lowest / 2);
  }
  TD_INLINE static std::uint64_t blanks(const char* p) noexcept {
    return _cvtmask64_u64(_mm512_cmple_epu8_mask(_mm512_loadu_si512(p), _mm512_set1_epi8(' ')));
  }
  TD_INLINE static void load_key(char* to, const char* key, std::size_t key_bytes) noexcept {
    const __mmask16 bytes = _cvtu32_mask16(_bzhi_u32(0xffff, static_cast<std::uint32_t>(key_bytes)));
    _mm_store_si128(reinterpret_cast<__m128i*>(to), _mm_maskz_loadu_epi8(bytes, key));
  }
  TD_INLINE static std::uint32_t same_cells(const Bucket* bucket, Cell cell) noexcept {
    const __m512i wanted = _mm512_set1_epi64(static_cast<long long>(cell.bits));
    return _cvtmask8_u32(_mm512_cmpeq_epi64_mask(_mm512_load_si512(bucket), wanted));
  }
  TD_INLINE static void find_buckets(Strip& strip, const IndexView& view) noexcept { find_buckets_by<8>(strip, view); }
  TD_INLINE static std::uint32_t below_in(const std::int32_t* block, std::int32_t head) noexcept {
    const __mmask16 below = _mm512_cmplt_epi32_mask(_mm512_load_si512(block), _mm512_set1_epi32(head));
    return static_cast<std::uint32_t>(std::popcount(_cvtmask16_u32(below)));
  }
  TD_INLINE static std::uint32_t without_item(const Strip& strip) noexcept {
    const __m512i none = _mm512_set1_epi64(reinterpret_cast<long long>(&no_item.header));
    return _cvtmask8_u32(_mm512_cmpeq_epi64_mask(_mm512_load_si512(static_cast<const void*>(strip.item)), none));
  }
};

}  // namespace tandem::lane

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
