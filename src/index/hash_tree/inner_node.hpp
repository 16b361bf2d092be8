// The nodes above the leaves: immutable, copied on write up to the root, retired by epoch.
#pragma once
#include <atomic>
#include <bit>
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

// A key's first 16 bytes, with zeros behind a shorter key.
struct KeyStart {
  static constexpr std::uint32_t bytes_max = 16;
  std::uint64_t word[2];

  TD_INLINE static KeyStart of(const char* padded) noexcept {
    KeyStart k;
    std::memcpy(&k, padded, sizeof k);
    return k;
  }
};

// Behind it in memory: heads, children, tails, runs, ends of separators, separators. Separator i is the lowest key of
// child i + 1. A head is the four bytes of a separator behind the prefix, ordered as a signed number. Heads are
// searched in blocks, of which each is a cache line, and the last one is filled up with the highest number. Separators
// with equal heads are a run, in which tails are to what these have in common as heads are to the prefix: keys of
// several kinds, each with a prefix of its own, are told apart by both.
struct InnerNode {
  static constexpr std::uint32_t block_heads = 16, children_max = block_heads * block_heads;

  alignas(2 * cache_line_bytes) std::uint16_t count;  // separators: one less than children
  std::uint16_t level;                                // 0: the children are leaves
  std::uint16_t prefix_bytes = 0;                     // what all separators begin with
  std::uint16_t children_at;                          // bytes from here
  std::uint32_t bytes;
  KeyStart prefix = {}, mask = {};  // its first bytes, and ones in their places
  InnerNode* next = nullptr;        // of the retired ones
  std::uint64_t stamp = 0;
  alignas(cache_line_bytes) std::int32_t last_heads[block_heads];  // of each block; the highest number behind them

  static constexpr std::uint32_t blocks_of(std::uint32_t count) noexcept { return count / block_heads + 1; }
  const std::int32_t* heads() const noexcept { return reinterpret_cast<const std::int32_t*>(this + 1); }
  TD_INLINE void* const* children() const noexcept {
    return reinterpret_cast<void* const*>(reinterpret_cast<const char*>(this) + children_at);
  }
  const std::int32_t* tails() const noexcept { return reinterpret_cast<const std::int32_t*>(children() + count + 1); }
  struct Run {
    std::uint8_t length, common_bytes;
  };
  // Of the first separator of each run.
  const Run* runs() const noexcept { return reinterpret_cast<const Run*>(tails() + count); }
  const std::uint16_t* ends() const noexcept { return reinterpret_cast<const std::uint16_t*>(runs() + count); }
  const char* text() const noexcept { return reinterpret_cast<const char*>(ends() + count); }
  std::string_view separator(std::uint32_t i) const noexcept {
    const std::uint32_t begin = i == 0 ? 0 : ends()[i - 1];
    return {text() + begin, ends()[i] - begin};
  }
  // The child with the key; with is_below, the child with the keys right below it.
  std::uint32_t child_of(std::string_view key, bool is_below) const noexcept;
  // Fetches what child_of() reads behind the node's first lines, and the child's entry.
  void prefetch_child_of(std::string_view key) const noexcept;
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
  // The child with the key. head: its four bytes behind the prefix. REQUIRES: below == heads_below(head), so that there
  // is a head at it, if only one that fills up.
  TD_INLINE std::uint32_t child_at(std::uint32_t below, std::int32_t head, std::string_view key,
                                   bool is_below) const noexcept {
    return TD_LIKELY(heads()[below] != head) ? below : child_in_run(below, key, is_below);
  }
  // By a key's first bytes: whether they are the prefix's. A key that is shorter than the prefix, and has zeros in its
  // place, is below all separators, as its head is.
  TD_INLINE bool has_prefix(const char* key16) const noexcept {
    const KeyStart key = KeyStart::of(key16);
    return (((key.word[0] & mask.word[0]) ^ prefix.word[0]) | ((key.word[1] & mask.word[1]) ^ prefix.word[1])) == 0;
  }
  // REQUIRES: not has_prefix(key16).
  TD_INLINE std::uint32_t child_without_prefix(const char* key16) const noexcept {
    const KeyStart key = KeyStart::of(key16);
    const std::uint32_t at = (key.word[0] & mask.word[0]) == prefix.word[0] ? 1 : 0;
    return in_order(key.word[at] & mask.word[at]) < in_order(prefix.word[at]) ? 0 : count;
  }
  // Whether its head is among a key's first bytes, too.
  TD_INLINE bool has_head_in_start() const noexcept {
    return prefix_bytes <= KeyStart::bytes_max - sizeof(std::int32_t);
  }
  // REQUIRES: has_prefix(key16) and has_head_in_start().
  TD_INLINE std::int32_t head_in(const char* key16) const noexcept {
    std::uint32_t four;
    std::memcpy(&four, key16 + prefix_bytes, sizeof four);
    return as_head(four);
  }
  // As a signed number, of four bytes in a key's order.
  TD_INLINE static std::int32_t as_head(std::uint32_t four) noexcept {
    return static_cast<std::int32_t>(in_order(four) ^ 0x80000000u);
  }
  // Of a key, the head from byte `at` on, with zeros behind the key's end.
  TD_INLINE static std::int32_t head_of(std::string_view key, std::size_t at) noexcept {
    std::uint32_t four = 0;
    if (TD_LIKELY(key.size() >= at + sizeof four)) {
      std::memcpy(&four, key.data() + at, sizeof four);
    } else if (key.size() > at) {
      std::memcpy(&four, key.data() + at, key.size() - at);
    }
    return as_head(four);
  }

 private:
  // Of bytes in a key's order, the number in the same order.
  template <class Word>
  TD_INLINE static Word in_order(Word bytes) noexcept {
    if constexpr (std::endian::native != std::endian::little) {
      return bytes;
    } else if constexpr (sizeof bytes == sizeof(std::uint32_t)) {
      return __builtin_bswap32(bytes);
    } else {
      return __builtin_bswap64(bytes);
    }
  }
  // In the run that begins with separator `at`, which has the key's head.
  std::uint32_t child_in_run(std::uint32_t at, std::string_view key, bool is_below) const noexcept;
};
static_assert(sizeof(InnerNode) == 2 * cache_line_bytes);

class InnerTree {
 public:
  static constexpr std::uint32_t children_max = InnerNode::children_max, children_min = 8, levels_max = 16;
  static constexpr std::uint32_t joining_children = 16;                        // a node with fewer joins a neighbour
  static constexpr std::uint64_t reserve_bytes_max = std::uint64_t{64} << 10;  // taken ahead, for nodes
  // A node with more bytes of separators is cut. By number, so a half may have more until it is replaced.
  static constexpr std::size_t text_bytes_large = 8 << 10;
  static_assert(text_bytes_large / 250 >= 2 * joining_children, "halves do not join again");

  // node_children: at most, of a node. Throws std::bad_alloc past the budget, std::invalid_argument.
  InnerTree(std::uint32_t node_children, MemoryBudget& budget, EpochDomain& epochs, Leaf* only);
  ~InnerTree();
  InnerTree(const InnerTree&) = delete;
  InnerTree& operator=(const InnerTree&) = delete;

  // --- any thread in an epoch. A leaf that is retired has been replaced: ask again.
  Leaf* leaf_of(std::string_view key) const noexcept { return find(key, false); }
  // For descents of many keys together.
  const InnerNode* root() const noexcept { return root_.load(std::memory_order_acquire); }
  // What leads to a leaf: a key; the keys right below it; or the highest ones.
  struct Bound {
    std::string_view key;
    bool is_below = false, is_highest = false;
    std::uint32_t child_of(const InnerNode& node) const noexcept {
      return is_highest ? node.count : node.child_of(key, is_below);
    }
  };
  // A leaf as its parent's child.
  struct Place {
    const InnerNode* parent;
    std::uint32_t child;
    Leaf* leaf() const noexcept { return static_cast<Leaf*>(*entry()); }
    void* const* entry() const noexcept { return parent->children() + child; }
  };
  // Finds several leaves, a level of all at a time, so that their nodes' lines come together. The places' entries are
  // fetched. bound_of(i): the i-th one's key.
  template <class BoundOf>
  void descend(std::span<Place> places, BoundOf bound_of) const noexcept;
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
  bool is_too_large(std::span<const Entry> entries) const noexcept;
  bool add_node(Change& change, std::uint32_t level, std::span<const Entry> entries) noexcept;
  bool replace_root(Change& change, std::uint32_t level) noexcept;
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

template <class BoundOf>
void InnerTree::descend(std::span<Place> places, BoundOf bound_of) const noexcept {
  const InnerNode* const first = root();
  for (Place& place : places) place.parent = first;
  for (std::uint32_t level = first->level;; --level) {
    for (std::size_t i = 0; i < places.size(); ++i) places[i].parent->prefetch_child_of(bound_of(i).key);
    for (std::size_t i = 0; i < places.size(); ++i) places[i].child = bound_of(i).child_of(*places[i].parent);
    if (level == 0) return;
    for (Place& place : places) {
      place.parent = static_cast<const InnerNode*>(*place.entry());
      prefetch_read(place.parent);
      prefetch_read(place.parent->last_heads);
    }
  }
}

}  // namespace tandem
