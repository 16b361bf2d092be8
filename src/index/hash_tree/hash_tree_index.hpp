// The index kind `hash_tree` (HeteroKV III): a HashTree alone, which answers for single keys, too. The writers of one
// key wait for each other at its stripe, as those of the cuckoo table do; a leaf is held only for the stores.
//
// Readers: any thread inside an epoch. Writers: any thread inside an epoch, one key at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/epoch.hpp"
#include "base/fingerprint.hpp"
#include "base/memory_budget.hpp"
#include "heap/heap.hpp"
#include "heap/item_rewrite.hpp"
#include "index/hash_tree/key_tree.hpp"
#include "index/index.hpp"
#include "index/stripes.hpp"

namespace tandem {

class HashTreeIndex final : public Index {
 public:
  static constexpr std::string_view kind = "hash_tree";
  static constexpr bool can_be_ordered = true, is_always_ordered = true;

  // Throws std::bad_alloc past the budget, std::invalid_argument for options that a device
  // needs.
  HashTreeIndex(const IndexOptions& options, MemoryBudget& budget, EpochDomain& epochs, Heap& heap);

  // --- reading, a strip at a time. A leaf is found by the key, so a strip is located first

  struct Prefetcher {
    void operator()(Fingerprint) const noexcept {}
  };
  Prefetcher prefetcher() const noexcept { return {}; }
  std::uint32_t search_first(const Fingerprint* f, std::uint32_t count, Location* location) const noexcept;
  void search_second(const Fingerprint*, std::uint32_t, Location*) const noexcept {}
  const void* locate(Fingerprint f, std::string_view key) const noexcept { return tree_.locate(f, key); }
  Location candidate_at(const void* place, Fingerprint f) const noexcept {
    const Location l = tree_.candidate_in(static_cast<const Leaf*>(place), f);
    prefetch_read(heap_.at(l));
    return l;
  }
  Item* find(Fingerprint f, std::string_view key, ItemVersion& seen,
             Location candidate = no_location) const noexcept override;

  // --- writing

  using Put = IndexPut;

  // As CuckooIndex::Guard.
  class Guard {
   public:
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard();
    Item* find(std::string_view key, Location candidate = no_location) noexcept;
    Item* find(Location l) noexcept;
    const ItemVersion& version() const noexcept { return version_; }
    // The key's leaf, as HashTree::hold() wants it, for put().
    void expect_in(Leaf* leaf) noexcept { leaf_ = leaf; }
    [[nodiscard]] Put put(Location now, std::uint64_t live_state) noexcept;
    [[nodiscard]] bool erase() noexcept;
    [[nodiscard]] bool update_state(std::uint64_t mask, std::uint64_t bits) noexcept;

   private:
    friend class HashTreeIndex;
    Guard(HashTreeIndex& index, Fingerprint f) noexcept;
    void kill() noexcept;

    HashTreeIndex& index_;
    const Fingerprint f_;
    StripeLock lock_;
    Leaf* leaf_ = nullptr;   // of expect_in()
    Item* item_ = nullptr;   // what was found
    ItemVersion version_{};  // of item_
  };
  [[nodiscard]] Guard lock(Fingerprint f) noexcept { return Guard(*this, f); }
  std::unique_ptr<KeyHold> hold(Fingerprint f) override;
  void prefetch_stripe(Fingerprint f) const noexcept { prefetch_write(&stripes_.of(f.signature)); }
  void prefetch_guard(Fingerprint f) const noexcept { prefetch_stripe(f); }

  // --- order and size

  bool is_ordered() const noexcept override { return true; }
  ScanResult scan(const ScanRange& range, std::uint32_t most, ScanCopies& copies, ScanStamp& stamp) noexcept override {
    return tree_.scan(range, most, copies, stamp);
  }
  void prefetch_scans(std::span<const ScanStart> starts, ScansAhead& ahead) const noexcept override {
    tree_.prefetch_scans(starts, ahead);
  }
  HashTree& tree() noexcept { return tree_; }

  bool make_room(Fingerprint f, std::string_view key) noexcept override { return tree_.make_room(f, key); }
  std::uint32_t candidates(Fingerprint f, std::string_view key, Location out[candidates_max]) const noexcept override {
    return tree_.candidates(f, key, out);
  }
  bool wants_growth() const noexcept override { return tree_.wants_growth(); }
  bool grow(EpochDomain::Participant&) override { return tree_.grow(&memory_refused_); }
  bool is_memory_refused() const noexcept override { return memory_refused_; }
  void cut_order(std::string_view key) noexcept override { tree_.cut(key); }
  LeafSupply leaf_supply() noexcept override { return tree_.leaf_supply(); }
  std::uint32_t take_unpaid_leaves() noexcept override { return tree_.take_unpaid_leaves(); }
  std::uint32_t merge_fallen() noexcept override { return tree_.merge_fallen(); }
  void tidy() override { tree_.merge_sparse(); }
  std::uint64_t growth_bytes() const noexcept override { return tree_.growth_bytes(); }
  bool growing() const noexcept override { return false; }
  std::uint64_t cell_count() const noexcept override { return tree_.cell_count(); }
  std::uint64_t item_count() const noexcept override { return tree_.item_count(); }
  std::uint64_t table_bytes() const noexcept override { return tree_.bytes(); }
  CellsIn cells_in() const noexcept override { return CellsIn::leaf; }
  std::string_view lanes() const noexcept override { return tree_.lanes(); }

  template <class F>
  void for_each_location(F f) const {
    tree_.for_each_location(f);
  }

 private:
  Heap& heap_;
  const std::uint64_t hash_seed_;
  Stripes stripes_;
  HashTree tree_;
  bool memory_refused_ = false;  // only grow()'s caller uses it
};

}  // namespace tandem
