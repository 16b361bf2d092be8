// The nodes above the leaves: immutable, copied on write up to the root, retired by epoch.
#pragma once
#include <atomic>
#include <bit>
#include <compare>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <string_view>

#include "base/epoch.hpp"
#include "base/memory_budget.hpp"
#include "base/platform.hpp"
#include "index/hash_tree/leaf.hpp"

namespace tandem {

// A key's first 16 bytes as a number, the first one highest, with zeros behind a shorter key: of two keys the lower
// one's is not higher.
struct KeyStart {
  static constexpr std::uint32_t bytes_max = 16;
  std::uint64_t high, low;

  TD_INLINE static KeyStart of(const char* padded) noexcept {
    KeyStart k;
    std::memcpy(&k.high, padded, sizeof k.high);
    std::memcpy(&k.low, padded + sizeof k.high, sizeof k.low);
    if constexpr (std::endian::native == std::endian::little) k = {__builtin_bswap64(k.high), __builtin_bswap64(k.low)};
    return k;
  }
  // The four bytes from the `at`-th one on, ordered as signed numbers. REQUIRES: at < bytes_max.
  TD_INLINE std::int32_t head(std::uint32_t at) const noexcept {
    __extension__ using Wide = unsigned __int128;
    const Wide all = Wide{high} << 64 | low;
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(all << 8 * at >> 96) ^ 0x80000000u);
  }
  // Ones in the first `bytes` bytes, at most all.
  static KeyStart ones(std::uint32_t bytes) noexcept {
    const auto word = [](std::uint32_t n) { return n < 8 ? ~(~std::uint64_t{0} >> 8 * n) : ~std::uint64_t{0}; };
    return {word(bytes), bytes > 8 ? word(bytes - 8) : 0};
  }
  TD_INLINE KeyStart operator&(const KeyStart& other) const noexcept { return {high & other.high, low & other.low}; }
  friend auto operator<=>(const KeyStart&, const KeyStart&) = default;
};

// Behind it in memory: heads, children, ends of separators, separators. Separator i is the lowest key of child i + 1. A
// head is the four bytes of a separator behind the prefix, ordered as a signed number. Heads are searched in blocks, of
// which each is a cache line, and the last one is filled up with the highest number.
struct alignas(2 * cache_line_bytes) InnerNode {
  static constexpr std::uint32_t block_heads = 16, children_max = block_heads * block_heads;

  std::uint32_t count;  // separators: one less than children
  std::uint32_t level;  // 0: the children are leaves
  std::uint32_t bytes;
  std::uint32_t prefix_bytes = 0;   // what all separators begin with
  KeyStart prefix = {}, mask = {};  // its first bytes, and which bytes of a key they are
  InnerNode* next = nullptr;  // of the retired ones
  std::uint64_t stamp = 0;
  alignas(cache_line_bytes) std::int32_t last_heads[block_heads];  // of each block; the highest number behind them

  static constexpr std::uint32_t blocks_of(std::uint32_t count) noexcept { return count / block_heads + 1; }
  const std::int32_t* heads() const noexcept { return reinterpret_cast<const std::int32_t*>(this + 1); }
  void* const* children() const noexcept {
    return reinterpret_cast<void* const*>(heads() + blocks_of(count) * block_heads);
  }
  const std::uint16_t* ends() const noexcept { return reinterpret_cast<const std::uint16_t*>(children() + count + 1); }
  const char* text() const noexcept { return reinterpret_cast<const char*>(ends() + count); }
  std::string_view separator(std::uint32_t i) const noexcept {
    const std::uint32_t begin = i == 0 ? 0 : ends()[i - 1];
    return {text() + begin, ends()[i] - begin};
  }
  // The child with the key; with is_below, the child with the keys right below it.
  std::uint32_t child_of(std::string_view key, bool is_below) const noexcept;
  // The number of a block's heads below this one.
  TD_INLINE static std::uint32_t below_in(const std::int32_t* block, std::int32_t head) noexcept {
    std::int32_t below = 0;
    for (std::uint32_t i = 0; i < block_heads; ++i) below += block[i] < head ? 1 : 0;
    return static_cast<std::uint32_t>(below);
  }
  // The same of all heads: those of the blocks that end below it, and some of the next one.
  TD_INLINE std::uint32_t heads_below(std::int32_t head) const noexcept {
    const std::uint32_t before = below_in(last_heads, head) * block_heads;
    return before + below_in(heads() + before, head);
  }
  // The child with the key, whose four bytes behind the prefix are `head`. REQUIRES: below == heads_below(head).
  TD_INLINE std::uint32_t child_at(std::uint32_t below, std::int32_t head, std::string_view key,
                                   bool is_below) const noexcept {
    return TD_LIKELY(below == count || heads()[below] != head) ? below : child_among(below, head, key, is_below);
  }
  // Whether a key's first bytes are all that prefix and head are compared with.
  TD_INLINE bool is_decided_by_start(std::size_t key_bytes) const noexcept {
    constexpr std::uint32_t head_bytes = sizeof(std::int32_t);
    return prefix_bytes <= (key_bytes <= KeyStart::bytes_max ? KeyStart::bytes_max - 1 : KeyStart::bytes_max - head_bytes);
  }

 private:
  // From separator `at` on, whose head is the key's, by the separators' bytes.
  std::uint32_t child_among(std::uint32_t at, std::int32_t head, std::string_view key, bool is_below) const noexcept;
};
static_assert(sizeof(InnerNode) == 2 * cache_line_bytes);

class InnerTree {
 public:
  static constexpr std::uint32_t children_max = InnerNode::children_max, children_min = 8, levels_max = 16;
  static constexpr std::uint64_t reserve_bytes_max = std::uint64_t{32} << 10;  // taken ahead, for nodes

  // node_children: at most, of a node. Throws std::bad_alloc past the budget, std::invalid_argument.
  InnerTree(std::uint32_t node_children, MemoryBudget& budget, EpochDomain& epochs, Leaf* only);
  ~InnerTree();
  InnerTree(const InnerTree&) = delete;
  InnerTree& operator=(const InnerTree&) = delete;

  // --- any thread in an epoch. A leaf that is retired has been replaced: ask again.
  Leaf* leaf_of(std::string_view key) const noexcept { return find(key, false); }
  // For descents of many keys together.
  const InnerNode* root() const noexcept { return root_.load(std::memory_order_acquire); }
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

  const std::uint32_t node_children_;
  MemoryBudget& budget_;
  EpochDomain& epochs_;
  std::mutex mutex_;
  InnerNode *retired_first_ = nullptr, *retired_last_ = nullptr;
  std::uint64_t reserve_bytes_ = 0;      // of the budget, for nodes to come
  std::atomic<std::uint64_t> bytes_{0};  // of the budget, the reserve included
  alignas(cache_line_bytes) std::atomic<InnerNode*> root_{nullptr};
};

}  // namespace tandem
