// Portable lanes, and those of ThreadSanitizer: every access is a std::atomic_ref.
#pragma once
#include <atomic>

#include "index/slab_list/lanes.hpp"

namespace tandem {

struct ScalarSlabLanes {
  TD_LANE std::uint32_t match(const std::uint64_t* line, std::uint64_t key) const {
    std::uint32_t same = 0;
    for (std::uint32_t i = 0; i < slab_line_keys; ++i) {
      const std::atomic_ref<std::uint64_t> word(const_cast<std::uint64_t&>(line[i]));
      same |= (word.load(std::memory_order_acquire) == key ? 1u : 0u) << i;
    }
    return same;
  }
  TD_LANE void order_loads() const {}  // the loads acquire
};
static_assert(SlabLanes<ScalarSlabLanes>);

}  // namespace tandem
