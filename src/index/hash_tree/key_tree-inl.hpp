// The tree of either kind of leaf but for splits, scans and hints.
#pragma once
#include <bit>
#include <new>
#include <stdexcept>

#include "index/hash_tree/key_tree.hpp"

namespace tandem {

inline const TreeOptions& checked(const TreeOptions& options) {
  const std::uint32_t cells = options.shape.leaf_cells;
  if (!std::has_single_bit(cells) || cells < leaf_cells_min || cells > leaf_cells_max)
    throw std::invalid_argument("a leaf has a power of two of cells");
  return options;
}

template <class Leaves>
KeyTree<Leaves>::KeyTree(const TreeOptions& options, MemoryBudget& budget, EpochDomain& epochs, Heap& heap)
    : leaves_(checked(options), heap),
      pool_(leaves_.leaf_bytes(), options.huge_pages, budget, epochs),
      inner_(options.shape.node_children, budget, epochs, first_leaf()),
      counters_(std::make_unique<Counter[]>(counter_count)) {}

template <class Leaves>
Leaf* KeyTree<Leaves>::first_leaf() {
  Leaf* leaf = nullptr;
  if (!pool_.take(LeafPool::For::split, &leaf, 1)) throw std::bad_alloc();
  leaves_.make_empty(*leaf, {{}, {}, false});
  return leaf;
}

// The acquire load of a retired version makes the root that has the leaf's replacement visible.
template <class Leaves>
typename KeyTree<Leaves>::Latched KeyTree<Leaves>::latch(std::string_view key, Leaf* hint) noexcept {
  SpinWait waiting;
  for (;; hint = nullptr) {
    Leaf* const leaf = hint != nullptr ? hint : inner_.leaf_of(key);
    for (;; waiting.once()) {
      const std::uint64_t seen = leaf->version.load(std::memory_order_acquire);
      if (TD_UNLIKELY((seen & leaf_retired) != 0)) break;
      if (TD_UNLIKELY((seen & leaf_latched) != 0 || !leaf->try_latch(seen))) continue;
      TD_DEBUG_ASSERT(key >= leaf->low() && (!leaf->has_high || key < leaf->high()));
      return {leaf, seen};
    }
  }
}

template <class Leaves>
bool KeyTree<Leaves>::Hold::add(Fingerprint f, std::string_view key, Location l) noexcept {
  changed_ = true;  // also where there is no place: removed keys may have gone
  if (!tree_->leaves_.add(*leaf_, f, key, l)) return false;
  tree_->count(1);
  return true;
}

template <class Leaves>
void KeyTree<Leaves>::Hold::replace(Fingerprint f, std::string_view key, Location from, Location to) noexcept {
  const bool replaced = tree_->leaves_.replace(*leaf_, f, key, from, to);
  TD_ASSERT(replaced);
  changed_ = true;
}

template <class Leaves>
void KeyTree<Leaves>::Hold::remove(Fingerprint f, std::string_view key, Location l) noexcept {
  const bool removed = tree_->leaves_.remove(*leaf_, f, key, l);
  TD_ASSERT(removed);
  changed_ = true;
  tree_->count(-1);
  if (TD_UNLIKELY(leaf_->live.load(std::memory_order_relaxed) + 1 == tree_->sparse_cells())) {
    tree_->fallen_.fetch_add(1, std::memory_order_relaxed);
    tree_->fallen_leaves_.add(leaf_->low());
  }
}

template <class Leaves>
bool KeyTree<Leaves>::wants_room(Fingerprint f, std::string_view key) noexcept {
  const auto [leaf, before] = latch(key);
  const bool wants = !leaves_.finds_place(*leaf, f);
  leaf->unlatch(before, false);
  return wants;
}

template <class Leaves>
bool KeyTree<Leaves>::wants_growth() const noexcept {
  return is_short() || fallen_.load(std::memory_order_relaxed) > fallen_max();
}

template <class Leaves>
bool KeyTree<Leaves>::is_short() const noexcept {
  return room_failed_.load(std::memory_order_relaxed) || pool_.is_low();
}

template <class Leaves>
std::uint64_t KeyTree<Leaves>::growth_bytes() const noexcept {
  return is_short() ? pool_.chunk_bytes() + InnerTree::reserve_bytes_max : 0;
}

template <class Leaves>
Index::LeafSupply KeyTree<Leaves>::leaf_supply() noexcept {
  using enum Index::LeafSupply::State;
  const auto items = static_cast<std::uint32_t>(item_count() / std::max<std::uint64_t>(leaf_count(), 1)) + 1;
  if (!pool_.has(LeafPool::For::split)) return {pool_.is_due_for_split() ? coming : none, items};
  if (room_failed_.load(std::memory_order_relaxed)) {
    // Nodes that were replaced hold the memory of those to come.
    const std::lock_guard lock(inner_.mutex());
    if (inner_.has_retired()) return {coming, items};
  }
  return {pool_.is_low() ? few : enough, items};
}

// A walk of the whole tree while leaves are short is worth it once some have fallen that merge_fallen() has not merged.
template <class Leaves>
void KeyTree<Leaves>::merge_sparse() noexcept {
  merge_fallen();
  const std::uint64_t fallen = fallen_.load(std::memory_order_relaxed);
  if (fallen <= (is_short() ? leaf_count() / 32 : fallen_max())) return;
  merge_all();
  if (!pool_.is_low()) room_failed_.store(false, std::memory_order_relaxed);
}

template <class Leaves>
bool KeyTree<Leaves>::grow(bool* unmapped) noexcept {
  if (unmapped != nullptr) *unmapped = false;
  merge_sparse();
  {
    const std::lock_guard lock(inner_.mutex());
    inner_.reclaim();
    if (!inner_.fill_reserve()) return false;
  }
  if (is_short() && !pool_.grow(unmapped)) return false;
  unpaid_.store(0, std::memory_order_relaxed);
  room_failed_.store(false, std::memory_order_relaxed);
  return true;
}

template <class Leaves>
std::uint64_t KeyTree<Leaves>::item_count() const noexcept {
  std::int64_t sum = 0;
  for (std::uint32_t i = 0; i < counter_count; ++i) sum += counters_[i].items.load(std::memory_order_relaxed);
  return sum < 0 ? 0 : static_cast<std::uint64_t>(sum);
}

// Each thread counts on a line of its own, as long as there are no more than counter_count threads.
template <class Leaves>
void KeyTree<Leaves>::count(std::int64_t items) noexcept {
  static std::atomic<std::uint32_t> threads{0};
  thread_local const std::uint32_t mine = threads.fetch_add(1, std::memory_order_relaxed) % counter_count;
  counters_[mine].items.fetch_add(items, std::memory_order_relaxed);
}

template <class Leaves>
bool KeyTree<Leaves>::is_correct() const {
  std::uint64_t items = 0, seen = 0;
  const Leaf* last = nullptr;
  for (const Leaf* leaf = inner_.leaf_of({});; leaf = inner_.leaf_of(leaf->high())) {
    if ((leaf->version.load(std::memory_order_acquire) & (leaf_latched | leaf_retired)) != 0) return false;
    if (last != nullptr ? leaf->low() != last->high() || last != inner_.leaf_below(leaf->low()) : !leaf->low().empty())
      return false;
    if (leaf->has_high && leaf->low() >= leaf->high()) return false;
    if (!leaves_.is_correct(*leaf)) return false;
    items += leaf->live.load(std::memory_order_relaxed);
    ++seen;
    last = leaf;
    if (!leaf->has_high) break;
  }
  return last == inner_.last_leaf() && items == item_count() && seen == leaf_count();
}

}  // namespace tandem
