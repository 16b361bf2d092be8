// S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: FIFO queues are all you need for cache eviction, SOSP 2023) over slots. A new
// item is on probation, in a first-in-first-out queue of a tenth of its class's slots. When the queue is longer, its
// oldest item is evicted unless it was accessed meanwhile; then it stays in the class under CLOCK's hand. So items that
// are accessed once use only a tenth of the memory. The keys of evicted items are remembered for a while: such a key,
// stored again, is not on probation.
//
// Departures: the main queue is the class's ring of slots under CLOCK's one bit (S3-FIFO counts to three); probation is
// a bit beside the page; the ghost queue is a table of 16-bit signatures that overwrite each other.
//
// Invariant: a slot with its bit set has an entry in its class's queue, so it will be examined. Thread safety: all
// calls from any thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/fingerprint.hpp"
#include "base/memory_budget.hpp"
#include "base/spin_lock.hpp"
#include "heap/page.hpp"

namespace tandem {

class Probation {
 public:
  // One in this many of a class's slots may be on probation before the oldest is evicted.
  static constexpr std::uint64_t slots_per_place = 10;

  // page_limit: of the page table. The ghosts take 1/64 of the budget. Throws std::bad_alloc, std::system_error,
  // std::invalid_argument when the budget is too small.
  Probation(MemoryBudget& budget, PageId page_limit, std::uint32_t class_count);
  ~Probation();
  Probation(const Probation&) = delete;
  Probation& operator=(const Probation&) = delete;

  // Called once an item is live. Puts the item at `l` on probation if its key is new, not if `f`'s key was evicted
  // recently. `slots`: of the class.
  void admit(SizeClass c, Location l, Fingerprint f, std::uint64_t slots) noexcept;
  // Ends the probation of the item at `l`, which stays.
  void release(Location l) noexcept { word(l).fetch_and(~bit(l), std::memory_order_relaxed); }
  // The page leaves its class: none of its slots has an entry in the next one's queue.
  void forget(PageId page) noexcept;
  bool is_on(Location l) const noexcept { return (word(l).load(std::memory_order_relaxed) & bit(l)) != 0; }

  // Takes the oldest slot on probation and ends its probation; no_location while no more than their share are on it.
  Location take_oldest(SizeClass c, std::uint64_t slots) noexcept;
  // Remembers the key of an item that was evicted from probation.
  void remember(Fingerprint f) noexcept;

  std::uint64_t queued(SizeClass c) const noexcept;

 private:
  struct alignas(cache_line_bytes) Queue {
    mutable SpinLock lock;
    std::deque<Location> slots;
  };
  // Removes the key from the ghosts. False: it is not there.
  bool recall(Fingerprint f) noexcept;

  std::atomic<std::uint64_t>& word(Location l) const noexcept { return bits_[l / 64]; }
  static std::uint64_t bit(Location l) noexcept { return std::uint64_t{1} << l % 64; }

  MemoryBudget& budget_;
  std::unique_ptr<Queue[]> queues_;   // by class
  std::atomic<std::uint64_t>* bits_;  // one for each granule of the heap's range, backed as they are used
  std::uint64_t bits_bytes_ = 0;
  std::uint64_t ghost_mask_ = 0;
  std::unique_ptr<std::atomic<std::uint16_t>[]> ghosts_;  // 0: none
};

}  // namespace tandem
