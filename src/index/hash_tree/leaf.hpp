// What every leaf of a tree of keys begins with, whatever its kind keeps behind it.
//
// Access: `version` is a sequence lock. The latch's holder changes counts and keys; a reader loads the version, reads,
// and loads it again. Fences and prefix never change while the leaf is in the tree: a split or a merge puts new leaves
// in its place and marks it retired for good. docs/threads.md has the memory orders.
#pragma once
#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/platform.hpp"
#include "base/racing_copy.hpp"
#include "index/index.hpp"

namespace tandem {

struct TreeOptions {
  TreeShape shape = {};
  bool huge_pages = true;
  std::string_view lanes = {};  // CuckooOps::name, where leaves have cells; empty: the widest of this processor
};

// Leaf::version: |63 changes 2|1 retired|0 latched|
inline constexpr std::uint64_t leaf_latched = 1, leaf_retired = 2, leaf_change = 4;

inline constexpr std::uint32_t leaf_unsorted_max = 32;
inline constexpr std::uint32_t leaf_samples = 16;
inline constexpr std::uint32_t leaf_cells_min = 16, leaf_cells_max = 1 << 15;

struct alignas(cache_line_bytes) Leaf {
  std::atomic<std::uint64_t> version{0};
  std::atomic<std::uint32_t> live{0};                 // keys
  std::atomic<std::uint16_t> sorted{0}, unsorted{0};  // keys in the order, and behind it; both count removed ones
  // Of the latch's holder.
  std::uint32_t dead = 0;  // removed keys that are counted still
  // Constant while the leaf is in the tree.
  bool has_high = false;       // false: no upper bound
  bool has_strangers = false;  // keys between the fences may lack the prefix
  std::uint8_t low_bytes = 0, high_bytes = 0, prefix_bytes = 0;
  // Of the pool.
  Leaf* next = nullptr;
  std::uint64_t stamp = 0;

  // Every so many tails of the order (SortedLeaves::sample_step()), in one cache line.
  alignas(cache_line_bytes) std::uint32_t samples[leaf_samples];
  char low_key[256], high_key[256], prefix_key[256];

  std::string_view low() const noexcept { return {low_key, low_bytes}; }     // inclusive
  std::string_view high() const noexcept { return {high_key, high_bytes}; }  // exclusive, if has_high
  std::string_view prefix() const noexcept { return {prefix_key, prefix_bytes}; }

  // Ends a hold with version `before`.
  void unlatch(std::uint64_t before, bool changed) noexcept {
    version.store(changed ? before + leaf_change : before, std::memory_order_release);
  }
  void retire(std::uint64_t before) noexcept {
    version.store((before + leaf_change) | leaf_retired, std::memory_order_release);
  }
  // REQUIRES: `seen` is neither latched nor retired. The fence keeps what the holder stores behind the latch.
  bool try_latch(std::uint64_t seen) noexcept {
    if (!version.compare_exchange_strong(seen, seen | leaf_latched, std::memory_order_acquire,
                                         std::memory_order_relaxed))
      return false;
    fence_release();
    return true;
  }
};

// Access to words that readers read while the latch's holder writes them.
template <class T>
TD_INLINE T racing_load(const T& word) noexcept {
  return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_relaxed);
}
template <class T>
TD_INLINE void racing_store(T& word, T value) noexcept {
  std::atomic_ref<T>(word).store(value, std::memory_order_relaxed);
}

// The length of what both begin with.
inline std::size_t common_bytes(std::string_view a, std::string_view b) noexcept {
  const std::size_t most = a.size() < b.size() ? a.size() : b.size();
  std::size_t n = 0;
  while (n < most && a[n] == b[n]) ++n;
  return n;
}

}  // namespace tandem
