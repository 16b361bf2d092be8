// AArch64: its base architecture includes Advanced SIMD. The hash is a call, which uses AES instructions where the
// processor has them (base/short_hash.cpp).
#pragma once
#include <arm_neon.h>

#include "index/cuckoo/lanes_neon.hpp"
#include "index/set_associative/lanes_neon.hpp"
#include "index/slab_list/lanes_neon.hpp"
#include "lane/kernel_scalar.hpp"

namespace tandem::lane {

struct NeonKernel : ScalarKernel {
  using Tags = NeonTagLanes;
  using Slabs = NeonSlabLanes;

  TD_INLINE static Cell cell_of(const Bucket* bucket, std::uint32_t signature) noexcept {
    const NeonLanes l{};
    const auto v = l.load(bucket);
    return l.take(bucket, v, first_of(l.match(v, signature)));
  }
  TD_INLINE static std::uint64_t blanks(const char* p) noexcept {
    const uint8x16_t space = vdupq_n_u8(' ');
    const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    const auto part = [&](std::size_t at) {
      const uint8x16_t v = vld1q_u8(reinterpret_cast<const std::uint8_t*>(p) + at);
      return vandq_u8(vcleq_u8(v, space), bits);
    };
    // Pairs are added until each byte holds the bits of eight.
    uint8x16_t sum = vpaddq_u8(vpaddq_u8(part(0), part(16)), vpaddq_u8(part(32), part(48)));
    sum = vpaddq_u8(sum, sum);
    return vgetq_lane_u64(vreinterpretq_u64_u8(sum), 0);
  }
  TD_INLINE static void load_key(char* to, const char* key, std::size_t key_bytes) noexcept {
    const std::uint8_t* const mask = item_masks[std::min(key_bytes, short_key_bytes_max)].key;
    const uint8x16_t v = vandq_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(key)), vld1q_u8(mask));
    vst1q_u8(reinterpret_cast<std::uint8_t*>(to), v);
  }
  TD_INLINE static void load_short_key(char* to, const char* key, std::size_t key_bytes) noexcept {
    load_key(to, key, key_bytes);
  }
};

}  // namespace tandem::lane
