// x86-64 with AVX-512: the comparison's result is a mask register. Included as lanes_avx2.hpp is; its comment on order
// holds here, too.
#pragma once

namespace tandem {

struct Avx512TagLanes : ScalarTagLanes {
  TD_LANE std::uint32_t match(const std::uint64_t* tags, std::uint32_t tag) const {
    const __m128i all = _mm_load_si128(reinterpret_cast<const __m128i*>(tags));
    return _cvtmask16_u32(_mm_cmpeq_epi8_mask(all, _mm_set1_epi8(static_cast<char>(tag))));
  }
  TD_LANE void order_loads() const { __asm__ volatile("" ::: "memory"); }
};

}  // namespace tandem
