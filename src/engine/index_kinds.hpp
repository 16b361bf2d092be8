// The kinds of index that a store can have, by name. A program may register its own (tests/plain_index).
//
// Thread safety: any thread, once main() has begun.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/epoch.hpp"
#include "base/memory_budget.hpp"
#include "heap/heap.hpp"
#include "heap/recovery.hpp"
#include "index/index.hpp"
#include "task/kind_code.hpp"

namespace tandem {

// Inserts recovered items into an index, page by page or in a given order. Used by one thread.
class PageIndexer {
 public:
  PageIndexer() = default;
  PageIndexer(const PageIndexer&) = delete;
  PageIndexer& operator=(const PageIndexer&) = delete;
  virtual ~PageIndexer() = default;
  // REQUIRES: the thread is in no epoch.
  virtual void operator()(PageId page) = 0;
  virtual void operator()(std::span<const Location> items) = 0;
};

// A kind. kind_row() makes it (store/index_kinds-inl.hpp).
struct IndexKindRow {
  const KindCode* code;
  std::uint32_t fixed_entry_bytes;  // of a table that keeps its size (HasFixedSize); 0: it grows
  std::uint32_t cell_bytes;         // of IndexOptions::cells_initial, in one that grows
  bool can_be_ordered;              // IndexOptions::ordered
  bool is_always_ordered;           // without it, too
  std::uint32_t devices_max;        // that can follow it; 0: none
  // Throws std::bad_alloc past the budget, std::invalid_argument for options that the kind does not support.
  std::unique_ptr<Index> (*make)(const IndexOptions& options, MemoryBudget& budget, EpochDomain& epochs, Heap& heap);
  // Throws std::bad_alloc. REQUIRES: `index` is of the kind.
  std::unique_ptr<PageIndexer> (*make_indexer)(HeapRecovery& heap, Index& index, EpochDomain& epochs,
                                               std::uint64_t hash_seed);
};

std::span<const IndexKindRow> index_kinds() noexcept;
// Throws std::invalid_argument.
const IndexKindRow& index_kind_named(std::string_view name);
// REQUIRES: before main(). Throws std::bad_alloc.
void add_index_kind(const IndexKindRow& row);

}  // namespace tandem
