// AArch64: Advanced SIMD belongs to the base architecture, so there is no target region. One 16-byte load, of which the
// architecture reads each 64-bit half at once (Arm ARM B2.2.1).
#pragma once
#include <arm_neon.h>

#include "index/set_associative/lanes_scalar.hpp"

namespace tandem {

struct NeonTagLanes : ScalarTagLanes {
  TD_LANE std::uint32_t match(const std::uint64_t* tags, std::uint32_t tag) const {
    const uint8x16_t all = vreinterpretq_u8_u64(vld1q_u64(tags));
    const uint8x16_t same = vceqq_u8(all, vdupq_n_u8(static_cast<std::uint8_t>(tag)));
    const uint8x16_t bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t bits = vandq_u8(same, bit);
    return vaddv_u8(vget_low_u8(bits)) | static_cast<std::uint32_t>(vaddv_u8(vget_high_u8(bits))) << 8;
  }
  TD_LANE void order_loads() const { std::atomic_thread_fence(std::memory_order_acquire); }  // dmb ishld
};
static_assert(TagLanes<NeonTagLanes>);

}  // namespace tandem
