// Allocation and freeing. Moves between classes: heap_moves.cpp; CLOCK: heap_clock.cpp.
#include "heap/heap.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tandem {

Heap::Heap(const HeapOptions& options, MemoryBudget& budget, EpochDomain& epochs)
    : classes_(options.growth_factor, options.slot_bytes_min, options.item_bytes_max),
      budget_(budget),
      epochs_(epochs),
      pool_(budget, options.huge_pages, options.file) {
  if (options.item_bytes_max > item_bytes_limit) throw std::invalid_argument("heap: items are at most 1 GiB");
  table_ = pool_.table();
  base_ = table_.base;
  pages_ = std::make_unique<ClassPages[]>(classes_.count() + 1);
  counters_ = std::make_unique<Counters[]>(classes_.count() + 1);
  for (std::uint32_t c = 0; c < classes_.count(); ++c) {
    pages_[c].init(table_, classes_[static_cast<SizeClass>(c)], static_cast<SizeClass>(c));
  }
  SlotShape huge{};
  huge.slots_per_page = 1;
  pages_[classes_.count()].init(table_, huge, huge_class);
  orphans_ = std::make_unique<Cache>(*this);
  if (options.probation) probation_ = std::make_unique<Probation>(budget, table_.page_limit, classes_.count());
}

Heap::~Heap() {
  orphans_.reset();
  TD_ASSERT(caches_ == nullptr);  // caches do not outlive their heap
}

Location Heap::allocate_slow(Cache& cache, SizeClass c, std::uint64_t item_bytes) noexcept {
  if (c == huge_class) return allocate_huge(cache, item_bytes);
  Cache::Slots& slots = cache.classes_[c];
  const bool cached = classes_[c].cache_slots != 0;
  const auto try_once = [&]() noexcept {
    Location l = no_location;
    if (!cached) {
      pages_[c].take({&l, 1});
    } else if (refill(cache, c)) {
      l = slots.ready[--slots.count];
    }
    return l;
  };
  // What this worker retired itself comes first: it is in the processor's cache, and other memory stays untouched.
  while (cached && slots.count == 0 && reclaim_sealed(cache, 1) != 0) {
  }
  Location l = try_once();
  if (l == no_location && reclaim_sealed(cache) != 0) l = try_once();
  while (l == no_location && add_page(c)) l = try_once();  // others may take all of a new page
  if (l == no_location && scavenge(cache, c)) l = try_once();
  if (l != no_location) cache.hand_out(c, l, item_bytes);
  return l;
}

bool Heap::refill(Cache& cache, SizeClass c) noexcept {
  Cache::Slots& slots = cache.classes_[c];
  if (slots.count != 0) return true;  // what was reclaimed
  slots.count = pages_[c].take({slots.ready, classes_[c].chunk_slots});
  for (std::uint32_t i = 0; i < std::min(slots.count, Cache::prefetch_slots); ++i) {
    prefetch_write(at(slots.ready[slots.count - 1 - i]));
  }
  return slots.count != 0;
}

bool Heap::add_page(SizeClass c) noexcept {
  const PageId page = pool_.take_page();
  if (page == 0) return false;
  adopt(page, c, false);
  return true;
}

void Heap::adopt(PageId page, SizeClass c, bool moved) noexcept {
  const SlotShape& shape = classes_[c];
  for (std::uint32_t slot = 0; slot < shape.slots_per_page; ++slot)
    poison_slot(shape.location(page, slot), shape.slot_bytes);
  pages_[c].add_page(page, moved);
}

Location Heap::allocate_huge(Cache& cache, std::uint64_t item_bytes) noexcept {
  const auto pages = static_cast<std::uint32_t>((item_bytes + page_bytes - 1) / page_bytes);
  PageId first = pool_.take_run(pages);
  if (first == 0 && reclaim_sealed(cache) != 0) first = pool_.take_run(pages);
  if (first == 0 && scavenge(cache, huge_class)) first = pool_.take_run(pages);
  if (first == 0) return no_location;

  PageInfo& info = table_.info(first);
  info.run_pages = pages;
  info.huge_value_bytes = 0;
  const Location l = page_location(first);
  cache.hand_out(huge_class, l, item_bytes);
  for (PageId p = first + 1; p < first + pages; ++p) table_.set_tag(p, PageState::huge_body, huge_class);
  table_.set_tag(first, PageState::huge_head, huge_class);
  pages_[index_of(huge_class)].link(first);
  huge_items_.fetch_add(1, std::memory_order_relaxed);
  huge_pages_.fetch_add(pages, std::memory_order_relaxed);
  return l;
}

void Heap::free_huge(Location l) noexcept {
  const PageId first = page_of(l);
  const std::uint32_t pages = table_.info(first).run_pages;
  for (PageId p = first; p < first + pages; ++p) table_.set_tag(p, PageState::free, 0);
  pool_.give_run(first, pages);
  huge_items_.fetch_sub(1, std::memory_order_relaxed);
  huge_pages_.fetch_sub(pages, std::memory_order_relaxed);
}

bool Heap::scavenge(Cache& cache, SizeClass c) noexcept {
  // When no batch has ended since the last look, little can have changed: look again only now and then.
  constexpr std::uint32_t calls_between_looks = 8;
  if (cache.retired_.has_open()) seal(cache);
  const std::uint64_t safe = epochs_.safe_stamp();
  if (safe == cache.scavenged_at_ && ++cache.scavenges_skipped_ < calls_between_looks) return false;
  cache.scavenged_at_ = safe;
  cache.scavenges_skipped_ = 0;
  // This thread holds a cache's lock already, so it must not wait for another's, nor for the list's.
  const std::unique_lock list(caches_mutex_, std::try_to_lock);
  if (!list.owns_lock()) return false;
  for (Cache* other = caches_; other != nullptr; other = other->next_) {
    if (other == &cache || !other->lock_.try_lock()) continue;
    if (other->retired_.has_open()) seal(*other);
    reclaim_sealed(*other);
    if (c != huge_class) spill(*other, c, 0);
    other->lock_.unlock();
  }
  reclaim_sealed(cache);
  return true;
}

void Heap::release(Cache& cache, Location l) noexcept {
  TD_DEBUG_ASSERT(cache.lock_.is_locked());
  Item* const item = at(l);
  const SizeClass c = class_of(l);
  if (c == huge_class) {
    // A sweeper may be looking at it: like all pages, its pages change hands only after an epoch.
    item->state_word.store(word::State::put(0, static_cast<std::uint64_t>(ItemState::dead)), std::memory_order_relaxed);
    retire(cache, l);
    return;
  }
  item->state_word.store(0, std::memory_order_relaxed);
  put_free(cache, c, l);
}

void Heap::put_free(Cache& cache, SizeClass c, Location l) noexcept {
  const SlotShape& shape = classes_[c];
  poison_slot(l, shape.slot_bytes);
  if (shape.cache_slots == 0 || tag::state_of(table_.tag(page_of(l))) != PageState::open) {
    pages_[c].put({&l, 1});
    return;
  }
  Cache::Slots& slots = cache.classes_[c];
  if (slots.count == shape.cache_slots) spill(cache, c, shape.chunk_slots);
  slots.ready[slots.count++] = l;
}

void Heap::spill(Cache& cache, SizeClass c, std::uint32_t keep) noexcept {
  Cache::Slots& slots = cache.classes_[c];
  if (slots.count <= keep) return;
  pages_[c].put(
      {slots.ready, slots.count - keep});  // the ones freed first: what was freed last is in the processor's cache
  std::copy(slots.ready + slots.count - keep, slots.ready + slots.count, slots.ready);
  slots.count = keep;
}

std::uint64_t Heap::slot_bytes_at(SizeClass c, Location l) const noexcept {
  return c == huge_class ? table_.info(page_of(l)).run_pages * page_bytes : classes_[c].slot_bytes;
}

std::uint64_t Heap::retire(Cache& cache, Location l) noexcept {
  TD_DEBUG_ASSERT(cache.lock_.is_locked());
  Item* const item = at(l);
  TD_DEBUG_ASSERT(Item::state_of(item->state_word.load(std::memory_order_relaxed)) == ItemState::dead);
  const SizeClass c = class_of(l);
  if (TD_UNLIKELY(c == huge_class)) {
    // Out of sight of sweeps and visits before the stamp, so that whoever still looks at it entered its epoch before.
    pages_[index_of(c)].unlink(page_of(l));
    table_.set_tag(page_of(l), PageState::huge_body, huge_class);
  }
  const std::uint64_t bytes = slot_bytes_at(c, l);
  cache.retired_.push(l, item, bytes);
  ++cache.classes_[c].retired;
  if (TD_UNLIKELY(cache.retired_.is_full())) seal(cache);
  return bytes;
}

void Heap::seal(Cache& cache) noexcept {
  cache.reclaims_since_seal_ = 0;
  const std::uint64_t bytes = cache.retired_.seal(epochs_.retire_stamp());
  retired_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

std::size_t Heap::reclaim(Cache& cache) noexcept {
  // A stamp is an increment that all workers share, so a few slots wait for company.
  constexpr std::uint32_t reclaims_before_seal = 16;
  TD_DEBUG_ASSERT(cache.lock_.is_locked());
  if (cache.retired_.has_open() && ++cache.reclaims_since_seal_ >= reclaims_before_seal) seal(cache);
  return reclaim_sealed(cache);
}

std::size_t Heap::reclaim_all(Cache& cache) noexcept {
  TD_DEBUG_ASSERT(cache.lock_.is_locked());
  if (cache.retired_.has_open()) seal(cache);
  return reclaim_sealed(cache);
}

void Heap::reclaim_caches() noexcept {
  const std::lock_guard list(caches_mutex_);
  for (Cache* cache = caches_; cache != nullptr; cache = cache->next_) {
    const Cache::Lock lock(*cache);
    reclaim_all(*cache);
  }
}

std::size_t Heap::reclaim_sealed(Cache& cache, std::size_t slots_wanted) noexcept {
  RetiredList& retired = cache.retired_;
  const std::uint64_t oldest = retired.oldest_stamp();
  if (oldest == RetiredList::no_stamp) return 0;
  if (oldest >= cache.safe_seen_) {
    cache.safe_seen_ = epochs_.safe_stamp();
#if defined(TANDEM_CANARY)
    if (canary_bites("early_reuse")) ++cache.safe_seen_;
#endif
    if (oldest >= cache.safe_seen_) return 0;
  }
  // Slots of pinned pages are retired anew, with a stamp that is not safe yet: the loops end.
  const std::uint64_t safe = cache.safe_seen_;
  std::size_t freed = 0;
  while (RetiredList::Chunk* const chunk = retired.pop(safe)) {
    retired_bytes_.fetch_sub(chunk->bytes, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < chunk->count; ++i) freed += free_or_defer(cache, chunk->slots[i]) ? 1u : 0u;
    retired.recycle(chunk);
    if (freed >= slots_wanted) return freed;
  }
  const RetiredList::Chain chain = retired.pop_chain(safe);
  retired_bytes_.fetch_sub(chain.bytes, std::memory_order_relaxed);
  for (Location l = chain.head; l != no_location;) {
    const Location next = RetiredList::next_in_chain(at(l));
    freed += free_or_defer(cache, l) ? 1u : 0u;
    l = next;
  }
  return freed;
}

// REQUIRES: the epoch of l is over, so that whoever needed a pin has made it.
bool Heap::free_or_defer(Cache& cache, Location l) noexcept {
  const SizeClass c = class_of(l);
  // Acquire: what was read through pins that are gone was read before the slot's reuse.
  if (TD_UNLIKELY(pins_.load(std::memory_order_acquire) != 0) &&
      table_.info(page_of(l)).pins.load(std::memory_order_acquire) != 0) {
    cache.retired_.push(l, at(l), slot_bytes_at(c, l));
    if (cache.retired_.is_full()) seal(cache);
    return false;
  }
  --cache.classes_[c].retired;
  if (c == huge_class) {
    free_huge(l);
  } else {
    put_free(cache, c, l);
  }
  return true;
}

void Heap::pin(Location l) noexcept {
  pins_.fetch_add(1, std::memory_order_relaxed);
  if (table_.info(page_of(l)).pins.fetch_add(1, std::memory_order_relaxed) == 0)
    pages_pinned_.fetch_add(1, std::memory_order_relaxed);
}

void Heap::unpin(Location l) noexcept {
  const std::uint32_t before = table_.info(page_of(l)).pins.fetch_sub(1, std::memory_order_release);
  TD_ASSERT(before != 0);
  if (before == 1) pages_pinned_.fetch_sub(1, std::memory_order_relaxed);
  pins_.fetch_sub(1, std::memory_order_release);
}

Item* Heap::format(Location l, std::string_view key, std::uint32_t client_flags, std::uint64_t value_bytes,
                   std::uint32_t expiry_s, std::uint32_t now_s, bool binary_key) noexcept {
  Item* const item = at(l);
  std::uint64_t fixed = word::KeyBytes::put(0, key.size());
  fixed = word::HasFlags::put(fixed, client_flags != 0);
  fixed = word::BinaryKey::put(fixed, binary_key);
  if (TD_UNLIKELY(class_of(l) == huge_class)) {
    fixed = word::Huge::put(fixed, 1);
    table_.info(page_of(l)).huge_value_bytes = value_bytes;
    if (table_.saved_huge_value_bytes != nullptr) table_.saved_huge_value_bytes[page_of(l)] = value_bytes;
  } else {
    fixed = word::ValueBytes::put(fixed, value_bytes);
  }
  // The slot may be larger than what it was allocated for, and the item may use that.
  unpoison_memory(item, Item::total_bytes(client_flags, key.size(), value_bytes));
  item->set_fixed(fixed);
  std::uint64_t state = word::State::put(0, static_cast<std::uint64_t>(ItemState::filling));
  state = word::AccessS::put(state, now_s);
  item->state_word.store(word::ExpiryS::put(state, expiry_s), std::memory_order_relaxed);
  if (client_flags != 0) std::memcpy(item->bytes() + sizeof(Item), &client_flags, sizeof client_flags);
  std::memcpy(item->bytes() + item->key_offset(), key.data(), key.size());
  return item;
}

std::uint64_t Heap::huge_value_bytes(const Item* item) const noexcept {
  return table_.info(page_of(location_of(item))).huge_value_bytes;
}

std::uint64_t Heap::slots_at_hand(const Cache& cache, SizeClass c) const noexcept {
  return c == huge_class ? 0 : cache.classes_[c].count + pages_[c].slots_free();
}

ClassStats Heap::class_stats(SizeClass c) const {
  const std::uint32_t i = index_of(c);
  ClassStats s{};
  std::uint64_t cached = 0;
  std::uint64_t retired = 0;
  {
    const std::lock_guard list(caches_mutex_);
    for (Cache* cache = caches_; cache != nullptr; cache = cache->next_) {
      const Cache::Lock lock(*cache);
      cached += cache->classes_[c].count;
      retired += cache->classes_[c].retired;
    }
  }
  const ClassPages::Totals totals = pages_[i].totals();
  s.slot_bytes = c == huge_class ? static_cast<std::uint32_t>(page_bytes) : classes_[c].slot_bytes;
  s.slots_per_page = c == huge_class ? 1 : classes_[c].slots_per_page;
  s.pages = c == huge_class ? huge_pages_.load(std::memory_order_relaxed) : totals.pages;
  s.slots_total = s.pages * s.slots_per_page;
  s.slots_free = totals.slots_free + cached;
  // Counted at slightly different moments while others allocate.
  const std::uint64_t idle = s.slots_free + retired;
  const std::uint64_t all = c == huge_class ? huge_items() : s.slots_total;
  s.slots_used = all > idle ? all - idle : 0;
  s.evictions = counters_[i].evictions.load(std::memory_order_relaxed);
  s.reclaimed_expired = counters_[i].reclaimed_expired.load(std::memory_order_relaxed);
  s.out_of_memory = counters_[i].out_of_memory.load(std::memory_order_relaxed);
  s.pages_moved_in = totals.moved_in;
  s.pages_moved_out = totals.moved_out;
  return s;
}

}  // namespace tandem
