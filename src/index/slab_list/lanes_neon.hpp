// AArch64: Advanced SIMD belongs to the base architecture, so there is no target region. Of a 16-byte load the
// architecture reads each 64-bit half at once (Arm ARM B2.2.1).
#pragma once
#include <arm_neon.h>

#include "index/slab_list/lanes_scalar.hpp"

namespace tandem {

struct NeonSlabLanes {
  TD_LANE std::uint32_t match(const std::uint64_t* line, std::uint64_t key) const {
    const uint64x2_t wanted = vdupq_n_u64(key);
    const auto four = [&](std::uint32_t at) {
      return vcombine_u32(vmovn_u64(vceqq_u64(vld1q_u64(line + at), wanted)),
                          vmovn_u64(vceqq_u64(vld1q_u64(line + at + 2), wanted)));
    };
    const uint16x8_t same = vcombine_u16(vmovn_u32(four(0)), vmovn_u32(four(4)));
    const uint16x8_t bit = {1, 2, 4, 8, 16, 32, 64, 128};
    return vaddvq_u16(vandq_u16(same, bit));
  }
  TD_LANE void order_loads() const { std::atomic_thread_fence(std::memory_order_acquire); }  // dmb ishld
};
static_assert(SlabLanes<NeonSlabLanes>);

}  // namespace tandem
