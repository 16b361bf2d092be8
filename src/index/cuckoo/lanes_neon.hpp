// AArch64: Advanced SIMD belongs to the base architecture, so there is no target region.
// Four 16-byte loads; the architecture reads each aligned 64-bit half at once (Arm ARM B2.2.1).
#pragma once
#include <arm_neon.h>

#include "index/cuckoo/lanes_scalar.hpp"

namespace tandem {

struct NeonLanes : ScalarLanes {
  struct PerLane {
    uint64x2_t pair[4];
  };
  TD_LANE PerLane load(const Bucket* b) const {
    return {{vld1q_u64(b->cell), vld1q_u64(b->cell + 2), vld1q_u64(b->cell + 4), vld1q_u64(b->cell + 6)}};
  }
  TD_LANE void order_loads() const { std::atomic_thread_fence(std::memory_order_acquire); }  // dmb ishld
  TD_LANE std::uint32_t match(const PerLane& v, std::uint32_t signature) const {
    const uint32x4_t wanted = vdupq_n_u32(signature);
    const uint32x4_t low = vuzp1q_u32(vreinterpretq_u32_u64(v.pair[0]), vreinterpretq_u32_u64(v.pair[1]));
    const uint32x4_t high = vuzp1q_u32(vreinterpretq_u32_u64(v.pair[2]), vreinterpretq_u32_u64(v.pair[3]));
    const uint16x8_t equal = vcombine_u16(vmovn_u32(vceqq_u32(low, wanted)), vmovn_u32(vceqq_u32(high, wanted)));
    const uint16x8_t bit = {1, 2, 4, 8, 16, 32, 64, 128};
    return vaddvq_u16(vandq_u16(equal, bit));
  }
  TD_LANE Cell take(const Bucket* b, const PerLane&, std::uint32_t i) const {
    return {at(&b->cell[i]).load(std::memory_order_acquire)};
  }
};
static_assert(Lanes<NeonLanes>);

}  // namespace tandem
