// The slabs behind the first ones of their buckets: free ones, and those that readers may still be in.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/epoch.hpp"
#include "base/memory_budget.hpp"
#include "index/slab_list/slab.hpp"
#include "index/slab_list/slab_memory.hpp"

namespace tandem {

// Thread safety: all calls from any thread. Its lock is a leaf, taken also under a stripe.
class SlabPool {
 public:
  using Number = std::uint32_t;  // 0: none
  static constexpr Number none = 0;

  // Throws std::bad_alloc.
  SlabPool(bool huge_pages, MemoryBudget& budget, EpochDomain& epochs);

  Slab* at(std::uint64_t number) const noexcept { return memory_.start() + (number - 1); }
  Slab* start() const noexcept { return memory_.start(); }
  std::uint64_t bytes() const noexcept { return memory_.bytes(); }

  // Memory that the next extend() takes.
  std::uint64_t extend_bytes() const noexcept;
  // As SlabMemory::extend().
  bool extend(bool& unmapped) noexcept;
  bool has_free() noexcept;

  // A slab without keys and without a next one, or none.
  Number take() noexcept;
  // REQUIRES: no chain leads to it any longer, and it has no keys. Readers in it still find its next one.
  void retire(Number number) noexcept;
  // One that no reader has seen.
  void give_back(Number number) noexcept;

 private:
  struct Queue {
    Number first = none, last = none;
  };
  bool may_reuse_first() noexcept;
  void append(Number number, std::uint64_t stamp) noexcept;

  EpochDomain& epochs_;
  SlabMemory memory_;
  std::mutex mutex_;
  Queue free_;               // in the order of their stamps
  std::uint64_t fresh_ = 0;  // slabs from here on were never used
  std::uint64_t safe_ = 0;   // stamps below it are safe
};

}  // namespace tandem
