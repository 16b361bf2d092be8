// Portable lanes, and those of ThreadSanitizer: every access is a std::atomic_ref.
#pragma once
#include <atomic>
#include <bit>

#include "index/set_associative/lanes.hpp"

namespace tandem {

struct ScalarTagLanes {
  template <class T>
  TD_LANE static std::atomic_ref<T> at(const T* p) {
    return std::atomic_ref<T>(*const_cast<T*>(p));
  }
  TD_LANE std::uint64_t load64(const std::uint64_t* p) const { return at(p).load(std::memory_order_acquire); }
  TD_LANE std::uint32_t load32(const std::uint32_t* p) const { return at(p).load(std::memory_order_acquire); }
  TD_LANE void store64(std::uint64_t* p, std::uint64_t v) const { at(p).store(v, std::memory_order_release); }
  TD_LANE void store32(std::uint32_t* p, std::uint32_t v) const { at(p).store(v, std::memory_order_release); }
  TD_LANE bool cas(std::uint64_t* p, std::uint64_t expected, std::uint64_t desired) const {
    return at(p).compare_exchange_strong(expected, desired, std::memory_order_acq_rel, std::memory_order_relaxed);
  }
  TD_LANE std::uint32_t lowest(std::uint32_t m) const { return static_cast<std::uint32_t>(std::countr_zero(m)); }
  TD_LANE std::uint32_t match(const std::uint64_t* tags, std::uint32_t tag) const {
    return equal_bytes(load64(tags), tag) | equal_bytes(load64(tags + 1), tag) << 8;
  }
  TD_LANE void order_loads() const {}  // the loads acquire

 private:
  // Bit i: byte i is `tag`. Exact: no byte's carry reaches the next one.
  TD_LANE static std::uint32_t equal_bytes(std::uint64_t bytes, std::uint32_t tag) {
    constexpr std::uint64_t low_bits = 0x7f7f7f7f7f7f7f7f;
    const std::uint64_t differ = bytes ^ tag * 0x0101010101010101ULL;
    const std::uint64_t same = ~(((differ & low_bits) + low_bits) | differ | low_bits);  // bit 7 of each equal byte
    return static_cast<std::uint32_t>(same * 0x0002040810204081ULL >> 56);
  }
};
static_assert(TagLanes<ScalarTagLanes>);

}  // namespace tandem
