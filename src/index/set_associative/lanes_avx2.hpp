// x86-64 with AVX2. Included inside a target region (index/cuckoo/target_region.hpp), after <immintrin.h> and
// lanes_scalar.hpp. One 16-byte load, which x86 keeps in order with later ones: order_loads() keeps the compiler to it.
// A tag that is torn from its neighbours can cause a miss only while the set's lock is held, which find() notices.
#pragma once

namespace tandem {

struct Avx2TagLanes : ScalarTagLanes {
  TD_LANE std::uint32_t match(const std::uint64_t* tags, std::uint32_t tag) const {
    const __m128i all = _mm_load_si128(reinterpret_cast<const __m128i*>(tags));
    const __m128i same = _mm_cmpeq_epi8(all, _mm_set1_epi8(static_cast<char>(tag)));
    return static_cast<std::uint32_t>(_mm_movemask_epi8(same));
  }
  TD_LANE void order_loads() const { __asm__ volatile("" ::: "memory"); }
};

}  // namespace tandem
