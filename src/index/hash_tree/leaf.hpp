// A leaf of the tree: a small hash table of cells, and beside it the order of their keys.
//
// Access: `version` is a sequence lock. The latch's holder changes counts, cells and order; a reader loads the version,
// reads, and loads it again. Fences and prefix never change while the leaf is in the tree: a split or a merge puts new
// leaves in its place and marks it retired for good. docs/threads.md has the memory orders.
#pragma once
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/fingerprint.hpp"
#include "base/platform.hpp"
#include "base/racing_copy.hpp"
#include "heap/heap.hpp"
#include "heap/item.hpp"
#include "index/cuckoo/cell.hpp"
#include "index/cuckoo/cuckoo.hpp"
#include "index/cuckoo/lanes_scalar.hpp"

namespace tandem {

// Leaf::version: |63 changes 2|1 retired|0 latched|
inline constexpr std::uint64_t leaf_latched = 1, leaf_retired = 2, leaf_change = 4;

inline constexpr std::uint32_t leaf_unsorted_max = 32;
inline constexpr std::uint32_t leaf_samples = 16;
inline constexpr std::uint32_t leaf_cells_min = 16, leaf_cells_max = 1 << 15;

struct alignas(cache_line_bytes) Leaf {
  std::atomic<std::uint64_t> version{0};
  std::atomic<std::uint32_t> live{0};                 // cells in use
  std::atomic<std::uint16_t> sorted{0}, unsorted{0};  // ids in the order, and behind it
  // Of the latch's holder.
  std::uint32_t dead = 0;  // ids of empty cells
  // Constant while the leaf is in the tree.
  bool has_high = false;       // false: no upper bound
  bool has_strangers = false;  // keys between the fences may lack the prefix
  std::uint8_t low_bytes = 0, high_bytes = 0, prefix_bytes = 0;
  // Of the pool.
  Leaf* next = nullptr;
  std::uint64_t stamp = 0;

  // Every so many tails of the order (LeafTable::sample_step()), in one cache line.
  alignas(cache_line_bytes) std::uint32_t samples[leaf_samples];
  std::uint16_t unsorted_id[leaf_unsorted_max];
  std::uint32_t unsorted_tail[leaf_unsorted_max];
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

// What all leaves of a tree share: their size, the lanes that search them, the heap with their items' keys. A leaf's
// memory is Leaf and buckets; then, in key order, tails, locations (a scan reads no cell) and ids, which are slots; for
// each slot its place in that order; and for each bucket a byte: its bits are the slots with an id.
class LeafTable {
 public:
  LeafTable(std::uint32_t cells, const CuckooOps& ops, Heap& heap) noexcept
      : cells_(cells), sample_shift_(std::countr_zero(cells / leaf_samples)), ops_(ops), heap_(heap) {}

  std::uint32_t cells() const noexcept { return cells_; }
  std::uint32_t leaf_bytes() const noexcept {
    const std::uint32_t bytes = listed_at() + cells_ / bucket_cells;
    return (bytes + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes;
  }

  // --- any thread in an epoch

  Bucket* buckets(const Leaf& leaf) const noexcept { return reinterpret_cast<Bucket*>(memory(leaf) + sizeof(Leaf)); }
  IndexView view(const Leaf& leaf) const noexcept { return {buckets(leaf), cells_ / bucket_cells - 1}; }
  TD_INLINE Cell cell(const Leaf& leaf, std::uint32_t slot) const noexcept {
    return {ScalarLanes::at(buckets(leaf)->cell + slot).load(std::memory_order_acquire)};
  }
  TD_INLINE Heap::Items items() const noexcept { return heap_.items(); }
  TD_INLINE Item* item(Location l) const noexcept { return items().at(l); }
  // Of the i-th key in order, or no_location: it has been removed.
  TD_INLINE Location location_at(const Leaf& leaf, std::uint32_t i) const noexcept { return order(leaf).at(i); }
  // The same of all keys, for loops: where one of them is.
  struct Order {
    std::uint32_t* location;
    TD_INLINE Location operator*() const noexcept {
      return std::atomic_ref<std::uint32_t>(*location).load(std::memory_order_acquire);
    }
    TD_INLINE Location at(std::ptrdiff_t further) const noexcept { return *(*this + further); }
    TD_INLINE Order operator+(std::ptrdiff_t further) const noexcept { return {location + further}; }
    friend bool operator==(Order, Order) = default;
  };
  TD_INLINE Order order(const Leaf& leaf) const noexcept { return {locations(leaf)}; }
  std::uint32_t sorted(const Leaf& leaf) const noexcept {
    const std::uint32_t n = leaf.sorted.load(std::memory_order_acquire);
    return n < cells_ ? n : cells_;
  }
  // Calls visit(Location) for the cells with f's signature until it returns true.
  template <class F>
  bool visit(const Leaf& leaf, Fingerprint f, F visit) const noexcept {
    const IndexView where = view(leaf);
    for (const std::uint32_t b : {where.first(f), where.second(f)}) {
      const Bucket* const bucket = where.buckets + b;
      for (std::uint32_t m = ops_.probe(bucket, f.signature).same; m != 0; m &= m - 1) {
        const Cell c{ScalarLanes::at(&bucket->cell[std::countr_zero(m)]).load(std::memory_order_acquire)};
        if (c.signature() == f.signature && visit(static_cast<Location>(c.location()))) return true;
      }
    }
    return false;
  }
  // Fetches what add() of a key with this fingerprint touches.
  TD_INLINE void prefetch_add(Leaf& leaf, Fingerprint f) const noexcept {
    const IndexView where = view(leaf);
    const std::uint32_t bucket = where.first(f);
    prefetch_write(&leaf);
    prefetch_write(leaf.unsorted_id);
    for (std::uint32_t i = 0; i < leaf_unsorted_max; i += cache_line_bytes / sizeof(std::uint32_t))
      prefetch_write(leaf.unsorted_tail + i);
    prefetch_read(leaf.prefix_key);
    prefetch_write(where.buckets + bucket);
    prefetch_write(where.buckets + where.second(f));
    prefetch_write(listed(leaf) + bucket);
    prefetch_write(places(leaf) + bucket * bucket_cells);
  }
  // Index of the first of `n` sorted ids with a key not below `key`. Ids of empty cells may stand before it. Fetches
  // `ahead` items from about there.
  std::uint32_t lower_bound(const Leaf& leaf, std::uint32_t n, std::string_view key,
                            std::uint32_t ahead) const noexcept;
  // The locations of `count` ids from `first` on, which a writer may change meanwhile.
  void copy_order(const Leaf& leaf, std::uint32_t first, std::uint32_t count, Location* to) const noexcept {
    racing_copy(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(locations(leaf) + first),
                count * sizeof(Location));
  }
  void prefetch_items(const Leaf& leaf, std::uint32_t begin, std::uint32_t end) const noexcept {
    for (std::uint32_t i = begin; i < end; ++i) prefetch_read(item(location_at(leaf, i)));
  }
  // lower_bound() in two steps, for hints: the first of the few ids among which it is (fetches their tails); then about
  // which of them it is.
  std::uint32_t step_of(const Leaf& leaf, std::string_view key) const noexcept;
  std::uint32_t find_in_step(const Leaf& leaf, std::uint32_t step, std::string_view key) const noexcept;
  // Fetches the locations of ids [begin, end).
  TD_INLINE void prefetch_order(const Leaf& leaf, std::uint32_t begin, std::uint32_t end) const noexcept {
    constexpr std::uint32_t line = cache_line_bytes / sizeof(Location);
    for (std::uint32_t i = begin / line * line; i < end; i += line) prefetch_read(locations(leaf) + i);
  }
  // 4 bytes of the key behind the leaf's prefix: of two keys the lower one's are not higher.
  std::uint32_t tail_of(const Leaf& leaf, std::string_view key) const noexcept;

  // --- the latch's holder

  bool has_room(const Leaf& leaf, Fingerprint f) const noexcept;
  // Whether add() finds a place, if need be by one step of displacement.
  bool finds_place(const Leaf& leaf, Fingerprint f) const noexcept;
  bool add(Leaf& leaf, Fingerprint f, std::string_view key, Location l) noexcept;
  bool replace(Leaf& leaf, Fingerprint f, Location from, Location to) noexcept;
  bool remove(Leaf& leaf, Fingerprint f, Location l) noexcept;
  // Drops ids of empty cells, and merges the unsorted ones into the order.
  void sort(Leaf& leaf) noexcept;

  // --- leaves that are not in the tree yet

  struct Fences {
    std::string_view low, high;
    bool has_high;
  };
  // Fills both from `from`, cut at the median key. REQUIRES: `from` is latched, sorted, and has two keys.
  void split(const Leaf& from, std::string_view key, Leaf& left, Leaf& right) const noexcept;
  // Fills `to` from two neighbours. False: a cell has no place. REQUIRES: both are latched and sorted.
  bool merge(const Leaf& left, const Leaf& right, Leaf& to) const noexcept;
  void make_empty(Leaf& leaf, const Fences& fences) const noexcept;

  // Of a leaf that nothing changes, for tests.
  bool is_correct(const Leaf& leaf) const;

 private:
  static std::byte* memory(const Leaf& leaf) noexcept { return reinterpret_cast<std::byte*>(const_cast<Leaf*>(&leaf)); }
  std::uint32_t tails_at() const noexcept { return static_cast<std::uint32_t>(sizeof(Leaf)) + cells_ * 8; }
  std::uint32_t ids_at() const noexcept { return locations_at() + cells_ * 4; }
  std::uint32_t locations_at() const noexcept { return tails_at() + cells_ * 4; }
  std::uint32_t places_at() const noexcept { return ids_at() + cells_ * 2; }
  std::uint32_t listed_at() const noexcept { return places_at() + cells_ * 2; }
  std::uint32_t* tails(const Leaf& leaf) const noexcept {
    return reinterpret_cast<std::uint32_t*>(memory(leaf) + tails_at());
  }
  std::uint16_t* ids(const Leaf& leaf) const noexcept {
    return reinterpret_cast<std::uint16_t*>(memory(leaf) + ids_at());
  }
  std::uint32_t* locations(const Leaf& leaf) const noexcept {
    return reinterpret_cast<std::uint32_t*>(memory(leaf) + locations_at());
  }
  std::uint16_t* places(const Leaf& leaf) const noexcept {
    return reinterpret_cast<std::uint16_t*>(memory(leaf) + places_at());
  }
  std::uint8_t* listed(const Leaf& leaf) const noexcept {
    return reinterpret_cast<std::uint8_t*>(memory(leaf) + listed_at());
  }
  std::string_view key_at(const Leaf& leaf, std::uint32_t slot) const noexcept {
    return heap_.at(cell(leaf, slot).location())->key();
  }
  std::uint32_t sample_step() const noexcept { return 1u << sample_shift_; }
  std::uint32_t step_below(const Leaf& leaf, std::uint32_t n, std::uint32_t tail) const noexcept;
  std::uint32_t count_below(const Leaf& leaf, std::uint32_t n, std::uint32_t tail) const noexcept;
  std::uint32_t unsorted_max() const noexcept { return cells_ < leaf_unsorted_max ? cells_ : leaf_unsorted_max; }
  std::uint32_t free_slots(const Leaf& leaf, std::uint32_t bucket) const noexcept;
  std::uint32_t free_slot(const Leaf& leaf, std::uint32_t a, std::uint32_t b) const noexcept;
  std::uint32_t displace(Leaf& leaf, std::uint32_t a, std::uint32_t b) noexcept;
  std::uint32_t slot_of(const Leaf& leaf, Fingerprint f, Location l) const noexcept;
  bool is_less(const Leaf& leaf, std::uint32_t slot, std::uint32_t tail, std::uint32_t other,
               std::uint32_t other_tail) const noexcept;
  void set_location(const Leaf& leaf, std::uint32_t i, Location l) const noexcept {
    std::atomic_ref<std::uint32_t>(locations(leaf)[i]).store(l, std::memory_order_release);
  }
  // Makes a slot's key the i-th in order. l: what the slot's cell has.
  TD_INLINE void set_place(const Leaf& leaf, std::uint32_t i, std::uint16_t slot, std::uint32_t tail,
                           Location l) const noexcept {
    ids(leaf)[i] = slot;
    places(leaf)[slot] = static_cast<std::uint16_t>(i);
    racing_store(tails(leaf)[i], tail);
    if ((i + 1) % sample_step() == 0) racing_store(const_cast<Leaf&>(leaf).samples[i >> sample_shift_], tail);
    set_location(leaf, i, l);
  }
  void list(Leaf& leaf, std::uint32_t slot) const noexcept {
    listed(leaf)[slot / bucket_cells] |= static_cast<std::uint8_t>(1u << slot % bucket_cells);
  }
  void unlist(Leaf& leaf, std::uint32_t slot) const noexcept {
    listed(leaf)[slot / bucket_cells] &= static_cast<std::uint8_t>(~(1u << slot % bucket_cells));
  }
  void purge(Leaf& leaf) noexcept;
  void sort_unsorted(Leaf& leaf, std::uint32_t n) noexcept;
  void choose_prefix(Leaf& leaf, std::string_view first, std::string_view last) const noexcept;
  void append(Leaf& leaf, std::uint32_t slot, Cell c, std::uint32_t tail) const noexcept;

  static constexpr std::uint32_t no_slot = ~0u;
  static constexpr std::uint16_t unsorted_place = 0xffff;

  std::uint32_t cells_;
  int sample_shift_;
  const CuckooOps& ops_;
  Heap& heap_;
};

// The length of what both begin with.
inline std::size_t common_bytes(std::string_view a, std::string_view b) noexcept {
  const std::size_t most = a.size() < b.size() ? a.size() : b.size();
  std::size_t n = 0;
  while (n < most && a[n] == b[n]) ++n;
  return n;
}

}  // namespace tandem
