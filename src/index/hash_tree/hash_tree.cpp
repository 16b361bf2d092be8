#include "index/hash_tree/hash_tree.hpp"

#include <bit>
#include <new>
#include <stdexcept>

namespace tandem {

namespace {
std::uint32_t checked(std::uint32_t cells) {
  if (!std::has_single_bit(cells) || cells < leaf_cells_min || cells > leaf_cells_max)
    throw std::invalid_argument("a leaf has a power of two of cells");
  return cells;
}
}  // namespace

HashTree::HashTree(const HashTreeOptions& options, MemoryBudget& budget, EpochDomain& epochs, Heap& heap)
    : ops_(cuckoo_ops_named(options.lanes)),
      leaves_(checked(options.shape.leaf_cells), ops_, heap),
      pool_(leaves_.leaf_bytes(), options.huge_pages, budget, epochs),
      inner_(options.shape.node_children, budget, epochs, first_leaf()),
      counters_(std::make_unique<Counter[]>(counter_count)) {}

Leaf* HashTree::first_leaf() {
  Leaf* leaf = nullptr;
  if (!pool_.take(LeafPool::For::split, &leaf, 1)) throw std::bad_alloc();
  leaves_.make_empty(*leaf, {{}, {}, false});
  return leaf;
}

// The acquire load of a retired version makes the root that has the leaf's replacement visible.
HashTree::Latched HashTree::latch(std::string_view key, Leaf* hint) noexcept {
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

bool HashTree::Hold::add(Fingerprint f, std::string_view key, Location l) noexcept {
  changed_ = true;  // also where there is no place: ids of removed cells may have gone
  if (!tree_->leaves_.add(*leaf_, f, key, l)) return false;
  tree_->count(1);
  return true;
}

void HashTree::Hold::replace(Fingerprint f, Location from, Location to) noexcept {
  const bool replaced = tree_->leaves_.replace(*leaf_, f, from, to);
  TD_ASSERT(replaced);
  changed_ = true;
}

void HashTree::Hold::remove(Fingerprint f, Location l) noexcept {
  const bool removed = tree_->leaves_.remove(*leaf_, f, l);
  TD_ASSERT(removed);
  changed_ = true;
  tree_->count(-1);
  if (TD_UNLIKELY(leaf_->live.load(std::memory_order_relaxed) + 1 == tree_->sparse_cells())) {
    tree_->fallen_.fetch_add(1, std::memory_order_relaxed);
    tree_->fallen_leaves_.add(leaf_->low());
  }
}

std::uint32_t HashTree::candidates(Fingerprint f, std::string_view key, Location out[candidates_max]) const noexcept {
  const Leaf& leaf = *inner_.leaf_of(key);
  const IndexView where = leaves_.view(leaf);
  std::uint32_t n = 0;
  for (const std::uint32_t bucket : {where.first(f), where.second(f)}) {
    for (std::uint32_t i = 0; i < bucket_cells; ++i) {
      const Cell c = leaves_.cell(leaf, bucket * bucket_cells + i);
      if (!c.empty()) out[n++] = c.location();
    }
  }
  return n;
}

bool HashTree::wants_room(Fingerprint f, std::string_view key) noexcept {
  const auto [leaf, before] = latch(key);
  const bool wants = !leaves_.finds_place(*leaf, f);
  leaf->unlatch(before, false);
  return wants;
}

bool HashTree::wants_growth() const noexcept {
  return is_short() || fallen_.load(std::memory_order_relaxed) > fallen_max();
}

bool HashTree::is_short() const noexcept { return room_failed_.load(std::memory_order_relaxed) || pool_.is_low(); }

std::uint64_t HashTree::growth_bytes() const noexcept {
  return is_short() ? pool_.chunk_bytes() + InnerTree::reserve_bytes_max : 0;
}

Index::LeafSupply HashTree::leaf_supply() noexcept {
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
void HashTree::merge_sparse() noexcept {
  merge_fallen();
  const std::uint64_t fallen = fallen_.load(std::memory_order_relaxed);
  if (fallen <= (is_short() ? leaf_count() / 32 : fallen_max())) return;
  merge_all();
  if (!pool_.is_low()) room_failed_.store(false, std::memory_order_relaxed);
}

bool HashTree::grow(bool* unmapped) noexcept {
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

std::uint64_t HashTree::item_count() const noexcept {
  std::int64_t sum = 0;
  for (std::uint32_t i = 0; i < counter_count; ++i) sum += counters_[i].items.load(std::memory_order_relaxed);
  return sum < 0 ? 0 : static_cast<std::uint64_t>(sum);
}

// Each thread counts on a line of its own, as long as there are no more than counter_count threads.
void HashTree::count(std::int64_t items) noexcept {
  static std::atomic<std::uint32_t> threads{0};
  thread_local const std::uint32_t mine = threads.fetch_add(1, std::memory_order_relaxed) % counter_count;
  counters_[mine].items.fetch_add(items, std::memory_order_relaxed);
}

bool HashTree::is_correct() const {
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
