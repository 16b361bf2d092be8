// The heap: item memory in 1 MiB pages cut into slots of one size class (Mega-KV 7.2 and DIDO use slabs in the same
// way), and whole-page runs for huge items. It knows nothing of the index: an evictor first unlinks an item, then
// retires it.
//
// Departures from Mega-KV 7.2: a location is an offset (no slab table lookup to reach an item), CLOCK's bit is in the
// item header (key comparison reads that line anyway), and pages move between classes.
//
// Address space: one reserved, lazily backed range of up to 128 GiB (2^32 granules); the MemoryBudget bounds what is
// resident. Because address space is much larger than the budget, a huge item is one contiguous run of pages.
//
// Locks, in the order in which they are taken: the list of caches, a cache, a class, the page pool. Readers take none.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/epoch.hpp"
#include "base/memory_budget.hpp"
#include "heap/class_pages.hpp"
#include "heap/item.hpp"
#include "heap/magazine.hpp"
#include "heap/page.hpp"
#include "heap/page_pool.hpp"
#include "heap/poison.hpp"
#include "heap/probation.hpp"
#include "heap/size_classes.hpp"

namespace tandem {

inline constexpr std::uint64_t item_bytes_limit = std::uint64_t{1} << 30;  // the largest item_bytes_max

struct HeapOptions {
  double growth_factor = 1.25;                   // memcached -f: size ratio of neighbouring classes, at most
  std::uint32_t slot_bytes_min = granule_bytes;  // memcached -n is mapped to this (48 there counts key + value + flags)
  std::uint64_t item_bytes_max = std::uint64_t{1} << 20;  // memcached -I: the largest item, header included
  bool huge_pages = true;                                 // madvise(MADV_HUGEPAGE)
  bool probation = false;                                 // S3-FIFO before CLOCK
  MemoryFile* file = nullptr;  // holds the pages, made for the same classes; outlives the heap. If it has items,
                               // HeapRecovery runs before anything else. nullptr: anonymous memory
};

struct ClassStats {
  std::uint32_t slot_bytes, slots_per_page;
  std::uint64_t pages, slots_total, slots_used, slots_free, evictions, reclaimed_expired, out_of_memory, pages_moved_in,
      pages_moved_out;
};

class Heap {
 public:
  // budget and epochs outlive the heap. Throws std::system_error when the address range cannot be reserved,
  // std::invalid_argument on bad options.
  Heap(const HeapOptions& options, MemoryBudget& budget, EpochDomain& epochs);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Items by location, a copy for loops in which atomic loads keep compilers from keeping the heap's own.
  struct Items {
    char* base;
    TD_INLINE Item* at(Location l) const noexcept {
      return reinterpret_cast<Item*>(base + std::uint64_t{l} * granule_bytes);
    }
  };
  TD_INLINE Items items() const noexcept { return {base_}; }
  TD_INLINE Item* at(Location l) const noexcept { return items().at(l); }
  TD_INLINE Location location_of(const Item* item) const noexcept {
    return static_cast<Location>(static_cast<std::uint64_t>(reinterpret_cast<const char*>(item) - base_) /
                                 granule_bytes);
  }
  // Whether the item is in the heap, not a copy elsewhere.
  bool holds(const Item* item) const noexcept {
    const char* const at = reinterpret_cast<const char*>(item);
    return at >= base_ + page_bytes && at < base_ + page_bytes + reserved_bytes();  // there is no page 0
  }
  // Of any item, huge ones included.
  TD_INLINE std::uint64_t value_bytes(const Item* item) const noexcept {
    return TD_LIKELY(!item->is_huge()) ? item->small_value_bytes() : huge_value_bytes(item);
  }
  std::uint64_t total_bytes(const Item* item) const noexcept { return item->value_offset() + value_bytes(item); }

  // The class for items of `item_bytes` (header included); huge_class above the largest slot. One table look-up.
  TD_INLINE SizeClass size_class(std::uint64_t item_bytes) const noexcept { return classes_.of(item_bytes); }
  // The class of the page that holds l.
  TD_INLINE SizeClass class_of(Location l) const noexcept { return tag::class_of(table_.tag(page_of(l))); }
  // Bytes of the slot (or run of pages) at `l`, which the caller owns: the largest item that fits it.
  std::uint64_t capacity_bytes(Location l) const noexcept {
    const SizeClass c = class_of(l);
    return slot_bytes_at(c, l) - (c == huge_class ? large_first_bytes : 0);
  }
  const SizeClasses& classes() const noexcept { return classes_; }
  std::uint32_t class_count() const noexcept { return classes_.count(); }
  std::uint32_t slot_bytes(SizeClass c) const noexcept { return classes_[c].slot_bytes; }  // REQUIRES: not huge_class

  // --- one per worker or session ---

  // Magazines of free slots, and of slots that this worker retired. Owned by one thread; the page mover may reach in,
  // so a caller holds the cache's lock (uncontended: one exchange) while it allocates or retires: `Cache::Lock
  // guard(cache)` once per strip.
  class Cache;

  // A slot in state `filling`, or no_location: then the caller evicts (sweep) or gives up. Takes from the class's
  // magazine. An empty magazine is replaced by one of safe slots that this cache retired, or filled from the class's
  // pages or from a new page of the budget. Never blocks on readers. Prefetches slots that it will return soon.
  // REQUIRES: the cache is locked; item_bytes <= item_bytes_max.
  Location allocate(Cache& cache, SizeClass c, std::uint64_t item_bytes) noexcept;
  // The same of what the class has free without a new page.
  Location allocate_spare(Cache& cache, SizeClass c, std::uint64_t item_bytes) noexcept;
  // A row of slots (page.hpp) in state `filling`, in rising order, for items that move to lie side by side, and so do
  // not count as allocated. False: the class has none at hand, and the budget no page, or it may not add one. REQUIRES:
  // the cache is locked, and c is not huge_class.
  bool allocate_row(Cache& cache, SizeClass c, std::span<Location, row_slots> out, bool may_add_page) noexcept;
  // Gives back a slot that no reader ever saw (an add that found the key). REQUIRES: state filling.
  void release(Cache& cache, Location l) noexcept;
  // Retires a slot that was unlinked and marked dead. It is reused only after its epoch, and not while its page is
  // pinned. Its state word may be overwritten at once but stays dead. Returns the slot's size in bytes.
  std::uint64_t retire(Cache& cache, Location l) noexcept;
  // Moves retired slots of past epochs to the free lists; returns how many. Cheap when there are none. Called
  // once a batch.
  std::size_t reclaim(Cache& cache) noexcept;
  // The same without delay. Retired slots are stamped a magazine at a time (57 slots, or 16 KiB of them; large ones 256
  // KiB), a last few after some calls of reclaim(); this stamps them now. For a caller that has run out of memory:
  // called again when the batches in flight have ended, it frees all that was retired.
  std::size_t reclaim_all(Cache& cache) noexcept;
  // The same for all caches; their owners may be idle. REQUIRES: no cache is locked by the caller.
  void reclaim_caches() noexcept;
  // Bytes waiting for their epoch in all caches. Counted a magazine (at most 256 KiB, or one huge item) at a time.
  std::uint64_t retired_bytes() const noexcept { return retired_bytes_.load(std::memory_order_relaxed); }
  // Free slots of the class that need no new page: this cache's and those in the class's pages (not those in other
  // caches). A hint, to evict ahead.
  std::uint64_t slots_at_hand(const Cache& cache, SizeClass c) const noexcept;
  // Those in the class's pages alone.
  std::uint64_t slots_free(SizeClass c) const noexcept { return pages_[index_of(c)].slots_free(); }
  // Whether a quarter of the budget is free, or more.
  bool is_roomy() const noexcept { return budget_.used_bytes() < budget_.limit_bytes() / 4 * 3; }

  // Writes header, flags, key (value bytes are the caller's: item->value()) with state `filling`, expiry and access
  // second; cas stays 0.
  Item* format(Location l, std::string_view key, std::uint32_t client_flags, std::uint64_t value_bytes,
               std::uint32_t expiry_s, std::uint32_t now_s, bool binary_key) noexcept;
  // The same inline; returns where the value begins. REQUIRES: the slot is not of huge_class.
  char* format_slot(Location l, std::string_view key, std::uint32_t client_flags, std::uint64_t value_bytes,
                    std::uint32_t expiry_s, std::uint32_t now_s, bool binary_key) noexcept;

  // --- CLOCK ---

  // Advances the class's hand until it has found `victims_max` live items that were not accessed since the last turn
  // (or are expired or flushed, as `is_garbage(item, state)` says), and clears CLOCK bits as it passes. Examines at
  // most `slots_max` slots. The victims are only candidates: the caller unlinks each under its key's stripe,
  // re-checking that it is live, then retires it. Any thread inside an epoch; hands of one class are claimed in ranges,
  // so concurrent sweepers never examine the same slots.
  using IsGarbage = bool (*)(const void* context, const Item* item, std::uint64_t state);
  // With probation the oldest items on it come first; the hand skips items that stay on probation.
  struct Swept {
    std::size_t found;
    std::size_t from_probation;  // of them, the first ones
  };
  Swept sweep(SizeClass c, std::span<Location> victims, std::size_t slots_max, IsGarbage is_garbage,
              const void* context) noexcept;
  // How often a class's hand, or S3-FIFO's, has passed over an eighth of its slots, all classes together.
  std::uint64_t eighths_swept() const noexcept { return eighths_swept_.load(std::memory_order_relaxed); }
  // S3-FIFO's part, or nullptr. A thread that publishes an item reports it there.
  Probation* probation() const noexcept { return probation_.get(); }
  std::uint64_t slots_total(SizeClass c) const noexcept {
    return pages_[index_of(c)].pages() * classes_[c].slots_per_page;
  }
  void count_eviction(SizeClass c, bool expired) noexcept;
  void count_out_of_memory(SizeClass c) noexcept;

  // --- pages between classes, and back to the budget ---

  // A move: pick_donor, close_page, evict what for_each_live shows, then finish_page or reopen_page, with as many
  // batches in between as needed. Moves of different pages may overlap. Callers hold no cache's lock.

  // What another class can give to one that is short of memory.
  struct Donor {
    PageId page = 0;
    bool spare = false;      // the page's items find room in their class, unless that fills up meanwhile
    bool huge_item = false;  // instead of a page: evict a huge item, which returns its pages to the budget
    explicit operator bool() const noexcept { return page != 0 || huge_item; }
  };
  enum class DonorRule : std::uint8_t {
    longer_life,     // from a class of items that live at least twice as long as in the receiving class
    stored_earlier,  // from the class that gives what was stored at least twice as long ago as the receiver's next loss
    any,             // the receiver can neither allocate nor evict, or the budget wants pages back (to = huge_class)
  };
  // From a class with a page's worth of free slots, else, as far as the rule lets it:
  // - by the lives that items have in a class (items / recent allocations), from the one with the longest, if what it
  //   gives was stored before what the receiver would evict;
  // - by `stored_earlier`, from the one that gives what was stored first, ages counted in CAS ids up to `cas_now`;
  // - by `any`, or when the receiver has no page, from the one that gives what was stored first. A class's last page
  //   goes when there is no other.
  // Huge items are a class like any other. Within the class the page that no output pins, with the most free slots if
  // its items find room in the class, else with the oldest items (of large slots the fewest in use since CLOCK looked).
  // Nothing: no move would help, or what there was is on its way to another class, or pinned. Called again, it names
  // another page; the best `passed_over` classes come last. REQUIRES: inside an epoch.
  Donor pick_donor(SizeClass to, DonorRule rule = DonorRule::longer_life, std::uint64_t cas_now = 0,
                   unsigned passed_over = 0) noexcept;
  // A page of another class, with room for its items in that class, also in caches: its move loses nothing, and no
  // class has to evict before. 0: there is none. Some loads a class when there is none.
  PageId pick_spare(SizeClass to) noexcept;
  bool has_spare(SizeClass to) noexcept;
  std::uint64_t pages_idle() const noexcept { return pool_.pages_idle(); }
  // Free memory that nothing has needed for a time goes back to the system. Called about once a second.
  void return_unneeded(std::uint32_t now_s) noexcept { pool_.return_unneeded(now_s); }
  std::uint64_t file_refusals() const noexcept { return pool_.file_refusals(); }
  int file_error() const noexcept { return pool_.file_error(); }
  std::uint64_t pages_moved() const noexcept { return pages_moved_.load(std::memory_order_relaxed); }
  bool is_pinned(PageId page) const noexcept { return table_.info(page).pins.load(std::memory_order_relaxed) != 0; }
  // Whether a page of any class is closed: memory that is unavailable now may become available when its move ends.
  bool is_moving_pages() const noexcept;
  std::uint64_t pages_open(SizeClass c) const noexcept { return pages_[index_of(c)].pages_open(); }
  // The CAS id above which a closed page's items are newer than what its class would lose to CLOCK in their place.
  // REQUIRES: inside an epoch.
  std::uint64_t cas_to_keep_above(PageId page) noexcept {
    return pages_[tag::class_of(table_.tag(page))].cas_to_keep_above(page);
  }
  // A page of this class, if it has more than one (for an operator's request); 0: it has not.
  PageId pick_donor_from(SizeClass from) noexcept;
  // Stops allocation from the page and takes its free slots out of the class and all caches. False, and nothing
  // changed: the page holds a filling slot, or is not an open page.
  bool close_page(PageId page) noexcept;
  // Calls f for every slot of a closed page that is live. REQUIRES: the caller is inside an epoch.
  void for_each_live(PageId page, const std::function<void(Location)>& f) const;
  // True once all its slots are free (retired ones came back) and no thread examines it: the page has left its class;
  // and was given to class `to`, or to the budget when `to` is huge_class (with huge pages as soon as the
  // other half of its 2 MiB is free, too; pick_donor knows). False: try again after an epoch. REQUIRES: the caller is
  // in no epoch, or it stays false.
  bool finish_page(PageId page, SizeClass to) noexcept;
  void reopen_page(PageId page) noexcept;  // abandons the move

  // --- pins: output that still points into a page ---

  // REQUIRES: pin while the item cannot be reused (inside the epoch in which it was found live); one unpin per pin.
  void pin(Location l) noexcept;
  void unpin(Location l) noexcept;
  bool has_pins() const noexcept { return pins_.load(std::memory_order_relaxed) != 0; }
  // One short value pins a whole page. True: half of all pages are pinned, and output that is kept for long should be
  // copied.
  bool pins_many_pages() const noexcept {
    return pages_pinned_.load(std::memory_order_relaxed) * 2 > budget_.limit_bytes() / page_bytes;
  }

  // Visits every live item of every page while writers continue. Each item that stays live where it is is seen once.
  // REQUIRES: the caller is inside an epoch for each call of `visit_page`.
  PageId page_end() const noexcept { return pool_.page_end(); }  // pages have ids 1 .. page_end() - 1
  // Whether items may begin in the page.
  bool has_items(PageId page) const noexcept {
    const PageState state = tag::state_of(table_.tag(page));
    return state == PageState::open || state == PageState::closed || state == PageState::huge_head;
  }
  template <class F>
  void visit_page(PageId page, F f) const {  // f(Location, Item*) for live items
    visit_slots(page, 0, page_granules, f);
  }
  // The same for at most `count` slots from `first` on; returns the slot after the last one, 0 when the page is done.
  template <class F>
  std::uint32_t visit_slots(PageId page, std::uint32_t first, std::uint32_t count, F f) const;
  // The same for those that begin in `count` granules from `first` on, all of one page.
  template <class F>
  void visit_granules(Location first, std::uint32_t count, F f) const;
  // The class of the page's items; nothing when there are none.
  std::optional<SizeClass> items_of_page(PageId page) const noexcept;

  // The address range: no memory limit can be larger.
  std::uint64_t reserved_bytes() const noexcept { return (table_.page_limit - 1) * page_bytes; }
  ClassStats class_stats(SizeClass c) const;  // huge_class, too: a "slot" is a page, slots_used counts items
  std::uint64_t huge_items() const noexcept { return huge_items_.load(std::memory_order_relaxed); }
  std::uint64_t huge_bytes() const noexcept { return huge_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Counters {
    std::atomic<std::uint64_t> evictions{0}, reclaimed_expired{0}, out_of_memory{0}, swept{0};
    std::uint64_t allocated_by_gone = 0;                     // by destroyed caches; guarded by caches_mutex_
    std::uint64_t allocated_seen = 0, allocated_lately = 0;  // input of pick_donor; guarded likewise
    std::atomic<std::uint64_t> free_not_spare{0};            // with those in caches, so many made no page's worth
    std::atomic<std::uint32_t> spare_calls{0};
  };
  friend class HeapRecovery;
  // Index of a class's pages, counters and caches: huge items are last.
  std::uint32_t index_of(SizeClass c) const noexcept { return c == huge_class ? classes_.count() : c; }

  // --- allocation: heap.cpp
  void hand_out(Location l, std::uint64_t item_bytes) noexcept;
  Location allocate_slow(Cache& cache, SizeClass c, std::uint64_t item_bytes) noexcept;
  Location allocate_slot(Cache& cache, SizeClass c, std::uint64_t item_bytes, bool may_add_page) noexcept;
  Location allocate_huge(Cache& cache, std::uint64_t item_bytes) noexcept;
  Location take_from_pages(Cache& cache, SizeClass c) noexcept;
  void set_giving(Cache& cache, SizeClass c, Magazine* m) noexcept;
  Magazine* own_giving(Cache& cache, SizeClass c) noexcept;
  bool add_page(SizeClass c) noexcept;
  void adopt(PageId page, SizeClass c, bool moved) noexcept;
  // Takes free or safe slots out of other caches; false when nothing can have changed since this cache's last try.
  bool scavenge(Cache& cache, SizeClass c) noexcept;
  void put_free(Cache& cache, SizeClass c, Location l) noexcept;
  void free_huge(Location l) noexcept;
  std::uint64_t slot_bytes_at(SizeClass c, Location l) const noexcept;
  // Poisons all of a free slot but its state word.
  void poison_slot(Location l, std::uint32_t bytes) const noexcept {
    poison_memory(at(l)->bytes() + sizeof(std::uint64_t), bytes - sizeof(std::uint64_t));
  }

  // --- retiring: heap_retire.cpp
  std::uint64_t retire_slow(Cache& cache, SizeClass c) noexcept;
  void complete_push(Cache& cache, SizeClass c) noexcept;
  void retire_again(Cache& cache, SizeClass c, Location l) noexcept;
  void push_large(Cache& cache, SizeClass c, Location l) noexcept;
  void push_chained(Cache& cache, SizeClass c, Location l) noexcept;
  void seal_taking(Cache& cache, SizeClass c, std::uint64_t stamp) noexcept;
  void seal_large(Cache& cache, std::uint64_t stamp) noexcept;
  void seal_all(Cache& cache) noexcept;
  std::uint64_t safe_stamp(Cache& cache, std::uint64_t stamp) noexcept;
  static std::uint64_t oldest_stamp(const Cache& cache) noexcept;
  Magazine* pop_safe(Cache& cache, SizeClass c, std::uint64_t safe) noexcept;
  std::uint32_t make_free(Cache& cache, SizeClass c, Magazine* m) noexcept;
  bool load_safe(Cache& cache, SizeClass c) noexcept;
  void give_oldest_away(Cache& cache) noexcept;
  std::size_t reclaim_sealed(Cache& cache) noexcept;
  bool free_or_defer(Cache& cache, Location l) noexcept;
  void spill(Cache& cache, SizeClass c, std::uint32_t keep) noexcept;
  void take_out(Cache& cache, SizeClass c, PageId page) noexcept;

  struct Candidate;
  struct Candidates;
  struct Receiver;
  static bool gains_by(DonorRule rule, const Candidate& giver, const Receiver& receiver,
                       std::uint64_t cas_now) noexcept;
  std::uint64_t count_allocations(SizeClass c, bool fade) noexcept;  // REQUIRES: caches_mutex_
  void collect_donors(SizeClass to, DonorRule rule, Candidates& out) noexcept;
  bool has_spare_page(SizeClass c) noexcept;

  void attach(Cache& cache) noexcept;
  void adopt_retired(Cache& to, Cache& from) noexcept;
  void detach(Cache& cache) noexcept;

  std::uint64_t huge_value_bytes(const Item* item) const noexcept;

  char* base_ = nullptr;  // of page 0
  PageTable table_;
  void count_swept(SizeClass c, std::uint64_t slots, std::uint64_t of_class) noexcept;
  std::size_t end_probation(SizeClass c, std::span<Location> victims, IsGarbage is_garbage,
                            const void* context) noexcept;

  SizeClasses classes_;
  MemoryBudget& budget_;
  EpochDomain& epochs_;
  PagePool pool_;
  std::unique_ptr<ClassPages[]> pages_;   // by index_of
  std::unique_ptr<Counters[]> counters_;  // by index_of
  std::unique_ptr<Probation> probation_;

  mutable std::mutex caches_mutex_;  // the list of caches
  Cache* caches_ = nullptr;
  std::atomic<std::uint32_t> caches_count_{0};  // written under the lock
  std::unique_ptr<Cache> orphans_;              // holds the retired slots of destroyed caches

  alignas(cache_line_bytes) std::atomic<std::uint64_t> retired_bytes_{0};
  std::atomic<std::uint64_t> huge_items_{0}, huge_bytes_{0};
  std::atomic<std::uint64_t> eighths_swept_{0}, pages_moved_{0};
  // Pins of all pages. Usually 0, and then no page's own count is read.
  alignas(cache_line_bytes) std::atomic<std::uint64_t> pins_{0};
  std::atomic<std::uint64_t> pages_pinned_{0};
};

}  // namespace tandem

#include "heap/cache.hpp"  // Heap::Cache, and the inline part of Heap
