// The nodes above the leaves: immutable, copied on write up to the root, retired by epoch.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>

#include "base/epoch.hpp"
#include "base/memory_budget.hpp"
#include "index/hash_tree/leaf.hpp"

namespace tandem {

// Behind it in memory: heads, children, ends of separators, separators. Separator i is the lowest key of child i + 1.
struct alignas(cache_line_bytes) InnerNode {
  std::uint32_t count;  // separators: one less than children
  std::uint32_t level;  // 0: the children are leaves
  std::uint32_t bytes;
  std::uint32_t prefix_bytes;  // what all separators begin with
  InnerNode* next;             // of the retired ones
  std::uint64_t stamp;

  const std::uint64_t* heads() const noexcept { return reinterpret_cast<const std::uint64_t*>(this + 1); }
  void* const* children() const noexcept { return reinterpret_cast<void* const*>(heads() + count); }
  const std::uint16_t* ends() const noexcept { return reinterpret_cast<const std::uint16_t*>(children() + count + 1); }
  const char* text() const noexcept { return reinterpret_cast<const char*>(ends() + count); }
  std::string_view separator(std::uint32_t i) const noexcept {
    const std::uint32_t begin = i == 0 ? 0 : ends()[i - 1];
    return {text() + begin, ends()[i] - begin};
  }
  // The child with the key; with is_below, the child with the keys right below it.
  std::uint32_t child_of(std::string_view key, bool is_below) const noexcept;
};

class InnerTree {
 public:
  static constexpr std::uint32_t children_max = 64, children_min = 16, levels_max = 16;
  static constexpr std::uint64_t reserve_bytes_max = std::uint64_t{32} << 10;  // taken ahead, for nodes

  // Throws std::bad_alloc past the budget.
  InnerTree(MemoryBudget& budget, EpochDomain& epochs, Leaf* only);
  ~InnerTree();
  InnerTree(const InnerTree&) = delete;
  InnerTree& operator=(const InnerTree&) = delete;

  // --- any thread in an epoch. A leaf that is retired has been replaced: ask again.
  Leaf* leaf_of(std::string_view key) const noexcept { return find(key, false); }
  Leaf* leaf_below(std::string_view key) const noexcept { return find(key, true); }
  Leaf* last_leaf() const noexcept;

  // --- the mutex's holder, which needs no epoch
  std::mutex& mutex() noexcept { return mutex_; }
  struct Path {
    const InnerNode* node[levels_max];
    std::uint32_t child[levels_max];
    std::uint32_t levels = 0;

    const InnerNode& lowest() const noexcept { return *node[levels - 1]; }
    std::uint32_t at() const noexcept { return child[levels - 1]; }
    Leaf* leaf(std::uint32_t i) const noexcept { return static_cast<Leaf*>(lowest().children()[i]); }
  };
  Path path_to(std::string_view key) const noexcept;
  struct Entry {
    std::string_view low;  // of the child's keys; the first of a replacement keeps the one that is there
    void* child;
  };
  // Puts `now` in the place of `count` children from `first` of the path's lowest node. False: no memory, and nothing
  // has changed.
  bool replace(const Path& path, std::uint32_t first, std::uint32_t count, std::span<const Entry> now) noexcept;
  void reclaim() noexcept;
  bool has_retired() const noexcept { return retired_first_ != nullptr; }
  // Takes memory ahead from the budget, for nodes made when it is exhausted.
  bool fill_reserve() noexcept;

  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Change;
  Leaf* find(std::string_view key, bool is_below) const noexcept;
  InnerNode* make(std::uint32_t level, std::span<const Entry> entries) noexcept;
  void free(InnerNode* node) noexcept;
  void free_all(InnerNode* node) noexcept;
  bool add_node(Change& change, std::uint32_t level, std::span<const Entry> entries) noexcept;
  void publish(Change& change, InnerNode* root) noexcept;

  MemoryBudget& budget_;
  EpochDomain& epochs_;
  std::mutex mutex_;
  InnerNode *retired_first_ = nullptr, *retired_last_ = nullptr;
  std::uint64_t reserve_bytes_ = 0;      // of the budget, for nodes to come
  std::atomic<std::uint64_t> bytes_{0};  // of the budget, the reserve included
  alignas(cache_line_bytes) std::atomic<InnerNode*> root_{nullptr};
};

}  // namespace tandem
