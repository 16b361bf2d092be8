// A B+ tree of keys in order. Its leaves are small hash tables, in which single keys are found, too (HashTree:
// HeteroKV, III-A), or keep the order alone, beside a table that answers for single keys (OrderTree).
//
// Departures from the paper. The tree is in the host's memory. A leaf is cut at its median key, never halfway between
// its least and greatest one, and leaves that have become nearly empty are merged. Keys have 1 to 250 arbitrary bytes
// and are the items' own. The order is kept with the leaf, not made by each scan.
//
// Readers: any thread inside an epoch. Writers: the same, one key at a time under a Hold, which latches the key's leaf.
// A latch is taken inside a key's stripe. Its holder waits for no stripe and no other latch. Splits and merges take
// `InnerTree::mutex()` inside a latch, or only try latches inside the mutex.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/epoch.hpp"
#include "base/fingerprint.hpp"
#include "base/memory_budget.hpp"
#include "base/spin_wait.hpp"
#include "heap/heap.hpp"
#include "index/hash_tree/cell_leaves.hpp"
#include "index/hash_tree/inner_node.hpp"
#include "index/hash_tree/leaf.hpp"
#include "index/hash_tree/leaf_pool.hpp"
#include "index/hash_tree/order_leaves.hpp"
#include "index/index.hpp"
#include "index/recent_keys.hpp"
#include "index/scan.hpp"

namespace tandem {

// Leaves: CellLeaves or OrderLeaves.
template <class Leaves>
class KeyTree {
 public:
  static constexpr std::uint32_t candidates_max = 16;

  // All outlive the tree. Throws std::bad_alloc past the budget, std::invalid_argument for bad options.
  KeyTree(const TreeOptions& options, MemoryBudget& budget, EpochDomain& epochs, Heap& heap);
  KeyTree(const KeyTree&) = delete;
  KeyTree& operator=(const KeyTree&) = delete;

  // Holds the leaf of one key: its version is odd, and readers of the leaf wait. The version goes on at the end if the
  // leaf was changed.
  class Hold {
   public:
    Hold(Hold&& other) noexcept
        : tree_(other.tree_),
          leaf_(std::exchange(other.leaf_, nullptr)),
          before_(other.before_),
          changed_(other.changed_) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (leaf_ != nullptr) leaf_->unlatch(before_, changed_);
    }

    // Adds a key that the leaf does not have. False: no place, and no key has changed; end the hold and call
    // make_room().
    [[nodiscard]] bool add(Fingerprint f, std::string_view key, Location l) noexcept;
    // Undoes an add() of this hold.
    void take_back(Fingerprint f, std::string_view key, Location l) noexcept { remove(f, key, l); }
    // Gives the key another item. REQUIRES: the leaf has the key with the item at `from`.
    void replace(Fingerprint f, std::string_view key, Location from, Location to) noexcept;
    // REQUIRES: the leaf has the key with the item at `l`.
    void remove(Fingerprint f, std::string_view key, Location l) noexcept;
    // The first location with f's signature that is_it(Location) accepts, or no_location.
    template <class IsIt>
      requires Leaves::has_cells
    Location find(Fingerprint f, IsIt is_it) const noexcept {
      Location found = no_location;
      tree_->leaves_.visit(*leaf_, f, [&](Location l) {
        if (!is_it(l)) return false;
        found = l;
        return true;
      });
      return found;
    }

   private:
    friend class KeyTree;
    Hold(KeyTree& tree, Leaf& leaf, std::uint64_t before) noexcept : tree_(&tree), leaf_(&leaf), before_(before) {}

    KeyTree* tree_;
    Leaf* leaf_;  // nullptr: moved from
    std::uint64_t before_;
    bool changed_ = false;
  };
  // Waits while another thread holds the leaf. REQUIRES: the caller is in an epoch until the hold's end, no other
  // thread changes this key, and the caller has no other Hold. Keep it short: no allocation. hint: nullptr, or a leaf
  // that was the key's in this epoch; fences never change, so it is as long as it is not retired.
  [[nodiscard]] Hold hold(std::string_view key, Leaf* hint = nullptr) noexcept {
    const Latched latched = latch(key, hint);
    return Hold(*this, *latched.leaf, latched.before);
  }

  // For searches for many keys' leaves together. REQUIRES: an epoch.
  const InnerNode* root() const noexcept { return inner_.root(); }
  // Fetches what Hold::add() touches, in two steps, of which the second waits for what the first one fetches.
  TD_INLINE void prefetch_add(Leaf& leaf, Fingerprint f) const noexcept { leaves_.prefetch_add(leaf, f); }
  TD_INLINE void prefetch_next(Leaf& leaf) const noexcept {
    if constexpr (!Leaves::has_cells) leaves_.prefetch_next(leaf);
  }

  // --- leaves with cells

  // Calls visit(Location) for the cells of the key's leaf with f's signature until it returns true. False: no cell was
  // accepted at a moment when nothing changed the leaf. REQUIRES: an epoch.
  template <class F>
    requires Leaves::has_cells
  bool find(Fingerprint f, std::string_view key, F visit) const noexcept;
  TD_INLINE IndexView buckets_of(const Leaf& leaf) const noexcept
    requires Leaves::has_cells
  {
    return leaves_.view(leaf);
  }
  // find() for many keys, in two steps: the leaf, with its buckets fetched, and the first cell there with f's
  // signature, or no_location. Hints: a miss is not final. REQUIRES: both in one epoch.
  const Leaf* locate(Fingerprint f, std::string_view key) const noexcept
    requires Leaves::has_cells
  {
    const Leaf* const leaf = inner_.leaf_of(key);
    const IndexView view = leaves_.view(*leaf);
    prefetch_read(view.buckets + view.first(f));
    prefetch_read(view.buckets + view.second(f));
    return leaf;
  }
  Location candidate_in(const Leaf* leaf, Fingerprint f) const noexcept
    requires Leaves::has_cells
  {
    Location found = no_location;
    leaves_.visit(*leaf, f, [&found](Location l) {
      found = l;
      return true;
    });
    return found;
  }
  // Calls f(Location) for every cell. REQUIRES: an epoch.
  template <class F>
    requires Leaves::has_cells
  void for_each_location(F f) const;
  std::string_view lanes() const noexcept
    requires Leaves::has_cells
  {
    return leaves_.lanes();
  }

  // --- order and size

  // Cuts the leaf in two at its median key, if add() has found no place in it; near its end if the key is above all
  // keys there, as keys that ascend are followed by more of them. False: there is no memory for that;
  // evict candidates(), or give the budget room and let grow() take it. REQUIRES: an epoch, and no Hold.
  bool make_room(Fingerprint f, std::string_view key) noexcept;
  // Locations of the key's leaf of which each makes room for the key. REQUIRES: an epoch.
  std::uint32_t candidates(Fingerprint f, std::string_view key, Location out[candidates_max]) const noexcept {
    return leaves_.candidates(*inner_.leaf_of(key), f, out);
  }
  // Whether add() would find no place. REQUIRES: an epoch, and no Hold.
  bool wants_room(Fingerprint f, std::string_view key) noexcept;

  // Fewer leaves are at hand than should be, or many have become nearly empty.
  bool wants_growth() const noexcept;
  // Takes leaves ahead from the budget, and merges leaves that have become nearly empty. False: the budget has no room.
  // Any thread, in an epoch or not; it waits for no reader. unmapped: set to whether the system had no memory.
  bool grow(bool* unmapped = nullptr) noexcept;
  // Memory that the next grow() takes.
  std::uint64_t growth_bytes() const noexcept;
  // The merges alone, which cost no memory: of many leaves, or of some when leaves are short. As grow().
  void merge_sparse() noexcept;
  // As Index says.
  void cut(std::string_view key) noexcept;
  Index::LeafSupply leaf_supply() noexcept;
  // No more than one call's sets can pay for: splits while the index may grow are counted, too.
  std::uint32_t take_unpaid_leaves() noexcept {
    constexpr std::uint32_t taken_max = 32;
    if (unpaid_.load(std::memory_order_relaxed) == 0) return 0;
    return std::min(unpaid_.exchange(0, std::memory_order_relaxed), taken_max);
  }
  std::uint32_t merge_fallen() noexcept;

  // The live items of the range in order (reverse: from its end downwards), at most `most`, added to the copies.
  // `stamp` is cleared, and gets the version of each leaf that was read. Each leaf is read as it was at one moment; all
  // together are a snapshot if stamp.is_unchanged() says so afterwards. A result that is not `done` has at least one
  // copy, unless `most` is 0, or there are so many empty leaves that the memory to merge them is free only when this
  // epoch has ended: then it has none, and the caller tries again in another epoch. Sorts what was added to the leaves
  // since their last scan, and merges nearly empty ones. REQUIRES: an epoch until the copies' items are no longer used,
  // and no Hold.
  ScanResult scan(const ScanRange& range, std::uint32_t most, ScanCopies& copies, ScanStamp& stamp) noexcept;
  // As Index says: nodes, leaves and their order, a step of all scans at a time, so that their lines come together.
  void prefetch_scans(std::span<const ScanStart> starts, ScansAhead& ahead) const noexcept;

  std::uint64_t item_count() const noexcept;  // exact when no writer is active
  std::uint64_t cell_count() const noexcept { return leaf_count() * leaves_.cells(); }
  std::uint64_t leaf_count() const noexcept { return leaf_count_.load(std::memory_order_relaxed); }
  std::uint64_t bytes() const noexcept { return pool_.bytes() + inner_.bytes(); }  // of the budget
  std::uint64_t splits() const noexcept { return splits_.load(std::memory_order_relaxed); }
  std::uint64_t merges() const noexcept { return merges_.load(std::memory_order_relaxed); }
  std::uint64_t sorts() const noexcept { return sorts_.load(std::memory_order_relaxed); }  // by scans

  // For tests. REQUIRES: an epoch, and no writer.
  bool is_correct() const;

 private:
  struct Latched {
    Leaf* leaf;
    std::uint64_t before;  // its version
  };
  struct alignas(cache_line_bytes) Counter {
    std::atomic<std::int64_t> items{0};
  };
  static constexpr std::uint32_t counter_count = 64;

  bool is_short() const noexcept;
  std::uint64_t fallen_max() const noexcept { return leaf_count() / 4 + 16; }
  Latched latch(std::string_view key, Leaf* hint = nullptr) noexcept;
  void count(std::int64_t items) noexcept;
  Leaf* first_leaf();
  bool put_in_place_of(Leaf& old, Leaf& left, Leaf& right) noexcept;
  // Whether two neighbours with so many keys should be one leaf.
  bool should_merge(std::uint32_t a, std::uint32_t b) const noexcept {
    return (a < sparse_cells() || b < sparse_cells()) && a + b <= leaves_.cells() / 5 * 3;
  }
  std::uint32_t sparse_cells() const noexcept { return leaves_.cells() / 4; }
  bool merge_pair(const InnerTree::Path& path, std::uint32_t first) noexcept;
  bool merge_beside(std::string_view key) noexcept;
  bool merge_at(std::string_view key) noexcept;
  void merge_all() noexcept;

  // scan-inl.hpp
  class Scan;

  Leaves leaves_;
  LeafPool pool_;
  InnerTree inner_;
  std::unique_ptr<Counter[]> counters_;
  std::atomic<std::uint64_t> leaf_count_{1}, splits_{0}, merges_{0}, sorts_{0};
  std::atomic<std::uint64_t> fallen_{0};  // leaves that became nearly empty since merge_all()
  RecentKeys fallen_leaves_;              // their lower fences
  std::atomic<std::uint32_t> unpaid_{0};
  std::atomic<bool> room_failed_{false};
};

// A hit is what visit() says it is, whatever happens meanwhile. The fence keeps the second load of the version behind
// those of the cells; a retired leaf's cells are what they were when it was replaced.
template <class Leaves>
template <class F>
  requires Leaves::has_cells
bool KeyTree<Leaves>::find(Fingerprint f, std::string_view key, F visit) const noexcept {
  for (SpinWait waiting;; waiting.once()) {
    const Leaf& leaf = *inner_.leaf_of(key);
    const std::uint64_t before = leaf.version.load(std::memory_order_acquire);
    if (leaves_.visit(leaf, f, visit)) return true;
    fence_acquire();
    if ((before & (leaf_latched | leaf_retired)) == 0 && leaf.version.load(std::memory_order_relaxed) == before)
      return false;
  }
}

template <class Leaves>
template <class F>
  requires Leaves::has_cells
void KeyTree<Leaves>::for_each_location(F f) const {
  for (const Leaf* leaf = inner_.leaf_of({});; leaf = inner_.leaf_of(leaf->high())) {
    leaves_.for_each_location(*leaf, f);
    if (!leaf->has_high) return;
  }
}

using HashTree = KeyTree<CellLeaves>;
using OrderTree = KeyTree<OrderLeaves>;
extern template class KeyTree<CellLeaves>;
extern template class KeyTree<OrderLeaves>;

}  // namespace tandem
