// x86-64 with AVX2. Included inside a target region (index/cuckoo/target_region.hpp), after <immintrin.h> and
// lanes_scalar.hpp. x86 keeps loads in order, and reads each aligned word at once: order_loads() keeps the compiler to
// it.
#pragma once

namespace tandem {

struct Avx2SlabLanes {
  TD_LANE std::uint32_t match(const std::uint64_t* line, std::uint64_t key) const {
    const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(key));
    const auto* const halves = reinterpret_cast<const __m256i*>(line);
    const __m256i low = _mm256_cmpeq_epi64(_mm256_load_si256(halves), wanted);
    const __m256i high = _mm256_cmpeq_epi64(_mm256_load_si256(halves + 1), wanted);
    return static_cast<std::uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(low))) |
           static_cast<std::uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(high))) << 4;
  }
  TD_LANE void order_loads() const { __asm__ volatile("" ::: "memory"); }
};

}  // namespace tandem
