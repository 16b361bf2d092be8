// What has changed while a replica rested: a byte for each 256 bytes of the heap in which items have images, and one
// for each bucket of the table (docs/decisions/0057-warm-rest.md). Writers set bytes inside their epoch; the replica,
// when it comes back, takes them and sends what they stand for.
//
// A changed cell marks its bucket and the item that it names; a set in place without a stripe the item alone, unless
// its byte is set: popular keys do not move its line between processors. No return takes bytes while such a set goes
// on. It may while cells change, which therefore set their bytes whatever these are: else a byte that is found set
// could be taken, and the cell be read, before the change leaves its processor.
//
// Thread safety: the marks from any thread, in an epoch; the rest by one thread at a time, the replica's.
#pragma once
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "base/memory_budget.hpp"
#include "base/platform.hpp"
#include "heap/heap.hpp"
#include "index/cuckoo/lanes_scalar.hpp"
#include "index/followed_index.hpp"
#include "index/table_memory.hpp"
#include "placement/mirrored/writer_rings.hpp"

namespace tandem {

class DirtyMap {
 public:
  static constexpr unsigned block_shift = 8;
  static constexpr std::uint64_t block_bytes = std::uint64_t{1} << block_shift;
  static constexpr std::uint32_t block_granules = block_bytes / granule_bytes;

  // heap_bytes: the heap's first ones, whose items have images; 0: items are not marked. Both outlive it.
  DirtyMap(const Heap& heap, std::uint64_t heap_bytes, MemoryBudget& budget) noexcept;

  // --- writers

  TD_INLINE void mark(const Item* item) noexcept {
    const std::uint64_t block = block_of(item);
    if (TD_UNLIKELY(block >= blocks_.count)) return;
    const Byte byte = blocks_.byte(block);
    if (byte.load(std::memory_order_relaxed) == 0) byte.store(1, std::memory_order_relaxed);
  }
  TD_INLINE void prefetch(const Item* item) const noexcept {
    const std::uint64_t block = block_of(item);
    if (TD_LIKELY(block < blocks_.count)) prefetch_write(blocks_.at + block);
  }
  // The change's bucket, and the item that the cell names. REQUIRES: the caller holds the cell's stripe and has changed
  // the cell, or its item.
  void mark(LogRecord change) noexcept;
  // A change could not be marked: the map tells nothing.
  void give_up() noexcept { is_whole_.store(false, std::memory_order_relaxed); }

  // --- the replica

  // Takes memory for this table, whose cells are what is marked; no byte is set. If the budget has none, it follows no
  // table. REQUIRES: no writer marks.
  void make(const FollowedTable& table) noexcept;
  // Writers are going to mark.
  void use() noexcept { is_used_ = true; }
  // Whether some may do, or may have done, since it was made.
  bool is_used() const noexcept { return is_used_; }
  // Whether it is made for the table of this serial number, and tells all.
  bool follows(std::uint32_t serial) const noexcept { return is_made_ && serial_ == serial && is_whole(); }
  bool is_whole() const noexcept { return is_whole_.load(std::memory_order_relaxed); }

  std::uint64_t bytes() const noexcept { return blocks_.count + buckets_.count; }
  // That the last make() asked for in vain; 0: it had them.
  std::uint64_t lacking_bytes() const noexcept { return lacking_bytes_.load(std::memory_order_relaxed); }
  // Of the table, and of the heap as far as it has been used: how much of it is marked. Looks at all bytes.
  double share() const noexcept;

  // Takes marks from number `from` on: sets them to 0 and puts their numbers into `out`. Returns the number behind the
  // last one it looked at; `taken`: how many it took. The caller reads what they stand for after that.
  std::uint64_t take_buckets(std::uint64_t from, std::span<std::uint32_t> out, std::size_t& taken) noexcept {
    return buckets_.take(from, out, taken);
  }
  std::uint64_t take_blocks(std::uint64_t from, std::span<std::uint32_t> out, std::size_t& taken) noexcept {
    return blocks_.take(from, out, taken);
  }
  std::uint64_t buckets() const noexcept { return buckets_.count; }
  std::uint64_t blocks() const noexcept { return blocks_.count; }

 private:
  // Beyond all blocks: the item has no image.
  TD_INLINE std::uint64_t block_of(const Item* item) const noexcept {
    return (reinterpret_cast<std::uintptr_t>(item) >> block_shift) - first_block_;
  }

  using Byte = std::atomic_ref<unsigned char>;
  struct Bytes {
    unsigned char* at = nullptr;
    std::uint64_t count = 0;
    std::optional<TableMemory> memory;

    TD_INLINE Byte byte(std::uint64_t i) const noexcept { return Byte(at[i]); }
    std::uint64_t word(std::uint64_t i) const noexcept {
      return std::atomic_ref<std::uint64_t>(reinterpret_cast<std::uint64_t*>(at)[i]).load(std::memory_order_relaxed);
    }
    bool make(std::uint64_t wanted, MemoryBudget& budget) noexcept;
    void release() noexcept {
      count = 0;
      memory.reset();
    }
    void clear() noexcept;
    bool is_clean_line(std::uint64_t line) const noexcept;
    std::uint64_t marked() const noexcept;
    std::uint64_t take(std::uint64_t from, std::span<std::uint32_t> out, std::size_t& taken) const noexcept;
  };

  const Heap& heap_;
  MemoryBudget& budget_;
  const std::uint64_t heap_bytes_;
  const std::uint64_t first_block_;  // of all memory, that of location 0
  Bytes blocks_, buckets_;
  CellArray cells_;
  std::uint32_t serial_ = 0;  // of cells_
  bool is_made_ = false, is_used_ = false;
  std::atomic<bool> is_whole_{true};
  std::atomic<std::uint64_t> lacking_bytes_{0};
};

}  // namespace tandem
