// The memory of one index table: owner of what an IndexView points to.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>

#include "base/memory_budget.hpp"
#include "index/cuckoo/cell.hpp"
#include "index/table_memory.hpp"

namespace tandem {

class Table {
 public:
  static constexpr std::uint64_t buckets_min = 2;                       // two different buckets for every key
  static constexpr std::uint64_t buckets_max = std::uint64_t{1} << 32;  // as many as the bucket hash can address

  // A zeroed table of `buckets` buckets (a power of two), drawn from the budget; nullptr when the budget or the system
  // has no memory. shard_bits: as in IndexView. overdraw: also when that overdraws the budget. unmapped: set to whether
  // the system had none.
  static std::unique_ptr<Table> make(std::uint64_t buckets, std::uint32_t serial, bool huge_pages, MemoryBudget& budget,
                                     std::uint32_t shard_bits = 0, bool overdraw = false, bool* unmapped = nullptr);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // Whether strips read both buckets of a key at once, or the second only for those with no match in the first. Past
  // the size of a core's own caches a search costs as much as the lines that it reads (measured:
  // docs/decisions/0002-index.md).
  bool reads_both() const noexcept { return reads_both(view_.mask); }
  static bool reads_both(std::uint32_t mask) noexcept {
    return (std::uint64_t{mask} + 1) * sizeof(Bucket) <= reads_both_bytes_max;
  }
  static constexpr std::uint64_t reads_both_bytes_max = std::uint64_t{1} << 20;

  IndexView view() const noexcept { return view_; }
  std::uint64_t buckets() const noexcept { return std::uint64_t{view_.mask} + 1; }
  std::uint64_t cells() const noexcept { return buckets() * bucket_cells; }
  std::uint64_t bytes() const noexcept { return buckets() * sizeof(Bucket); }
  std::uint32_t serial() const noexcept { return serial_; }
  // Position of one of this table's cells: 8 * bucket + slot.
  std::uint64_t index_of(const std::uint64_t* cell) const noexcept {
    return static_cast<std::uint64_t>(cell - view_.buckets->cell);
  }

 private:
  Table(IndexView view, std::uint32_t serial, TableMemory memory) noexcept
      : view_(view), serial_(serial), memory_(std::move(memory)) {}

  IndexView view_;
  std::uint32_t serial_;
  TableMemory memory_;
};

}  // namespace tandem
