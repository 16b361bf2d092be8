// Splits and merges: new leaves take the place of old ones, which are retired for good. Both are prepared on leaves
// that no thread sees, under the latches of the old ones.
//
// Order of locks: a split has its leaf's latch, then takes the mutex of the nodes. A merge has the mutex and only tries
// latches. The pool's lock is a leaf. So the mutex's holder waits for no latch.
//
// Items of latched leaves' cells are live until the latch is gone: no thread kills one without it. So a merge needs no
// epoch.
#pragma once
#include <cstring>
#include <mutex>

#include "index/hash_tree/key_tree.hpp"

namespace tandem {

template <class Leaves>
bool KeyTree<Leaves>::make_room(Fingerprint f, std::string_view key) noexcept {
  const auto [leaf, before] = latch(key);
  // Another thread may have cut it, or keys have gone.
  if (leaves_.finds_place(*leaf, f)) {
    leaf->unlatch(before, false);
    return true;
  }
  leaves_.sort(*leaf);
  Leaf* fresh[2];
  const bool has_leaves = pool_.take(LeafPool::For::split, fresh, 2);
  if (has_leaves) {
    leaves_.split(*leaf, key, *fresh[0], *fresh[1]);
    if (put_in_place_of(*leaf, *fresh[0], *fresh[1])) {
      leaf->retire(before);
      pool_.retire(leaf);
      leaf_count_.fetch_add(1, std::memory_order_relaxed);
      splits_.fetch_add(1, std::memory_order_relaxed);
      if (pool_.is_low()) unpaid_.fetch_add(1, std::memory_order_relaxed);
      if (TD_UNLIKELY(room_failed_.load(std::memory_order_relaxed)))
        room_failed_.store(false, std::memory_order_relaxed);
      return true;
    }
  }
  leaf->unlatch(before, true);
  if (has_leaves) {
    for (Leaf* const unused : fresh) pool_.give_back(unused);
  }
  room_failed_.store(true, std::memory_order_relaxed);
  return false;
}

template <class Leaves>
void KeyTree<Leaves>::cut(std::string_view key) noexcept {
  const auto [leaf, before] = latch(key);
  TD_ASSERT(leaf->live.load(std::memory_order_relaxed) == 0);
  Leaf* fresh[2];
  if (leaf->low() == key || !pool_.take(LeafPool::For::split, fresh, 2)) return leaf->unlatch(before, false);
  leaves_.make_empty(*fresh[0], {leaf->low(), key, true});
  leaves_.make_empty(*fresh[1], {key, leaf->high(), leaf->has_high});
  if (put_in_place_of(*leaf, *fresh[0], *fresh[1])) {
    leaf->retire(before);
    pool_.retire(leaf);
    leaf_count_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  leaf->unlatch(before, false);
  for (Leaf* const unused : fresh) pool_.give_back(unused);
}

template <class Leaves>
bool KeyTree<Leaves>::put_in_place_of(Leaf& old, Leaf& left, Leaf& right) noexcept {
  const InnerTree::Entry both[2] = {{left.low(), &left}, {right.low(), &right}};
  const std::lock_guard lock(inner_.mutex());
  const InnerTree::Path path = inner_.path_to(old.low());
  TD_ASSERT(path.leaf(path.at()) == &old);
  return inner_.replace(path, path.at(), 1, both);
}

// Merges the path's children `first` and first + 1, if they should be one. REQUIRES: the mutex.
template <class Leaves>
bool KeyTree<Leaves>::merge_pair(const InnerTree::Path& path, std::uint32_t first) noexcept {
  if (first >= path.lowest().count) return false;
  Leaf* const old[2] = {path.leaf(first), path.leaf(first + 1)};
  if (!should_merge(old[0]->live.load(std::memory_order_relaxed), old[1]->live.load(std::memory_order_relaxed)))
    return false;
  Leaf* fresh = nullptr;
  if (!pool_.take(LeafPool::For::merge, &fresh, 1)) return false;
  std::uint64_t before[2];
  std::uint32_t latched = 0;
  for (; latched < 2; ++latched) {
    before[latched] = old[latched]->version.load(std::memory_order_acquire);
    if ((before[latched] & (leaf_latched | leaf_retired)) != 0 || !old[latched]->try_latch(before[latched])) break;
  }
  bool merged = false;
  if (latched == 2) {
    for (Leaf* const leaf : old) leaves_.sort(*leaf);
    const InnerTree::Entry one{{}, fresh};
    merged = leaves_.merge(*old[0], *old[1], *fresh) && inner_.replace(path, first, 2, {&one, 1});
  }
  for (std::uint32_t i = 0; i < latched; ++i) {
    if (merged) {
      old[i]->retire(before[i]);
      pool_.retire(old[i]);
    } else {
      old[i]->unlatch(before[i], true);
    }
  }
  if (!merged) {
    pool_.give_back(fresh);
    return false;
  }
  leaf_count_.fetch_sub(1, std::memory_order_relaxed);
  merges_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// Merges the leaf of the key with a neighbour below the same node. REQUIRES: the mutex.
template <class Leaves>
bool KeyTree<Leaves>::merge_beside(std::string_view key) noexcept {
  const InnerTree::Path path = inner_.path_to(key);
  return merge_pair(path, path.at()) || (path.at() != 0 && merge_pair(path, path.at() - 1));
}

template <class Leaves>
bool KeyTree<Leaves>::merge_at(std::string_view key) noexcept {
  const std::unique_lock lock(inner_.mutex(), std::try_to_lock);
  return lock.owns_lock() && merge_beside(key);
}

template <class Leaves>
std::uint32_t KeyTree<Leaves>::merge_fallen() noexcept {
  std::uint32_t merged = 0;
  RecentKeys::Noted low;
  while (pool_.is_low() && pool_.has(LeafPool::For::merge) && fallen_leaves_.take(low)) {
    const std::lock_guard lock(inner_.mutex());
    while (merge_beside(low.key())) ++merged;
  }
  return merged;
}

// From the first leaf to the last. The mutex is given back after each, so that splits go on.
template <class Leaves>
void KeyTree<Leaves>::merge_all() noexcept {
  fallen_.store(0, std::memory_order_relaxed);
  char key[256];
  std::size_t key_bytes = 0;
  for (;;) {
    const std::lock_guard lock(inner_.mutex());
    const InnerTree::Path path = inner_.path_to({key, key_bytes});
    if (merge_pair(path, path.at())) continue;
    const std::string_view next = path.leaf(path.at())->high();
    if (!path.leaf(path.at())->has_high) return;
    std::memcpy(key, next.data(), next.size());
    key_bytes = next.size();
  }
}

}  // namespace tandem
