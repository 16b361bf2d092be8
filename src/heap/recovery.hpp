// Takes over the pages of a heap file that an earlier process has filled.
//
// Two passes over the pages, each on several threads. scan() checks every page's tag and every item in it, drops what
// is damaged, expired or flushed, and rebuilds the page's free slots. visit() passes the remaining items to the index.
// In between, choose() keeps as many pages as the memory limit allows, those with the most recently used items. Of the
// operations that a kill interrupted only rewrites in place need repair (redo.hpp): scan() writes such items again from
// their records. Other slots that were in work are not live.
//
// No byte of the file is trusted. An impossible tag, length or state costs what it describes, and no more.
//
// Thread safety: scan() and visit() of different pages at once, drop() from anywhere; the rest alone.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "heap/heap.hpp"

namespace tandem {

class HeapRecovery {
 public:
  struct Rules {
    std::uint32_t now_s;      // items that expire at or before this second are dropped
    std::uint64_t flush_cas;  // and those with smaller CAS ids
    std::uint64_t cas_end;    // no item can have one from here on
  };
  struct Dropped {
    std::uint64_t expired = 0;  // or flushed
    std::uint64_t damaged = 0;  // items and pages with impossible values
    std::uint64_t no_room = 0;  // past the memory limit
  };

  // REQUIRES: the heap has a file with items, and nothing was asked of it yet. Throws std::bad_alloc.
  HeapRecovery(Heap& heap, const Rules& rules);

  PageId page_end() const noexcept { return page_end_; }
  void scan(PageId page) noexcept;
  std::uint64_t items_found() const noexcept { return items_found_.load(std::memory_order_relaxed); }
  std::uint64_t bytes_found() const noexcept { return bytes_found_.load(std::memory_order_relaxed); }

  // Charges the pages to the budget; those that do not fit are dropped.
  void choose();

  // Calls f(Location, const Item*) for every remaining item of the page; their lines are prefetched.
  template <class F>
  void visit(PageId page, F f) const;
  const Item* at(Location l) const noexcept { return heap_.at(l); }
  Location location_of(const Item* item) const noexcept { return heap_.location_of(item); }
  // Drops a visited item that is not wanted, or was replaced by another of its key: marks it dead.
  void drop(Location l);
  void count_no_room() noexcept { no_room_.fetch_add(1, std::memory_order_relaxed); }

  // The heap is ready for use.
  void finish();
  Dropped dropped() const noexcept;

 private:
  enum class Kind : std::uint8_t { free, slots, huge };
  struct Page {
    Kind kind = Kind::free;
    SizeClass size_class = 0;
    std::uint16_t age_s = 0;  // since its items were used, on average
    std::uint32_t pages = 1;  // of a run
    std::uint32_t items = 0;
  };
  void scan_slots(PageId page, SizeClass c) noexcept;
  void scan_huge(PageId page) noexcept;
  bool make_resident(PageId first, std::uint32_t pages) const noexcept;
  std::uint16_t age_of(std::uint64_t state) const noexcept;
  // Completes an item that was locked when the process died: writes it again if a record says so, and makes it live.
  // Returns its state word; 0: its record is invalid, so its value may be a mix.
  std::uint64_t finish_rewriting(Item* item, Location l, std::uint64_t bytes_max) noexcept;
  // Whether a live item is kept; `total_bytes` is computed from its own header.
  bool is_wanted(const Item* item, std::uint64_t state, std::uint64_t total_bytes, std::uint64_t bytes_max) noexcept;

  Heap& heap_;
  const PageTable table_;
  const Rules rules_;
  const PageId page_end_;
  std::vector<Page> pages_;
  std::vector<const RedoRecord*> redo_;  // those that are valid, by location, then the newest first
  std::mutex mutex_;
  std::vector<Location> gone_;  // guarded by mutex_
  std::atomic<std::uint64_t> items_found_{0}, bytes_found_{0};
  std::atomic<std::uint64_t> expired_{0}, damaged_{0}, no_room_{0};
};

template <class F>
void HeapRecovery::visit(PageId page, F f) const {
  constexpr std::uint32_t ahead_slots = 8;
  const Page& known = pages_[page];
  if (known.kind == Kind::huge) {
    const Location l = huge_location(page);
    f(l, static_cast<const Item*>(table_.item(l)));
    return;
  }
  if (known.kind != Kind::slots) return;
  const SlotShape& shape = heap_.classes_[known.size_class];
  const std::uint64_t* const free = table_.bitmap(page);
  for (std::uint32_t slot = 0; slot < shape.slots_per_page; ++slot) {
    // Small slots are contiguous, which the hardware prefetches; their keys may be in the next line.
    const Item* const ahead = table_.item(shape.location(page, slot + ahead_slots));
    if (shape.slot_bytes > cache_line_bytes && slot + ahead_slots < shape.slots_per_page) {
      prefetch_read(ahead);
      prefetch_read(ahead->bytes() + cache_line_bytes);
    }
    if ((free[slot / 64] >> slot % 64 & 1) != 0) continue;
    const Location l = shape.location(page, slot);
    f(l, static_cast<const Item*>(table_.item(l)));
  }
}

}  // namespace tandem
