// x86-64 with AVX-512: a bucket is one register. Included inside a target region, after <immintrin.h> and
// lanes_scalar.hpp. One aligned 64-byte load; lanes_avx2.hpp says why the code does not rely on its atomicity.
#pragma once

namespace tandem {

struct Avx512Lanes : ScalarLanes {
  struct PerLane {
    __m512i cells;
  };
  TD_LANE PerLane load(const Bucket* b) const { return {_mm512_load_si512(b)}; }
  TD_LANE void order_loads() const { __asm__ volatile("" ::: "memory"); }
  TD_LANE std::uint32_t match(const PerLane& v, std::uint32_t signature) const {
    // Low words that differ from the signature in no bit.
    const __m512i differ = _mm512_xor_si512(v.cells, _mm512_set1_epi64(static_cast<long long>(signature)));
    return _cvtmask8_u32(_mm512_testn_epi64_mask(differ, _mm512_set1_epi64(0xffffffffLL)));
  }
  TD_LANE Cell take(const Bucket* b, const PerLane&, std::uint32_t i) const {
    return {at(&b->cell[i]).load(std::memory_order_acquire)};
  }
};

}  // namespace tandem
