// Pages and their metadata, which is kept beside them. A page contains only items.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/platform.hpp"
#include "heap/item.hpp"

namespace tandem {

inline constexpr std::uint64_t page_bytes = std::uint64_t{1} << 20;
inline constexpr std::uint32_t page_granules = static_cast<std::uint32_t>(page_bytes / granule_bytes);
inline constexpr unsigned page_shift = 15;  // a location's page: location >> page_shift
static_assert(page_granules == 1u << page_shift);

using SizeClass = std::uint8_t;  // index into Heap::classes()
using PageId = std::uint32_t;    // page number in the address range; page 0 is never used, so location 0 is none
inline constexpr SizeClass huge_class = 0xff;  // items larger than the largest slot: runs of whole pages

enum class PageState : std::uint8_t {
  free,       // belongs to no class
  open,       // allocatable
  closed,     // moving to another class: not allocatable, its items are still read
  emptied,    // all its slots came back; waits until no thread that found it closed still examines it
  huge_head,  // first page of a live huge item
  huge_body,  // any other page of one, and all pages of a retired one
};

// A page's state and class in one atomic word, so that both are read together:
//   |15 state 8|7 class 0|
// Written by the owner of the page's change (its class's lock, or the huge item); read by all.
namespace tag {
constexpr std::uint16_t make(PageState state, SizeClass c) noexcept {
  return static_cast<std::uint16_t>(static_cast<unsigned>(state) << 8 | c);
}
constexpr SizeClass class_of(std::uint16_t tag) noexcept { return static_cast<SizeClass>(tag & 0xff); }
constexpr PageState state_of(std::uint16_t tag) noexcept { return static_cast<PageState>(tag >> 8); }
}  // namespace tag

// Which slots of a page are free: a bit each, found through a summary (one bit per group of 512 slots). A bitmap beside
// the page instead of a list through its slots: taking 64 free slots touches no slot (docs/decisions/0003-heap.md has
// the measurement).
inline constexpr std::uint32_t row_slots = 64;  // a row: the slots of one word, which lie side by side
inline constexpr std::uint32_t bitmap_words = page_granules / row_slots;
inline constexpr std::uint32_t bitmap_group_words = 8;
inline constexpr std::uint64_t bitmap_bytes = bitmap_words * sizeof(std::uint64_t);
static_assert(bitmap_words / bitmap_group_words <= 64);

struct alignas(cache_line_bytes) PageInfo {
  // Guarded by the class's lock.
  PageId ring_next, ring_prev;    // the class's pages in CLOCK order
  PageId avail_next, avail_prev;  // the class's pages with free slots; while in the pool: a list of the pool's
  std::uint64_t summary;          // bit i: words [8 i, 8 i + 8) of the bitmap have a free slot
  std::uint64_t emptied_stamp;    // while emptied: safe when no thread examines it
  std::uint32_t free_count;       // bits set in the bitmap
  bool in_avail;
  bool in_pool;      // charged and free
  bool is_kept;      // in_pool: with its whole frame
  bool dirty;        // in the pool, or just taken from it: has bytes that are not zero
  bool holed;        // in_pool: its blocks in the file may be gone
  bool small_pages;  // of a frame, in its first page: the system does not back it with huge pages
  // Not guarded.
  std::atomic<std::uint32_t> pins;  // outputs that still point into the page: its slots are not reused meanwhile
  std::uint32_t run_pages;          // of a huge item, in its first page; fixed while it is allocated
  std::uint32_t short_bytes;        // of a frame in which a run ends, in its first page: what is charged of it; 0: all
  std::uint64_t huge_value_bytes;   // the same
};
static_assert(sizeof(PageInfo) == cache_line_bytes);

// The addresses of the heap's arrays. Fixed after construction, copied freely.
struct PageTable {
  char* base = nullptr;       // of page 0, which is not mapped
  PageInfo* infos = nullptr;  // by page
  std::atomic<std::uint16_t>* tags = nullptr;
  std::uint64_t* bitmaps = nullptr;                 // bitmap_words each; page 0 has none
  std::uint64_t* saved_huge_value_bytes = nullptr;  // by page, in the heap's file; nullptr: it has none
  PageId page_limit = 0;                            // all pages are below it

  TD_INLINE PageInfo& info(PageId p) const noexcept { return infos[p]; }
  TD_INLINE std::uint16_t tag(PageId p) const noexcept { return tags[p].load(std::memory_order_acquire); }
  void set_tag(PageId p, PageState state, SizeClass c) const noexcept {
    tags[p].store(tag::make(state, c), std::memory_order_release);
  }
  std::uint64_t* bitmap(PageId p) const noexcept { return bitmaps + std::uint64_t{p - 1} * bitmap_words; }
  TD_INLINE char* page(PageId p) const noexcept { return base + std::uint64_t{p} * page_bytes; }
  TD_INLINE Item* item(Location l) const noexcept {
    return reinterpret_cast<Item*>(base + std::uint64_t{l} * granule_bytes);
  }
};

TD_INLINE constexpr PageId page_of(Location l) noexcept { return l >> page_shift; }
TD_INLINE constexpr Location page_location(PageId p) noexcept { return p << page_shift; }

// Large items begin so far into their page. Processors copy at half speed where the source lies up to 16 bytes below
// the destination modulo 4 KiB, and the kernel copies replies to the beginnings of its pages, behind the reply's line.
inline constexpr std::uint32_t large_first_bytes = 64;
inline constexpr std::uint32_t large_first_granule = large_first_bytes / granule_bytes;
TD_INLINE constexpr Location huge_location(PageId first) noexcept { return page_location(first) + large_first_granule; }
// Of the run of a huge item.
constexpr std::uint64_t run_pages_of(std::uint64_t item_bytes) noexcept {
  return (large_first_bytes + item_bytes + page_bytes - 1) / page_bytes;
}
// A run's last page is charged in parts: no system's pages are larger.
inline constexpr std::uint32_t run_part_bytes = std::uint32_t{64} << 10;
static_assert(page_bytes % run_part_bytes == 0);

}  // namespace tandem
