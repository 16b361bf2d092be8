// x86-64 with AVX2. Included inside a target region (target_region.hpp), after <immintrin.h> and lanes_scalar.hpp.
//
// Two 32-byte loads. Every x86 reads an aligned 8-byte element of a vector at once, but the manuals guarantee it for
// 16-byte loads only, so the code does not rely on it. A hit is read again by take(), with one 8-byte load. A cell torn
// by its writer can cause a miss only while that writer holds the key's stripe, which find() notices. The compiler sees
// plain loads, so order_loads() is a compiler barrier (x86 keeps loads in order), and ThreadSanitizer must not see
// them.
#pragma once

namespace tandem {

struct Avx2Lanes : ScalarLanes {
  struct PerLane {
    __m256i low, high;  // cells 0-3 and 4-7
  };
  TD_LANE PerLane load(const Bucket* b) const {
    const auto* p = reinterpret_cast<const __m256i*>(b);
    return {_mm256_load_si256(p), _mm256_load_si256(p + 1)};
  }
  TD_LANE void order_loads() const { __asm__ volatile("" ::: "memory"); }
  TD_LANE std::uint32_t match(const PerLane& v, std::uint32_t signature) const {
    const __m256i wanted = _mm256_set1_epi32(static_cast<int>(signature));
    // The even words of both halves: 0 1 4 5 | 2 3 6 7; then back to cell order.
    const __m256i mixed =
        _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(v.low), _mm256_castsi256_ps(v.high), 0x88));
    const __m256i signatures = _mm256_permute4x64_epi64(mixed, 0xD8);
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(signatures, wanted))));
  }
  TD_LANE Cell take(const Bucket* b, const PerLane&, std::uint32_t i) const {
    return {at(&b->cell[i]).load(std::memory_order_acquire)};
  }
};

}  // namespace tandem
