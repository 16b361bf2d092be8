// x86-64 with AVX-512: one register holds a line of keys. Included as lanes_avx2.hpp is; its comment on order holds
// here, too.
#pragma once

namespace tandem {

struct Avx512SlabLanes {
  TD_LANE std::uint32_t match(const std::uint64_t* line, std::uint64_t key) const {
    const __m512i wanted = _mm512_set1_epi64(static_cast<long long>(key));
    return _cvtmask8_u32(_mm512_cmpeq_epi64_mask(_mm512_load_si512(static_cast<const void*>(line)), wanted));
  }
  TD_LANE void order_loads() const { __asm__ volatile("" ::: "memory"); }
};

}  // namespace tandem
