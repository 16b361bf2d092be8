// The heap: item memory in 1 MiB pages cut into slots of one size class (Mega-KV 7.2 and DIDO use slabs in the same way), and whole-page runs
// for huge items. It knows nothing of keys' places in the index: whoever evicts unlinks first and retires then.
//
// Departures from Mega-KV 7.2: a location is an offset (no slab table on the way to an item), CLOCK's bit lies in the item header (key comparison
// reads that line anyway), and pages move between classes.
//
// Address space: one reserved, lazily backed range of up to 128 GiB (2^32 granules); the MemoryBudget bounds what is resident. Because address
// space is much larger than the budget, a huge item is one contiguous run of pages.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/epoch.hpp"
#include "base/memory_budget.hpp"
#include "heap/item.hpp"

namespace tandem {

inline constexpr std::uint64_t page_bytes = std::uint64_t{1} << 20;
using SizeClass = std::uint8_t;                // index into Heap::classes()
using PageId = std::uint32_t;                  // page number in the address range; page 0 is never used, so location 0 is none
inline constexpr SizeClass huge_class = 0xff;  // items larger than the largest slot: runs of whole pages

struct HeapOptions {
  double growth_factor = 1.25;                         // memcached -f: size ratio of neighbouring classes (rounded up to granules)
  std::uint32_t slot_bytes_min = granule_bytes;        // memcached -n is mapped to this (48 there counts key + value + flags)
  std::uint64_t item_bytes_max = std::uint64_t{1} << 20;  // memcached -I: the largest item, header included
  bool huge_pages = true;                              // madvise(MADV_HUGEPAGE)
};

struct ClassStats {
  std::uint32_t slot_bytes, slots_per_page;
  std::uint64_t pages, slots_total, slots_used, slots_free, evictions, reclaimed_expired, out_of_memory, pages_moved_in, pages_moved_out;
};

class Heap {
 public:
  // budget, epochs outlive the heap. Throws std::system_error when the address range cannot be reserved, std::invalid_argument on bad options.
  Heap(const HeapOptions& options, MemoryBudget& budget, EpochDomain& epochs);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  TD_INLINE Item* at(Location l) const noexcept {
    return reinterpret_cast<Item*>(base_ + std::uint64_t{l} * granule_bytes);
  }
  TD_INLINE Location location_of(const Item* item) const noexcept {
    return static_cast<Location>((reinterpret_cast<const char*>(item) - base_) / granule_bytes);
  }
  std::uint64_t value_bytes(const Item* item) const noexcept;  // of any item, huge ones included
  std::uint64_t total_bytes(const Item* item) const noexcept;

  // The class whose slots hold an item of so many bytes (header included); huge_class above the largest slot. One table look-up.
  SizeClass size_class(std::uint64_t item_bytes) const noexcept;
  SizeClass class_of(Location l) const noexcept;  // the class of the page that holds l
  std::uint32_t class_count() const noexcept;
  std::uint32_t slot_bytes(SizeClass c) const noexcept;

  // --- one per worker or session -------------------------------------------------------------------------------------------------------
  // Free slots of every class in chunks, and what this worker retired. Owned by one thread; the page mover may reach in, so a caller holds the
  // cache's lock (uncontended: one exchange) while it allocates or retires: `Cache::Lock guard(cache)` once per strip.
  class Cache;

  // A slot in state `filling`, or no_location: then the caller evicts (sweep) or gives up. Takes a chunk from the class's pages, a new page from
  // the budget, or what this cache retired and is safe by now. Never blocks on readers. Prefetches the next slot it will hand out.
  // REQUIRES: the cache is locked; item_bytes <= item_bytes_max.
  Location allocate(Cache& cache, SizeClass c, std::uint64_t item_bytes) noexcept;
  // Gives back a slot that no reader ever saw (an add that found the key).
  void release(Cache& cache, Location l) noexcept;
  // Gives back a slot that was unlinked and marked dead; reused only after its epoch, and while its page is not pinned.
  void retire(Cache& cache, Location l) noexcept;
  // Moves retired slots whose epoch has passed to the free lists; returns how many. Cheap when there are none.
  std::size_t reclaim(Cache& cache) noexcept;
  std::uint64_t retired_bytes() const noexcept;  // of all caches: waiting for their epoch

  // Writes header, flags, key (value bytes are the caller's: item->value()) with state `filling`, expiry and access second; cas stays 0.
  Item* format(Location l, std::string_view key, std::uint32_t client_flags, std::uint64_t value_bytes, std::uint32_t expiry_s,
               std::uint32_t now_s, bool binary_key) noexcept;

  // --- CLOCK ---------------------------------------------------------------------------------------------------------------------------
  // Advances the class's hand until it has found `victims_max` live items that are not accessed since the last turn (or expired, or flushed, as
  // `is_garbage(item, state)` says), clearing CLOCK bits on its way; looks at no more than `slots_max` slots. The victims are only candidates:
  // the caller unlinks each under its key's stripe, re-checking that it is live, then retires it.
  // Any thread; hands of one class are claimed in ranges, so sweepers do not meet.
  using IsGarbage = bool (*)(const void* context, const Item* item, std::uint64_t state);
  std::size_t sweep(SizeClass c, std::span<Location> victims, std::size_t slots_max, IsGarbage is_garbage, const void* context) noexcept;
  void count_eviction(SizeClass c, bool expired) noexcept;
  void count_out_of_memory(SizeClass c) noexcept;

  // --- pages between classes, and back to the budget -----------------------------------------------------------------------------------
  // The best page to take for a starving class (or for the index: to = huge_class): of a class with more than one page, preferring many free
  // slots, then many pages. 0: none.
  PageId pick_donor(SizeClass to) noexcept;
  // Stops allocation from the page and takes its free slots out of the class and all caches. False: it holds a filling slot or is already closed.
  bool close_page(PageId page) noexcept;
  // Calls f for every slot of a closed page that is live.
  void for_each_live(PageId page, const std::function<void(Location)>& f) const;
  // True once all its slots are free (retired ones came back): the page has left its class; its state words are zeroed and it was given to class
  // `to`, or to the budget when `to` is huge_class. False: try again after an epoch.
  bool finish_page(PageId page, SizeClass to) noexcept;
  void reopen_page(PageId page) noexcept;  // abandons the move

  // --- pins: output that still points into a page ------------------------------------------------------------------------------------------
  void pin(Location l) noexcept;
  void unpin(Location l) noexcept;

  // Every live item of every page, while writers go on: each item that is live throughout is seen (once, if its key is not rewritten).
  // REQUIRES: the caller is inside an epoch for each call of `visit_page`.
  PageId page_end() const noexcept;  // pages have ids 1 .. page_end() - 1
  template <class F>
  void visit_page(PageId page, F f) const;  // f(Location, Item*) for live items

  ClassStats class_stats(SizeClass c) const;
  std::uint64_t huge_items() const noexcept;
  std::uint64_t huge_bytes() const noexcept;

 private:
  char* base_ = nullptr;
};

}  // namespace tandem
