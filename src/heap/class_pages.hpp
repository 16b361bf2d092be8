// The pages of one size class: their free slots, and CLOCK's hand over them. (For huge items: the first pages of their
// runs, hand only.)
//
// Invariants: a page in the ring is open (or, for huge items, live); a page in the list of available ones is open and
// has free slots; a closed page keeps its bitmap, which collects its slots, but is in neither. Thread safety: all calls
// from any thread; one lock, held for at most one chunk of slots, or a look at a few hundred large ones.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

#include "heap/size_classes.hpp"

namespace tandem {

class alignas(cache_line_bytes) ClassPages {
 public:
  struct Totals {
    std::uint64_t pages, slots_free, moved_in, moved_out;
  };
  // Slots [first, first + count) of a page, to be examined next. count 0: none.
  struct Range {
    PageId page = 0;
    std::uint32_t first = 0, count = 0;
  };

  void init(const PageTable& table, const SlotShape& shape, SizeClass c) noexcept;

  // Up to out.size() free slots, in falling order so that taking them from the end walks memory upwards. Returns how
  // many.
  std::uint32_t take(std::span<Location> out) noexcept;
  // A row of free slots, in rising order. False: the few pages that it looks at have none: the one that it found
  // the last row in, the newest one, and those that got free slots last first. A class without whole rows in a page has
  // none.
  bool take_row(std::span<Location, row_slots> out) noexcept;
  // Slots of this class, of open or closed pages.
  void put(std::span<const Location> slots) noexcept;
  // An empty page joins the class. REQUIRES: its state words are zero, and it belongs to the caller.
  void add_page(PageId page, bool moved) noexcept;

  // A page joins the class with its items: its bitmap, summary and free count say which slots are free.
  void recover_page(PageId page) noexcept;

  // --- moves
  bool close(PageId page) noexcept;  // false: it is not an open page of this class
  void reopen(PageId page) noexcept;
  // Whether all its slots are back. REQUIRES: closed or emptied.
  bool is_empty(PageId page) noexcept;
  void leave(PageId page) noexcept;  // an emptied page leaves the class; its tag says free
  // What a donor is chosen by, among a few pages from the hand on.
  enum class Donor : std::uint8_t {
    emptiest,  // the most free slots: its items find room in other pages
    oldest,    // the items that were stored first, of large slots the fewest in use since CLOCK looked
  };
  // A page that is not pinned; 0: none, or only the class's last `keep`. REQUIRES, for the oldest: inside an epoch.
  PageId pick_donor(std::uint64_t keep, Donor by) noexcept;
  // The median CAS id of what the page holds that is the next donor: CAS ids grow with the time of storing. 0: no live
  // item found. REQUIRES: inside an epoch.
  std::uint64_t next_cas() noexcept;
  // The same of the page that the hand comes to next: of the items that the class would lose to CLOCK.
  std::uint64_t cas_ahead() noexcept;
  // The CAS id above which items of the closed page are newer than those; UINT64_MAX: there are none.
  std::uint64_t cas_to_keep_above(PageId page) noexcept;

  // --- the ring alone, for huge items
  void link(PageId page) noexcept;
  void unlink(PageId page) noexcept;

  // Advances the hand over at most slots_max slots of one page. Skips pages with only free slots.
  Range claim(std::uint32_t slots_max) noexcept;
  // Returns the end of a claimed range, from slot `from`, if the hand has not moved since.
  void unclaim(const Range& range, std::uint32_t from) noexcept;

  Totals totals() noexcept;
  std::uint64_t pages() const noexcept { return pages_.load(std::memory_order_relaxed); }
  // Pages being moved to another class: nothing is allocated from them, and none is a donor.
  std::uint64_t pages_closed() const noexcept { return pages_closed_.load(std::memory_order_relaxed); }
  std::uint64_t pages_open() const noexcept {
    const std::uint64_t all = pages(), closed = pages_closed();
    return all - std::min(all, closed);
  }
  // Of open pages.
  std::uint64_t slots_free() const noexcept { return slots_free_.load(std::memory_order_relaxed); }

 private:
  // These REQUIRE the lock.
  bool has_large_slots() const noexcept { return shape_.slots_per_page <= 8; }
  std::uint32_t count_used(PageId page) const noexcept;
  std::uint64_t cas_of(PageId page, std::uint32_t quarters) const noexcept;
  std::uint64_t cas_of_live(Location l) const noexcept;
  bool take_row_of(PageId page, std::span<Location, row_slots> out) noexcept;
  bool put_one(Location l) noexcept;  // whether its page is open
  void avail_push(PageId p) noexcept;
  void avail_remove(PageId p) noexcept;
  void ring_insert(PageId p) noexcept;
  void ring_remove(PageId p) noexcept;

  std::mutex mutex_;
  PageTable table_;
  SlotShape shape_{};
  SizeClass class_ = 0;
  // Guarded by mutex_.
  PageId avail_head_ = 0, avail_tail_ = 0;
  PageId hand_page_ = 0;         // 0: the ring is empty
  std::uint32_t hand_slot_ = 0;  // the next slot to look at
  PageId donor_cursor_ = 0;
  PageId row_page_ = 0;  // where to look for a row first
  std::uint64_t moved_in_ = 0, moved_out_ = 0;
  // Written under the lock, read anywhere.
  std::atomic<std::uint64_t> pages_{0}, pages_closed_{0};
  std::atomic<std::uint64_t> slots_free_{0}, slots_free_closed_{0};
};

}  // namespace tandem
