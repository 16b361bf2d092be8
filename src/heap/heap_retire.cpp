// Retired slots: how they wait for their epoch, and how they are freed then.
#include <algorithm>
#include <cstring>

#include "heap/heap.hpp"

namespace tandem {

// The slot that retire() pushed either filled its magazine or, without one, is in the catcher.
std::uint64_t Heap::retire_slow(Cache& cache, SizeClass c) noexcept {
  std::uint64_t bytes = cache.shelves_[c].slot_bytes;
  if (TD_UNLIKELY(c == huge_class)) {
    // Hidden from sweeps and visits before the stamp, so that a thread that still examines it entered its epoch before.
    const PageId page = page_of(cache.catcher_.slots[0]);
    pages_[index_of(c)].unlink(page);
    table_.set_tag(page, PageState::huge_body, huge_class);
    bytes = slot_bytes_at(c, cache.catcher_.slots[0]);
  }
  complete_push(cache, c);
  if (TD_UNLIKELY(cache.sealed_bytes_ > Cache::kept_bytes_max)) give_oldest_away(cache);
  return bytes;
}

void Heap::complete_push(Cache& cache, SizeClass c) noexcept {
  Cache::Shelf& shelf = cache.shelves_[c];
  if (shelf.taking != &cache.catcher_) return seal_taking(cache, c, epochs_.retire_stamp());
  const Location l = cache.catcher_.slots[0];
  cache.catcher_.left = 1;
  if (shelf.magazine_slots == 0) return push_large(cache, c, l);
  Magazine* const m = cache.supply_.take();
  if (m == nullptr) return push_chained(cache, c, l);
  m->left = shelf.magazine_slots - 1;
  m->slots[m->left] = l;
  shelf.taking = m;
  cache.unsealed_.add(c);
}

// A slot that is retired again has been counted, and is hidden.
void Heap::retire_again(Cache& cache, SizeClass c, Location l) noexcept {
  Magazine* const m = cache.shelves_[c].taking;
  m->slots[--m->left] = l;
  if (m->left == 0) complete_push(cache, c);
}

void Heap::push_large(Cache& cache, SizeClass c, Location l) noexcept {
  if (cache.large_ == nullptr) {
    cache.large_ = cache.supply_.take();
    if (cache.large_ == nullptr) return push_chained(cache, c, l);
    cache.large_->left = 0;
    cache.large_->bytes = 0;
  }
  Magazine& m = *cache.large_;
  m.slots[m.left++] = l;
  m.bytes += slot_bytes_at(c, l);
  ++cache.shelves_[c].waiting;
  if (m.left == Magazine::slots_max || m.bytes >= Cache::large_bytes_max) seal_large(cache, epochs_.retire_stamp());
}

void Heap::push_chained(Cache& cache, SizeClass c, Location l) noexcept {
  RetiredChain& chain = cache.chain_;
  chain.push(l, at(l), slot_bytes_at(c, l));
  ++cache.shelves_[c].waiting;
  if (chain.open_bytes() >= Cache::large_bytes_max && chain.can_seal())
    retired_bytes_.fetch_add(chain.seal(epochs_.retire_stamp()), std::memory_order_relaxed);
}

// REQUIRES here and below: the stamp was taken after the last slot was retired, and is no smaller than any before it.
void Heap::seal_taking(Cache& cache, SizeClass c, std::uint64_t stamp) noexcept {
  Cache::Shelf& shelf = cache.shelves_[c];
  Magazine* const m = shelf.taking;
  const std::uint32_t count = shelf.magazine_slots - m->left;
  if (m->left != 0) std::memmove(m->slots, m->slots + m->left, count * sizeof(Location));
  m->left = count;
  m->stamp = stamp;
  m->bytes = std::uint64_t{count} * shelf.slot_bytes;
  shelf.sealed.push(m);
  shelf.waiting += count;
  shelf.taking = &cache.catcher_;
  cache.unsealed_.remove(c);
  cache.sealed_.add(c);
  cache.sealed_bytes_ += m->bytes;
  retired_bytes_.fetch_add(m->bytes, std::memory_order_relaxed);
}

void Heap::seal_large(Cache& cache, std::uint64_t stamp) noexcept {
  Magazine* const m = cache.large_;
  m->stamp = stamp;
  cache.sealed_large_.push(m);
  cache.large_ = nullptr;
  retired_bytes_.fetch_add(m->bytes, std::memory_order_relaxed);
}

void Heap::seal_all(Cache& cache) noexcept {
  cache.reclaims_since_seal_ = 0;
  if (!cache.has_unsealed()) return;
  const std::uint64_t stamp = epochs_.retire_stamp();
  cache.unsealed_.for_each([&](SizeClass c) { seal_taking(cache, c, stamp); });
  if (cache.large_ != nullptr) seal_large(cache, stamp);
  if (cache.chain_.can_seal()) retired_bytes_.fetch_add(cache.chain_.seal(stamp), std::memory_order_relaxed);
}

// Stamps below the returned one are safe. Scans the epochs only when the last scan does not answer for `stamp`.
std::uint64_t Heap::safe_stamp(Cache& cache, std::uint64_t stamp) noexcept {
  if (stamp >= cache.safe_seen_) {
    cache.safe_seen_ = epochs_.safe_stamp();
#if defined(TANDEM_CANARY)
    if (canary_bites("early_reuse")) cache.safe_seen_ = stamp + 1;
#endif
  }
  return cache.safe_seen_;
}

// The class's oldest sealed magazine if its stamp is below `safe`, or nullptr. The caller owns it and frees its slots.
Magazine* Heap::pop_safe(Cache& cache, SizeClass c, std::uint64_t safe) noexcept {
  Cache::Shelf& shelf = cache.shelves_[c];
  if (shelf.sealed.head == nullptr || shelf.sealed.head->stamp >= safe) return nullptr;
  Magazine* const m = shelf.sealed.pop();
  if (shelf.sealed.head == nullptr) cache.sealed_.remove(c);
  shelf.waiting -= m->left;
  cache.sealed_bytes_ -= m->bytes;
  retired_bytes_.fetch_sub(m->bytes, std::memory_order_relaxed);
  return m;
}

// Leaves in the magazine what a cache may keep. Slots of closed pages go to those pages. Slots of pinned pages are
// retired again; their new stamp is above the `safe` of a loop that read it once, so the loop ends. Usually there are
// neither, and no slot is examined. Returns how many slots are free now. REQUIRES: their epoch has passed, so that
// every pin that is needed has been made.
std::uint32_t Heap::make_free(Cache& cache, SizeClass c, Magazine* m) noexcept {
  const std::uint32_t slot_bytes = cache.shelves_[c].slot_bytes;
  // Acquire: reads through pins that are gone happened before the slots' reuse.
  const bool any_pinned = pins_.load(std::memory_order_acquire) != 0;
  // Closing a page after this check removes its slots from this cache, which is locked now.
  if (TD_LIKELY(!any_pinned && pages_[c].pages_closed() == 0)) {
#if TD_ADDRESS_SANITIZER
    for (std::uint32_t i = 0; i < m->left; ++i) poison_slot(m->slots[i], slot_bytes);
#endif
    return m->left;
  }
  std::uint32_t kept = 0, freed = 0;
  for (std::uint32_t i = 0; i < m->left; ++i) {
    const Location l = m->slots[i];
    if (any_pinned && table_.info(page_of(l)).pins.load(std::memory_order_acquire) != 0) {
      retire_again(cache, c, l);
      continue;
    }
    ++freed;
    poison_slot(l, slot_bytes);
    if (tag::state_of(table_.tag(page_of(l))) == PageState::open) {
      m->slots[kept++] = l;
    } else {
      pages_[c].put({&l, 1});
    }
  }
  m->left = kept;
  return freed;
}

// Makes the oldest safe magazine the `giving` one; false: there is none. REQUIRES: the present one is empty.
bool Heap::load_safe(Cache& cache, SizeClass c) noexcept {
  const Magazine* const oldest = cache.shelves_[c].sealed.head;
  if (oldest == nullptr) return false;
  const std::uint64_t safe = safe_stamp(cache, oldest->stamp);
  while (Magazine* const m = pop_safe(cache, c, safe)) {
    make_free(cache, c, m);
    if (TD_LIKELY(m->left != 0)) {
      set_giving(cache, c, m);
      return true;
    }
    cache.supply_.put(m);
  }
  return false;
}

// For the other workers. A call gives away twice as many magazines as one call adds, so that the surplus shrinks.
void Heap::give_oldest_away(Cache& cache) noexcept {
  for (int i = 0; i < 2 && cache.sealed_bytes_ > Cache::kept_bytes_max; ++i) {
    SizeClass oldest = 0;
    std::uint64_t stamp = RetiredChain::no_stamp;
    cache.sealed_.for_each([&](SizeClass c) {
      if (cache.shelves_[c].sealed.head->stamp >= stamp) return;
      stamp = cache.shelves_[c].sealed.head->stamp;
      oldest = c;
    });
    Magazine* const m = pop_safe(cache, oldest, safe_stamp(cache, stamp));
    if (m == nullptr) return;
    make_free(cache, oldest, m);
    if (m->left != 0) pages_[oldest].put({m->slots, m->left});
    cache.supply_.put(m);
  }
}

std::size_t Heap::reclaim(Cache& cache) noexcept {
  // A stamp is an increment that all workers share, so a few slots are stamped together.
  constexpr std::uint32_t reclaims_before_seal = 16;
  TD_DEBUG_ASSERT(cache.lock_.is_locked());
  if (cache.has_unsealed() && ++cache.reclaims_since_seal_ >= reclaims_before_seal) seal_all(cache);
  return reclaim_sealed(cache);
}

std::size_t Heap::reclaim_all(Cache& cache) noexcept {
  TD_DEBUG_ASSERT(cache.lock_.is_locked());
  seal_all(cache);
  return reclaim_sealed(cache);
}

void Heap::reclaim_caches() noexcept {
  const std::lock_guard list(caches_mutex_);
  for (Cache* cache = caches_; cache != nullptr; cache = cache->next_) {
    const Cache::Lock lock(*cache);
    reclaim_all(*cache);
  }
}

// Frees all sealed slots of past epochs. Returns how many.
std::size_t Heap::reclaim_sealed(Cache& cache) noexcept {
  const std::uint64_t oldest = oldest_stamp(cache);
  if (oldest == RetiredChain::no_stamp) return 0;
  const std::uint64_t safe = safe_stamp(cache, oldest);
  if (oldest >= safe) return 0;
  std::size_t freed = 0;
  cache.sealed_.for_each([&](SizeClass c) {
    while (Magazine* const m = pop_safe(cache, c, safe)) {
      freed += make_free(cache, c, m);
      if (m->left != 0 && cache.shelves_[c].giving->left == 0) {
        set_giving(cache, c, m);
        continue;
      }
      if (m->left != 0) pages_[c].put({m->slots, m->left});
      cache.supply_.put(m);
    }
  });
  while (cache.sealed_large_.head != nullptr && cache.sealed_large_.head->stamp < safe) {
    Magazine* const m = cache.sealed_large_.pop();
    retired_bytes_.fetch_sub(m->bytes, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < m->left; ++i) freed += free_or_defer(cache, m->slots[i]) ? 1u : 0u;
    cache.supply_.put(m);
  }
  const RetiredChain::Sealed chain = cache.chain_.pop(safe);
  retired_bytes_.fetch_sub(chain.bytes, std::memory_order_relaxed);
  for (Location l = chain.head; l != no_location;) {
    const Location next = RetiredChain::next(at(l));
    freed += free_or_defer(cache, l) ? 1u : 0u;
    l = next;
  }
  return freed;
}

// The oldest stamp of all that is sealed; no_stamp: nothing is.
std::uint64_t Heap::oldest_stamp(const Cache& cache) noexcept {
  std::uint64_t oldest = cache.chain_.sealed_stamp();
  cache.sealed_.for_each([&](SizeClass c) { oldest = std::min(oldest, cache.shelves_[c].sealed.head->stamp); });
  if (cache.sealed_large_.head != nullptr) oldest = std::min(oldest, cache.sealed_large_.head->stamp);
  return oldest;
}

// make_free() for one slot.
bool Heap::free_or_defer(Cache& cache, Location l) noexcept {
  const SizeClass c = class_of(l);
  --cache.shelves_[c].waiting;
  if (TD_UNLIKELY(pins_.load(std::memory_order_acquire) != 0) &&
      table_.info(page_of(l)).pins.load(std::memory_order_acquire) != 0) {
    retire_again(cache, c, l);
    return false;
  }
  if (c == huge_class) {
    free_huge(l);
  } else {
    put_free(cache, c, l);
  }
  return true;
}

// Takes over the retired slots of a cache that is being destroyed. They get a new stamp: later than needed, never too
// early, and in order behind those present. REQUIRES: both are locked.
void Heap::adopt_retired(Cache& to, Cache& from) noexcept {
  seal_all(from);
  RetiredChain::Sealed chains[2];
  chains[0] = from.chain_.pop(RetiredChain::no_stamp);
  if (from.chain_.can_seal()) {
    retired_bytes_.fetch_add(from.chain_.seal(0), std::memory_order_relaxed);
    chains[1] = from.chain_.pop(RetiredChain::no_stamp);
  }
  const std::uint64_t stamp = epochs_.retire_stamp();
  from.sealed_.for_each([&](SizeClass c) {
    Cache::Shelf& shelf = to.shelves_[c];
    MagazineQueue& queue = from.shelves_[c].sealed;
    while (queue.head != nullptr) {
      Magazine* const m = queue.pop();
      m->stamp = stamp;
      shelf.waiting += m->left;
      to.sealed_bytes_ += m->bytes;
      shelf.sealed.push(m);
      to.supply_.adopt(from.supply_);
    }
    to.sealed_.add(c);
  });
  while (from.sealed_large_.head != nullptr) {
    Magazine* const m = from.sealed_large_.pop();
    m->stamp = stamp;
    for (std::uint32_t i = 0; i < m->left; ++i) ++to.shelves_[class_of(m->slots[i])].waiting;
    to.sealed_large_.push(m);
    to.supply_.adopt(from.supply_);
  }
  for (const RetiredChain::Sealed& chain : chains) {
    retired_bytes_.fetch_sub(chain.bytes, std::memory_order_relaxed);
    for (Location l = chain.head; l != no_location;) {
      const Location next = RetiredChain::next(at(l));
      retire_again(to, class_of(l), l);
      l = next;
    }
  }
  seal_all(to);
}

}  // namespace tandem
