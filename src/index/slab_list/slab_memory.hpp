// Slabs in address space that is reserved at once, so that they never move; memory for them is taken from the budget
// as they are needed, and kept.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/memory_budget.hpp"
#include "index/slab_list/slab.hpp"

namespace tandem {

class SlabMemory {
 public:
  // Throws std::bad_alloc: the system has no address space. `budget` outlives it.
  SlabMemory(std::uint64_t slabs_max, bool huge_pages, MemoryBudget& budget);
  ~SlabMemory();
  SlabMemory(const SlabMemory&) = delete;
  SlabMemory& operator=(const SlabMemory&) = delete;

  // What extend() takes for so many slabs.
  static std::uint64_t bytes_for(std::uint64_t slabs) noexcept;
  // Adds zeroed slabs, at least so many. False: the budget has no room; or, if `unmapped` is set, the system has none.
  // One caller at a time.
  bool extend(std::uint64_t slabs, bool& unmapped) noexcept;

  Slab* start() const noexcept { return start_; }
  // Any thread.
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  std::uint64_t slabs() const noexcept { return bytes() / sizeof(Slab); }

 private:
  MemoryBudget& budget_;
  void* mapping_;
  std::uint64_t mapping_bytes_;
  Slab* start_;
  std::uint64_t bytes_max_;
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace tandem
