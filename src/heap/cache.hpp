// One worker's cache of the heap. Per size class it has one magazine of free slots to allocate from, one that collects
// retired slots, and a queue of full ones that wait for their epoch. A full magazine with a safe stamp is allocated
// from as it is: recycling touches no slot.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/racing_copy.hpp"
#include "base/spin_lock.hpp"
#include "heap/heap.hpp"
#include "heap/item_rewrite.hpp"
#include "heap/magazine.hpp"
#include "heap/poison.hpp"

namespace tandem {

// Invariants: slots in a `giving` magazine are free and of open pages (closing a page removes its slots under this
// cache's lock); a sealed magazine has a stamp that was taken after its last slot was retired. Slots too large to be
// cached (SlotShape::magazine_slots 0) and huge items share one magazine of retired slots. Thread safety: one thread at
// a time, inside a Lock. The page mover, class_stats() and workers that scavenge free slots take the lock, too.
class Heap::Cache {
 public:
  // Retired and sealed slots of this many bytes are kept for this cache's own next allocations: two epochs' worth (the
  // lane ends an epoch at 1 MiB). Safe slots beyond them go to the classes' pages, oldest first.
  static constexpr std::uint64_t kept_bytes_max = 2 << 20;

  explicit Cache(Heap& heap) noexcept;
  // Returns all slots; those still waiting for their epoch are handed to the heap. REQUIRES: not locked.
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

  // One class's magazines. In place of an absent one it has the cache's `nothing_` or `catcher_`, so that the fast
  // paths need one test each.
  struct alignas(cache_line_bytes) Shelf {
    Magazine* giving = nullptr;  // of free slots
    Magazine* taking = nullptr;  // of retired slots, not yet full
    MagazineQueue sealed;
    std::atomic<std::uint64_t> allocated{0};  // ever, counted as slots enter `giving`; written inside the lock only
    std::uint32_t waiting = 0;                // retired slots that are not in `taking`
    std::uint32_t slot_bytes = 0;
    std::uint32_t magazine_slots = 0;  // SlotShape's; 0: none is cached
  };
  static_assert(sizeof(Shelf) == cache_line_bytes);
  static_assert(SizeClasses::magazine_slots_max == Magazine::slots_max);
  static constexpr std::uint32_t prefetch_slots = 8;            // allocate() prefetches this many ahead ...
  static constexpr std::uint32_t prefetch_bytes_max = 256;      // ... and so much of each
  static constexpr std::uint64_t large_bytes_max = 256 * 1024;  // of large retired slots: with more they are sealed

  std::uint32_t retired_slots(const Shelf& shelf) const noexcept {
    return shelf.waiting + (shelf.taking != &catcher_ ? shelf.magazine_slots - shelf.taking->left : 0);
  }
  bool has_unsealed() const noexcept { return !unsealed_.is_empty() || large_ != nullptr || chain_.has_open(); }
  static void count_allocated(Shelf& shelf, std::uint64_t slots) noexcept {
    shelf.allocated.store(shelf.allocated.load(std::memory_order_relaxed) + slots, std::memory_order_relaxed);
  }

  Heap& heap_;
  SpinLock lock_;
  Cache* next_ = nullptr;  // all caches; guarded by the heap's caches_mutex_
  Cache* previous_ = nullptr;
  std::uint64_t safe_seen_ = 0;     // the last safe stamp
  std::uint64_t scavenged_at_ = 0;  // the safe stamp when this cache last looked for free slots in other caches
  std::uint32_t scavenges_skipped_ = 0;
  std::uint32_t reclaims_since_seal_ = 0;
  std::uint64_t sealed_bytes_ = 0;  // in the shelves' queues
  ClassSet unsealed_, sealed_;      // the classes with a `taking` magazine, and with a sealed queue that is not empty
  MagazineSupply supply_;
  MagazineQueue sealed_large_;
  RetiredChain chain_;
  Magazine* large_ = nullptr;  // of retired large slots, not sealed: `left` counts them, `bytes` too
  Magazine nothing_;           // never has a slot
  Magazine catcher_;           // room for one slot: retire_slow() completes a push into it
  Shelf shelves_[256];         // by SizeClass; the last is huge_class
};

// The slot becomes the caller's.
TD_INLINE void Heap::hand_out(Location l, [[maybe_unused]] std::uint64_t item_bytes) noexcept {
  Item* const item = at(l);
  unpoison_memory(item, item_bytes);
  item->state_word.store(word::State::put(0, static_cast<std::uint64_t>(ItemState::filling)),
                         std::memory_order_relaxed);
}

TD_INLINE char* Heap::format_slot(Location l, std::string_view key, std::uint32_t client_flags,
                                  std::uint64_t value_bytes, std::uint32_t expiry_s, std::uint32_t now_s,
                                  bool binary_key) noexcept {
  Item* const item = at(l);
  // The slot may be larger than what it was allocated for, and the item may use that.
  unpoison_memory(item, Item::total_bytes(client_flags, key.size(), value_bytes));
  item->set_fixed(word::KeyBytes::put(0, key.size()) | word::ValueBytes::put(0, value_bytes) |
                  word::HasFlags::put(0, client_flags != 0) | word::BinaryKey::put(0, binary_key));
  item->state_word.store(word::State::put(0, static_cast<std::uint64_t>(ItemState::filling)) |
                             word::AccessS::put(0, now_s) | word::ExpiryS::put(0, expiry_s),
                         std::memory_order_relaxed);
  char* p = item->bytes() + sizeof(Item);
  if (client_flags != 0) {
    std::memcpy(p, &client_flags, sizeof client_flags);
    p += sizeof client_flags;
  }
  return racing_copy(p, key.data(), key.size());  // not a call, unlike memcpy
}

TD_INLINE Location Heap::allocate(Cache& cache, SizeClass c, std::uint64_t item_bytes) noexcept {
  TD_DEBUG_ASSERT(cache.lock_.is_locked());
  const Cache::Shelf& shelf = cache.shelves_[c];
  Magazine* const m = shelf.giving;
  if (TD_UNLIKELY(m->left == 0)) return allocate_slow(cache, c, item_bytes);
  const std::uint32_t left = --m->left;
  const Location l = m->slots[left];
  const char* const ahead = at(m->slots[left > Cache::prefetch_slots ? left - Cache::prefetch_slots : 0])->bytes();
  const std::uint32_t end = std::min(shelf.slot_bytes, Cache::prefetch_bytes_max);
  for (std::uint32_t b = 0; b < end; b += cache_line_bytes) prefetch_write(ahead + b);
  hand_out(l, item_bytes);
  return l;
}

TD_INLINE std::uint64_t Heap::retire(Cache& cache, Location l) noexcept {
  TD_DEBUG_ASSERT(cache.lock_.is_locked());
  TD_DEBUG_ASSERT(Item::state_of(at(l)->state_word.load(std::memory_order_relaxed)) == ItemState::dead);
  const SizeClass c = class_of(l);
  const Cache::Shelf& shelf = cache.shelves_[c];
  Magazine* const m = shelf.taking;
  const std::uint32_t left = --m->left;
  m->slots[left] = l;
  if (TD_UNLIKELY(left == 0)) return retire_slow(cache, c);
  return shelf.slot_bytes;
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
      visit(huge_location(page));
      return 0;
    case PageState::free:
    case PageState::emptied:
    case PageState::huge_body:
      return 0;
  }
  return 0;
}

template <class F>
void Heap::visit_granules(Location first, std::uint32_t count, F f) const {
  const PageId page = page_of(first);
  const std::uint16_t t = table_.tag(page);
  const PageState state = tag::state_of(t);
  const std::uint32_t begin = first - page_location(page);
  if (state == PageState::open || state == PageState::closed) {
    const SlotShape& shape = classes_[tag::class_of(t)];
    std::uint32_t slot = begin <= shape.first_granule ? 0 : shape.slot_at(begin);
    if (shape.location(page, slot) < first) ++slot;
    std::uint32_t end = slot;
    while (end < shape.slots_per_page && shape.location(page, end) < first + count) ++end;
    if (end != slot) visit_slots(page, slot, end - slot, f);
  } else if (const Location huge = huge_location(page);
             state == PageState::huge_head && huge >= first && huge < first + count) {
    visit_slots(page, 0, 1, f);
  }
}

inline std::optional<SizeClass> Heap::items_of_page(PageId page) const noexcept {
  const std::uint16_t t = table_.tag(page);
  const PageState state = tag::state_of(t);
  if (state != PageState::open && state != PageState::closed && state != PageState::huge_head) return std::nullopt;
  return tag::class_of(t);
}

}  // namespace tandem
