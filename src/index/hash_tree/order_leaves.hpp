// Leaves that keep the order of keys and nothing else: beside a table that answers for single keys, a leaf needs no
// cells. A key is 8 bytes, its tail and its item's location, so that one store adds, replaces or removes it.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/fingerprint.hpp"
#include "base/platform.hpp"
#include "heap/heap.hpp"
#include "index/hash_tree/sorted_leaves.hpp"

namespace tandem {

// A leaf's memory is Leaf, then its entries: Leaf::sorted in order, and behind them Leaf::unsorted in the order of
// their arrival.
class OrderLeaves : public SortedLeaves<OrderLeaves> {
 public:
  static constexpr bool has_cells = false;
  static constexpr std::uint32_t candidates_max = 16;

  OrderLeaves(const TreeOptions& options, Heap& heap) noexcept : SortedLeaves(options.shape.leaf_cells, heap) {}

  std::uint32_t leaf_bytes() const noexcept {
    return static_cast<std::uint32_t>(sizeof(Leaf)) + cells_ * static_cast<std::uint32_t>(sizeof(Entry));
  }

  // --- any thread in an epoch

  // Of the i-th key in order, or no_location: it has been removed.
  TD_INLINE Location location_at(const Leaf& leaf, std::uint32_t i) const noexcept { return order(leaf).at(i); }
  // The same of all keys, for loops: where one of them is.
  struct Order {
    const std::uint64_t* entry;
    TD_INLINE Location operator*() const noexcept { return location_of(load(*entry)); }
    TD_INLINE Location at(std::ptrdiff_t further) const noexcept { return *(*this + further); }
    TD_INLINE Order operator+(std::ptrdiff_t further) const noexcept { return {entry + further}; }
    friend bool operator==(Order, Order) = default;
  };
  TD_INLINE Order order(const Leaf& leaf) const noexcept { return {entries(leaf)}; }
  // The locations of `count` keys from `first` on, which a writer may change meanwhile.
  void copy_order(const Leaf& leaf, std::uint32_t first, std::uint32_t count, Location* to) const noexcept {
    for (std::uint32_t i = 0; i < count; ++i) to[i] = location_at(leaf, first + i);
  }
  // Fetches the locations of keys [begin, end).
  TD_INLINE void prefetch_order(const Leaf& leaf, std::uint32_t begin, std::uint32_t end) const noexcept {
    for (std::uint32_t i = begin / line_entries * line_entries; i < end; i += line_entries)
      prefetch_read(entries(leaf) + i);
  }
  // Fetches what add() touches, in two steps: the leaf's header says where the next entry is.
  TD_INLINE void prefetch_add(Leaf& leaf, Fingerprint) const noexcept { prefetch_write(&leaf); }
  TD_INLINE void prefetch_next(Leaf& leaf) const noexcept {
    const std::uint32_t next = sorted(leaf) + leaf.unsorted.load(std::memory_order_relaxed);
    prefetch_write(entries(leaf) + (next < cells_ ? next : cells_ - 1));
    if (leaf.has_strangers) prefetch_read(leaf.prefix_key);
  }
  // Some locations of the leaf, from all over it. f: which.
  std::uint32_t candidates(const Leaf& leaf, Fingerprint f, Location out[candidates_max]) const noexcept;

  // --- the latch's holder. Fingerprints are another kind's.

  // Whether add() finds a place.
  bool finds_place(const Leaf& leaf, Fingerprint) const noexcept {
    return leaf.live.load(std::memory_order_relaxed) != cells_;
  }
  bool add(Leaf& leaf, Fingerprint, std::string_view key, Location l) noexcept;
  bool replace(Leaf& leaf, Fingerprint, std::string_view key, Location from, Location to) noexcept;
  bool remove(Leaf& leaf, Fingerprint, std::string_view key, Location l) noexcept;
  // Drops removed keys, and merges the unsorted ones into the order.
  void sort(Leaf& leaf) noexcept;

  // Of a leaf that nothing changes, for tests.
  bool is_correct(const Leaf& leaf) const;

 private:
  friend SortedLeaves;
  // |63 tail 32|31 location 0|; no_location: the key was removed, and its tail keeps its place in the order
  using Entry = std::uint64_t;
  static constexpr Entry location_mask = 0xffffffff;
  static constexpr std::uint32_t line_entries = cache_line_bytes / sizeof(Entry), no_entry = ~0u;

  static constexpr Entry entry_of(std::uint32_t tail, Location l) noexcept { return Entry{tail} << 32 | l; }
  static constexpr std::uint32_t tail_of(Entry e) noexcept { return static_cast<std::uint32_t>(e >> 32); }
  static constexpr Location location_of(Entry e) noexcept { return static_cast<Location>(e); }
  // A reader follows the location that it finds.
  TD_INLINE static Entry load(const Entry& e) noexcept {
    return std::atomic_ref<Entry>(const_cast<Entry&>(e)).load(std::memory_order_acquire);
  }
  TD_INLINE static void store(Entry& e, Entry now) noexcept {
    std::atomic_ref<Entry>(e).store(now, std::memory_order_release);
  }
  static Entry* entries(const Leaf& leaf) noexcept { return reinterpret_cast<Entry*>(memory(leaf) + sizeof(Leaf)); }

  // Of SortedLeaves.
  using SortedLeaves::tail_of;
  TD_INLINE static std::uint32_t tail_at(const Leaf& leaf, std::uint32_t i) noexcept {
    return tail_of(load(entries(leaf)[i]));
  }
  // Compares each entry's halves, of which no location is below 0.
  TD_INLINE static std::uint32_t tails_below(const Leaf& leaf, std::uint32_t begin, std::uint32_t end,
                                             std::uint32_t tail) noexcept {
    return words_below(reinterpret_cast<const std::uint32_t*>(entries(leaf) + begin), 2 * (end - begin),
                       entry_of(tail, 0));
  }
  void prefetch_tails(const Leaf& leaf, std::uint32_t begin, std::uint32_t end) const noexcept {
    prefetch_order(leaf, begin, end);
  }
  void prefetch_location(const Leaf&, std::uint32_t) const noexcept {}  // lies beside its tail
  void copy_keys(const Leaf& from, std::uint32_t begin, std::uint32_t end, Leaf& to, bool keeps_tails) const noexcept;
  bool add_keys(const Leaf& from, Leaf& to) const noexcept;

  std::uint32_t find(const Leaf& leaf, std::string_view key, Location l) const noexcept;
  bool is_above(Entry a, Entry b) const noexcept {
    return tail_of(a) != tail_of(b) ? a > b : key_at(location_of(a)) > key_at(location_of(b));
  }
  void purge(Leaf& leaf) noexcept;
  void set_samples(const Leaf& leaf, std::uint32_t begin, std::uint32_t end) const noexcept;
};

}  // namespace tandem
