// What one worker keeps of the heap: free slots of the classes it uses, and what it retired.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/spin_lock.hpp"
#include "heap/heap.hpp"
#include "heap/item_rewrite.hpp"
#include "heap/poison.hpp"
#include "heap/retired_list.hpp"

namespace tandem {

// Invariants: slots in `ready` are free and of open pages (a page that closes is taken out under this cache's lock).
// Slots too large to be cached (SlotShape::cache_slots 0) and huge items pass through. Thread safety: one thread at a
// time, inside a Lock; the page mover, class_stats() and a worker that found nothing free elsewhere take the lock, too.
class Heap::Cache {
 public:
  explicit Cache(Heap& heap);  // throws std::bad_alloc
  // Gives everything back; what still waits for its epoch is handed to the heap. REQUIRES: not locked.
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // Held once a strip around allocate(), release(), retire() and reclaim(). Not recursive. REQUIRES while held: no
  // close_page(), finish_page(), class_stats() by this thread.
  class Lock {
   public:
    explicit Lock(Cache& cache) noexcept : lock_(cache.lock_) { lock_.lock(); }
    ~Lock() { lock_.unlock(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    SpinLock& lock_;
  };

 private:
  friend class Heap;

  struct Slots {
    Location* ready = nullptr;  // a stack
    std::uint32_t count = 0;
    std::uint32_t retired = 0;                // slots of this class that wait for their epoch
    std::atomic<std::uint64_t> allocated{0};  // ever; written inside the lock only
  };
  static constexpr std::uint32_t prefetch_slots = 8;        // allocate() prefetches so many ahead ...
  static constexpr std::uint32_t prefetch_bytes_max = 256;  // ... and so much of each

  // The slot leaves the heap's hands.
  TD_INLINE void hand_out(SizeClass c, Location l, [[maybe_unused]] std::uint64_t item_bytes) noexcept {
    std::atomic<std::uint64_t>& allocated = classes_[c].allocated;
    allocated.store(allocated.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    Item* const item = heap_.at(l);
    unpoison_memory(item, item_bytes);
    item->state_word.store(word::State::put(0, static_cast<std::uint64_t>(ItemState::filling)),
                           std::memory_order_relaxed);
  }

  Heap& heap_;
  SpinLock lock_;
  Cache* next_ = nullptr;  // all caches; guarded by the heap's caches_mutex_
  Cache* previous_ = nullptr;
  std::uint64_t safe_seen_ = 0;     // the last safe stamp
  std::uint64_t scavenged_at_ = 0;  // the safe stamp when this cache last looked for free slots in others
  std::uint32_t scavenges_skipped_ = 0;
  std::uint32_t reclaims_since_seal_ = 0;
  RetiredList retired_;
  std::unique_ptr<Location[]> storage_;
  Slots classes_[256];  // by SizeClass; the last is huge_class
};

TD_INLINE Location Heap::allocate(Cache& cache, SizeClass c, std::uint64_t item_bytes) noexcept {
  TD_DEBUG_ASSERT(cache.lock_.is_locked());
  Cache::Slots& slots = cache.classes_[c];
  if (TD_UNLIKELY(slots.count == 0)) return allocate_slow(cache, c, item_bytes);
  const Location l = slots.ready[--slots.count];
  // Storage begins with as many spare places, so no end needs a branch.
  const char* const ahead = at(slots.ready[static_cast<std::int64_t>(slots.count) - Cache::prefetch_slots])->bytes();
  const std::uint32_t end = std::min(classes_[c].slot_bytes, Cache::prefetch_bytes_max);
  for (std::uint32_t b = 0; b < end; b += cache_line_bytes) prefetch_write(ahead + b);
  cache.hand_out(c, l, item_bytes);
  return l;
}

template <class F>
std::uint32_t Heap::visit_slots(PageId page, std::uint32_t first, std::uint32_t count, F f) const {
  const std::uint16_t t = table_.tag(page);
  const auto visit = [&](Location l) {
    Item* const item = at(l);
    if (Item::state_of(settled_state(item)) == ItemState::live) f(l, item);
  };
  switch (tag::state_of(t)) {
    case PageState::open:
    case PageState::closed: {
      const SlotShape& shape = classes_[tag::class_of(t)];
      if (first >= shape.slots_per_page) return 0;
      const std::uint32_t end = first + std::min(count, shape.slots_per_page - first);
      for (std::uint32_t slot = first; slot < end; ++slot) visit(shape.location(page, slot));
      return end == shape.slots_per_page ? 0 : end;
    }
    case PageState::huge_head:
      visit(page_location(page));
      return 0;
    case PageState::free:
    case PageState::emptied:
    case PageState::huge_body:
      return 0;
  }
  return 0;
}

inline std::optional<SizeClass> Heap::items_of_page(PageId page) const noexcept {
  const std::uint16_t t = table_.tag(page);
  const PageState state = tag::state_of(t);
  if (state != PageState::open && state != PageState::closed && state != PageState::huge_head) return std::nullopt;
  return tag::class_of(t);
}

}  // namespace tandem
