// Leaves that are small hash tables of cells, and keep the order of their keys beside them (HeteroKV III-A, III-D): a
// key is found in its leaf as in any hash table.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/fingerprint.hpp"
#include "base/platform.hpp"
#include "heap/heap.hpp"
#include "index/cuckoo/cell.hpp"
#include "index/cuckoo/cuckoo.hpp"
#include "index/cuckoo/lanes_scalar.hpp"
#include "index/hash_tree/sorted_leaves.hpp"

namespace tandem {

// A leaf's memory is Leaf, what is not in the order yet, and buckets; then, in key order, tails, locations (a scan
// reads no cell) and ids, which are slots; for each slot its place in that order; and for each bucket a byte: its bits
// are the slots with an id.
class CellLeaves : public SortedLeaves<CellLeaves> {
 public:
  static constexpr bool has_cells = true;

  CellLeaves(const TreeOptions& options, Heap& heap)
      : SortedLeaves(options.shape.leaf_cells, heap), ops_(cuckoo_ops_named(options.lanes)) {}

  std::string_view lanes() const noexcept { return ops_.name; }
  std::uint32_t leaf_bytes() const noexcept {
    const std::uint32_t bytes = listed_at() + cells_ / bucket_cells;
    return (bytes + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes;
  }

  // --- any thread in an epoch

  Bucket* buckets(const Leaf& leaf) const noexcept { return reinterpret_cast<Bucket*>(memory(leaf) + buckets_at); }
  IndexView view(const Leaf& leaf) const noexcept { return {buckets(leaf), cells_ / bucket_cells - 1}; }
  TD_INLINE Cell cell(const Leaf& leaf, std::uint32_t slot) const noexcept {
    return {ScalarLanes::at(buckets(leaf)->cell + slot).load(std::memory_order_acquire)};
  }
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
    for (std::uint32_t i = 0; i < sizeof(Unsorted); i += cache_line_bytes)
      prefetch_write(memory(leaf) + sizeof(Leaf) + i);
    prefetch_read(leaf.prefix_key);
    prefetch_write(where.buckets + bucket);
    prefetch_write(where.buckets + where.second(f));
    prefetch_write(listed(leaf) + bucket);
    prefetch_write(places(leaf) + bucket * bucket_cells);
  }
  // The locations of `count` ids from `first` on, which a writer may change meanwhile.
  void copy_order(const Leaf& leaf, std::uint32_t first, std::uint32_t count, Location* to) const noexcept {
    racing_copy(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(locations(leaf) + first),
                count * sizeof(Location));
  }
  // Fetches the locations of ids [begin, end).
  TD_INLINE void prefetch_order(const Leaf& leaf, std::uint32_t begin, std::uint32_t end) const noexcept {
    constexpr std::uint32_t line = cache_line_bytes / sizeof(Location);
    for (std::uint32_t i = begin / line * line; i < end; i += line) prefetch_read(locations(leaf) + i);
  }
  // The locations in the buckets of f's.
  std::uint32_t candidates(const Leaf& leaf, Fingerprint f, Location out[2 * bucket_cells]) const noexcept;
  // Calls f(Location) for every cell.
  template <class F>
  void for_each_location(const Leaf& leaf, F f) const {
    for (std::uint32_t slot = 0; slot < cells_; ++slot) {
      if (const Cell c = cell(leaf, slot); !c.empty()) f(static_cast<Location>(c.location()));
    }
  }

  // --- the latch's holder

  // Whether add() finds a place, if need be by one step of displacement.
  bool finds_place(const Leaf& leaf, Fingerprint f) const noexcept;
  bool add(Leaf& leaf, Fingerprint f, std::string_view key, Location l) noexcept;
  bool replace(Leaf& leaf, Fingerprint f, std::string_view key, Location from, Location to) noexcept;
  bool remove(Leaf& leaf, Fingerprint f, std::string_view key, Location l) noexcept;
  // Drops ids of empty cells, and merges the unsorted ones into the order.
  void sort(Leaf& leaf) noexcept;

  // --- leaves that are not in the tree yet

  void make_empty(Leaf& leaf, const Fences& fences) const noexcept;

  // Of a leaf that nothing changes, for tests.
  bool is_correct(const Leaf& leaf) const;

 private:
  friend SortedLeaves;
  // Keys behind the order.
  struct alignas(cache_line_bytes) Unsorted {
    std::uint16_t id[leaf_unsorted_max];
    std::uint32_t tail[leaf_unsorted_max];
  };
  static constexpr std::uint32_t buckets_at = sizeof(Leaf) + sizeof(Unsorted);
  Unsorted& unsorted(const Leaf& leaf) const noexcept {
    return *reinterpret_cast<Unsorted*>(memory(leaf) + sizeof(Leaf));
  }
  std::uint32_t tails_at() const noexcept { return buckets_at + cells_ * 8; }
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
  // Of SortedLeaves.
  TD_INLINE std::uint32_t tail_at(const Leaf& leaf, std::uint32_t i) const noexcept {
    return racing_load(tails(leaf)[i]);
  }
  TD_INLINE std::uint32_t tails_below(const Leaf& leaf, std::uint32_t begin, std::uint32_t end,
                                      std::uint32_t tail) const noexcept {
    return words_below(tails(leaf) + begin, end - begin, std::uint64_t{tail} << 32 | tail);
  }
  void prefetch_tails(const Leaf& leaf, std::uint32_t begin, std::uint32_t end) const noexcept {
    constexpr std::uint32_t line = cache_line_bytes / sizeof(std::uint32_t);
    for (std::uint32_t i = begin; i < end; i += line) prefetch_read(tails(leaf) + i);
  }
  void prefetch_location(const Leaf& leaf, std::uint32_t i) const noexcept { prefetch_read(locations(leaf) + i); }
  void copy_keys(const Leaf& from, std::uint32_t begin, std::uint32_t end, Leaf& to, bool keeps_tails) const noexcept;
  bool add_keys(const Leaf& from, Leaf& to) const noexcept;

  std::uint32_t free_slots(const Leaf& leaf, std::uint32_t bucket) const noexcept;
  std::uint32_t free_slot(const Leaf& leaf, std::uint32_t a, std::uint32_t b) const noexcept;
  std::uint32_t displace(Leaf& leaf, std::uint32_t a, std::uint32_t b) noexcept;
  std::uint32_t slot_of(const Leaf& leaf, Fingerprint f, Location l) const noexcept;
  bool has_room(const Leaf& leaf, Fingerprint f) const noexcept;
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
    set_sample(leaf, i, tail);
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
  void append(Leaf& leaf, std::uint32_t slot, Cell c, std::uint32_t tail) const noexcept;

  static constexpr std::uint32_t no_slot = ~0u;
  static constexpr std::uint16_t unsorted_place = 0xffff;

  const CuckooOps& ops_;
};

}  // namespace tandem
