#include "index/hash_tree/leaf_pool.hpp"

#include <algorithm>
#include <new>
#include <optional>

namespace tandem {

namespace {
constexpr std::uint32_t chunk_leaves_min = 4;
constexpr std::uint64_t chunk_bytes_max = std::uint64_t{1} << 20;
// From this size on a chunk is a huge page, if those are wanted.
constexpr std::uint64_t huge_chunk_bytes = std::uint64_t{2} << 20, huge_from_bytes = std::uint64_t{32} << 20;
constexpr std::uint32_t ahead_min = 3, ahead_max = 32;
}  // namespace

void LeafPool::push_free(Leaf* leaf) noexcept {
  leaf->next = free_;
  free_ = leaf;
  ++free_count_;
}

// An eighth of what there is, so that a small store's chunks are small.
std::uint64_t LeafPool::chunk_bytes() const noexcept {
  const std::uint64_t have = bytes();
  const std::uint64_t wanted =
      huge_pages_ && have >= huge_from_bytes ? huge_chunk_bytes : std::min(have / 8, chunk_bytes_max);
  return std::max(wanted, std::uint64_t{chunk_leaves_min} * leaf_bytes_);
}

bool LeafPool::add_chunk(bool* unmapped) noexcept {
  const std::uint64_t least = std::uint64_t{chunk_leaves_min} * leaf_bytes_, wanted = chunk_bytes();
  // The end of the budget may have room for a smaller one.
  return add_chunk(wanted, unmapped) || (wanted != least && add_chunk(least, unmapped));
}

bool LeafPool::add_chunk(std::uint64_t bytes, bool* unmapped) noexcept {
  const std::uint64_t have = this->bytes(), leaves = bytes / leaf_bytes_;
  try {
    chunks_.reserve(chunks_.size() + 1);
  } catch (const std::bad_alloc&) {
    if (unmapped != nullptr) *unmapped = true;
    return false;
  }
  std::optional<TableMemory> chunk =
      TableMemory::make(bytes, {.huge_pages = huge_pages_, .unmapped = unmapped}, budget_);
  if (!chunk) return false;
  for (std::uint64_t i = leaves; i-- != 0;) push_free(new (chunk->start() + i * leaf_bytes_) Leaf);
  chunks_.push_back(std::move(*chunk));
  bytes_.store(have + bytes, std::memory_order_relaxed);
  at_hand_.fetch_add(static_cast<std::uint32_t>(leaves), std::memory_order_relaxed);
  const std::uint64_t total = (have + bytes) / leaf_bytes_;
  ahead_.store(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(total / 16, ahead_min, ahead_max)),
               std::memory_order_relaxed);
  return true;
}

bool LeafPool::grow(bool* unmapped) noexcept {
  const std::lock_guard lock(mutex_);
  return add_chunk(unmapped);
}

void LeafPool::reclaim(std::uint32_t wanted) noexcept {
  if (retired_first_ == nullptr || free_count_ >= wanted) return;
  const std::uint64_t safe = epochs_.safe_stamp();
  while (retired_first_ != nullptr && retired_first_->stamp < safe) {
    Leaf* const leaf = retired_first_;
    retired_first_ = leaf->next;
    if (retired_first_ == nullptr) retired_last_ = nullptr;
    push_free(leaf);
  }
}

bool LeafPool::has(For what) const noexcept {
  const std::uint32_t wanted = what == For::split ? split_leaves + 1 : 1;
  const std::lock_guard lock(mutex_);
  std::uint32_t count = free_count_;
  const std::uint64_t safe = epochs_.safe_stamp();
  for (const Leaf* leaf = retired_first_; count < wanted && leaf != nullptr && leaf->stamp < safe; leaf = leaf->next)
    ++count;
  return count >= wanted;
}

bool LeafPool::take(For what, Leaf** out, std::uint32_t count) noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint32_t wanted = count + (what == For::split ? 1 : 0);
  reclaim(wanted);
  if (free_count_ < wanted && !add_chunk(nullptr)) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    out[i] = free_;
    free_ = free_->next;
    --free_count_;
    // Nothing refers to it: a version that was retired goes on.
    const std::uint64_t version = out[i]->version.load(std::memory_order_relaxed);
    out[i]->version.store((version & ~(leaf_retired | leaf_latched)) + leaf_change, std::memory_order_relaxed);
  }
  at_hand_.fetch_sub(count, std::memory_order_relaxed);
  return true;
}

void LeafPool::give_back(Leaf* leaf) noexcept {
  const std::lock_guard lock(mutex_);
  push_free(leaf);
  at_hand_.fetch_add(1, std::memory_order_relaxed);
}

void LeafPool::retire(Leaf* leaf) noexcept {
  const std::lock_guard lock(mutex_);
  leaf->stamp = epochs_.retire_stamp();
  leaf->next = nullptr;
  (retired_last_ != nullptr ? retired_last_->next : retired_first_) = leaf;
  retired_last_ = leaf;
  at_hand_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace tandem
