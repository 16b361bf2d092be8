// Memory of leaves: chunks drawn from the budget, leaves that are free, and retired ones that wait for their epoch.
// Thread safety: any thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/epoch.hpp"
#include "base/memory_budget.hpp"
#include "index/hash_tree/leaf.hpp"
#include "index/table_memory.hpp"

namespace tandem {

class LeafPool {
 public:
  LeafPool(std::uint32_t leaf_bytes, bool huge_pages, MemoryBudget& budget, EpochDomain& epochs) noexcept
      : leaf_bytes_(leaf_bytes), huge_pages_(huge_pages), budget_(budget), epochs_(epochs) {}

  // `count` leaves, or none. Takes a chunk if it has to. A split leaves one leaf for a merge, which returns two.
  enum class For : std::uint8_t { split, merge };
  bool take(For what, Leaf** out, std::uint32_t count) noexcept;
  // A leaf that was never in the tree.
  void give_back(Leaf* leaf) noexcept;
  // A leaf that is no longer in the tree.
  void retire(Leaf* leaf) noexcept;

  // Fewer leaves are at hand than should be.
  bool is_low() const noexcept {
    return at_hand_.load(std::memory_order_relaxed) < ahead_.load(std::memory_order_relaxed);
  }
  // Whether take() succeeds without a new chunk: now; and for a split, once the epochs in flight have ended.
  bool has(For what) const noexcept;
  bool is_due_for_split() const noexcept { return at_hand_.load(std::memory_order_relaxed) >= split_leaves + 1; }
  // Takes a chunk. False: the budget, or the system, has no memory.
  bool grow(bool* unmapped = nullptr) noexcept;  // unmapped: set to whether the system had no memory
  std::uint64_t chunk_bytes() const noexcept;    // of the next one
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t split_leaves = 2;

  bool add_chunk(bool* unmapped) noexcept;                       // REQUIRES: the lock
  bool add_chunk(std::uint64_t bytes, bool* unmapped) noexcept;  // likewise
  void reclaim(std::uint32_t wanted) noexcept;                   // likewise
  void push_free(Leaf* leaf) noexcept;                           // likewise

  const std::uint32_t leaf_bytes_;
  const bool huge_pages_;
  MemoryBudget& budget_;
  EpochDomain& epochs_;

  mutable std::mutex mutex_;  // for all below
  std::vector<TableMemory> chunks_;
  Leaf* free_ = nullptr;
  std::uint32_t free_count_ = 0;
  Leaf *retired_first_ = nullptr, *retired_last_ = nullptr;  // oldest first
  std::atomic<std::uint32_t> at_hand_{0}, ahead_{0};         // at_hand_: free and retired
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace tandem
