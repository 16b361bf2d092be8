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
  // Eight bytes from the `at`-th one on.
  TD_INLINE std::uint64_t head(std::uint32_t at) const noexcept {
    if (TD_LIKELY(at < 8)) return high << 8 * at | low >> 1 >> (63 - 8 * at);
    return at < 16 ? low << 8 * (at - 8) : 0;
  }
  // The first `bytes` bytes, at most all.
  TD_INLINE KeyStart front(std::uint32_t bytes) const noexcept {
    const auto keep = [](std::uint64_t word, std::uint32_t n) {
      return n < 8 ? word & ~(~std::uint64_t{0} >> 8 * n) : word;
    };
    return {keep(high, bytes), bytes > 8 ? keep(low, bytes - 8) : 0};
  }
  friend auto operator<=>(const KeyStart&, const KeyStart&) = default;
};

// Behind it in memory: heads, children, ends of separators, separators. Separator i is the lowest key of child i + 1.
struct alignas(cache_line_bytes) InnerNode {
  std::uint32_t count;  // separators: one less than children
  std::uint32_t level;  // 0: the children are leaves
  std::uint32_t bytes;
  std::uint32_t prefix_bytes;  // what all separators begin with
  KeyStart prefix;             // its first bytes
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
  // The child with the key, by its first bytes where they decide.
  std::uint32_t child_of(const KeyStart& start, std::string_view key) const noexcept;
  // The number of heads below this one, without branches. Behind the heads a probe reads children, which are there.
  TD_INLINE std::uint32_t heads_below(std::uint64_t head) const noexcept {
    const std::uint64_t* const all = heads();
    std::uint32_t below = 0;
    const auto probe = [&](std::uint32_t half) __attribute__((always_inline)) {
      const std::uint32_t at = below + half;
      below += half * static_cast<std::uint32_t>(static_cast<unsigned>(at <= count) &
                                                 static_cast<unsigned>(all[at - 1] < head));
    };
    probe(32);
    probe(16);
    probe(8);
    probe(4);
    probe(2);
    probe(1);
    return below;
  }

  static constexpr std::uint32_t children_max = 64;
  static_assert(children_max == 64, "probes of heads_below()");
  // At least, so that no probe is outside.
  static constexpr std::size_t bytes_min = cache_line_bytes + (children_max - 1) * sizeof(std::uint64_t);

 private:
  // The child with the key, whose bytes behind the prefix begin with `head`.
  TD_INLINE std::uint32_t child_by(std::uint64_t head, std::string_view key, bool is_below) const noexcept {
    const std::uint32_t below = heads_below(head);
    return TD_LIKELY(below == count || heads()[below] != head) ? below : child_among(below, head, key, is_below);
  }
  // From separator `at` on, whose head is the key's, by the separators' bytes.
  std::uint32_t child_among(std::uint32_t at, std::uint64_t head, std::string_view key, bool is_below) const noexcept;
};
static_assert(sizeof(InnerNode) == cache_line_bytes);

TD_INLINE std::uint32_t InnerNode::child_of(const KeyStart& start, std::string_view key) const noexcept {
  const bool is_short = key.size() <= KeyStart::bytes_max;
  if (TD_UNLIKELY(prefix_bytes > (is_short ? KeyStart::bytes_max : KeyStart::bytes_max - sizeof(std::uint64_t))))
    return child_of(key, false);
  if (prefix_bytes != 0) {
    if (const KeyStart front = start.front(prefix_bytes); TD_UNLIKELY(front != prefix))
      return front < prefix ? 0 : count;
  }
  return child_by(start.head(prefix_bytes), key, false);
}

class InnerTree {
 public:
  static constexpr std::uint32_t children_max = InnerNode::children_max, children_min = 16, levels_max = 16;
  static constexpr std::uint64_t reserve_bytes_max = std::uint64_t{32} << 10;  // taken ahead, for nodes

  // Throws std::bad_alloc past the budget.
  InnerTree(MemoryBudget& budget, EpochDomain& epochs, Leaf* only);
  ~InnerTree();
  InnerTree(const InnerTree&) = delete;
  InnerTree& operator=(const InnerTree&) = delete;

  // --- any thread in an epoch. A leaf that is retired has been replaced: ask again.
  Leaf* leaf_of(std::string_view key) const noexcept { return find(key, false); }
  // leaf_of() for many keys in two steps, each of which fetches what the next one reads: the node above a key's leaf,
  // level by level, then the leaf. key16: the keys' first bytes, with zeros behind a shorter key. REQUIRES: at most
  // together_max keys; both in one epoch.
  static constexpr std::uint32_t together_max = 8;
  void lowest_nodes_of(std::span<const std::string_view> keys, const char (*key16)[KeyStart::bytes_max],
                       const InnerNode** node) const noexcept;
  static void leaves_of(std::span<const std::string_view> keys, const char (*key16)[KeyStart::bytes_max],
                        const InnerNode* const* node, const Leaf** leaf) noexcept;
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
