// Portable lanes, and those of ThreadSanitizer: every access is a std::atomic_ref.
#pragma once
#include <atomic>
#include <bit>

#include "heap/item.hpp"
#include "index/cuckoo/lanes.hpp"

namespace tandem {

struct ScalarLanes {
  static constexpr std::uint32_t width = bucket_cells;
  struct PerLane {
    std::uint64_t cell[bucket_cells];
  };

  // Host access to a cell of shared memory.
  TD_LANE static std::atomic_ref<std::uint64_t> at(const std::uint64_t* p) {
    return std::atomic_ref<std::uint64_t>(*const_cast<std::uint64_t*>(p));
  }
  // Acquire loads (plain ones on x86), so that order_loads() is empty: ThreadSanitizer does not know fences.
  TD_LANE PerLane load(const Bucket* b) const {
    PerLane v;
    for (std::uint32_t i = 0; i < width; ++i) v.cell[i] = at(&b->cell[i]).load(std::memory_order_acquire);
    return v;
  }
  TD_LANE void order_loads() const {}
  TD_LANE std::uint32_t match(const PerLane& v, std::uint32_t signature) const {
    std::uint32_t m = 0;
    for (std::uint32_t i = 0; i < width; ++i) {
      m |= static_cast<std::uint32_t>(static_cast<std::uint32_t>(v.cell[i]) == signature) << i;
    }
    return m;
  }
  TD_LANE Cell take(const Bucket* b, const PerLane&, std::uint32_t i) const {
    return {at(&b->cell[i]).load(std::memory_order_acquire)};
  }
  TD_LANE Cell cas(std::uint64_t* p, Cell expected, Cell desired) const {
    std::uint64_t seen = expected.bits;
    at(p).compare_exchange_strong(seen, desired.bits, std::memory_order_acq_rel, std::memory_order_acquire);
    return {seen};
  }
  TD_LANE std::uint32_t lowest(std::uint32_t m) const { return static_cast<std::uint32_t>(std::countr_zero(m)); }
  template <class F>
  TD_LANE void once(F f) const {
    f();
  }
};
static_assert(Lanes<ScalarLanes>);

}  // namespace tandem
