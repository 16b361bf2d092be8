// Allocation. Retired slots: heap_retire.cpp; moves between classes: heap_moves.cpp; CLOCK: heap_clock.cpp.
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
  huge.first_granule = large_first_granule;
  pages_[classes_.count()].init(table_, huge, huge_class);
  orphans_ = std::make_unique<Cache>(*this);
  if (options.probation) probation_ = std::make_unique<Probation>(budget, table_.page_limit, classes_.count());
}

Heap::~Heap() {
  orphans_.reset();
  TD_ASSERT(caches_ == nullptr);  // caches do not outlive their heap
}

Location Heap::allocate_slow(Cache& cache, SizeClass c, std::uint64_t item_bytes) noexcept {
  return c == huge_class ? allocate_huge(cache, item_bytes) : allocate_slot(cache, c, item_bytes, true);
}

Location Heap::allocate_spare(Cache& cache, SizeClass c, std::uint64_t item_bytes) noexcept {
  return c == huge_class ? no_location : allocate_slot(cache, c, item_bytes, false);
}

Location Heap::allocate_slot(Cache& cache, SizeClass c, std::uint64_t item_bytes, bool may_add_page) noexcept {
  const Cache::Shelf& shelf = cache.shelves_[c];
  const auto try_once = [&]() noexcept {
    // This worker's own retired slots come first: they are in the processor's cache, and no further memory is touched.
    if (shelf.giving->left == 0 && !load_safe(cache, c)) return take_from_pages(cache, c);
    return shelf.giving->slots[--shelf.giving->left];
  };
  Location l = try_once();
  if (l == no_location && reclaim_sealed(cache) != 0) l = try_once();
  while (l == no_location && may_add_page && add_page(c))
    l = try_once();  // other workers may take all slots of a new page
  if (l == no_location && scavenge(cache, c)) l = try_once();
  if (l != no_location) hand_out(l, item_bytes);
  return l;
}

bool Heap::allocate_row([[maybe_unused]] Cache& cache, SizeClass c, std::span<Location, row_slots> out,
                        bool may_add_page) noexcept {
  TD_DEBUG_ASSERT(cache.lock_.is_locked());
  const SlotShape& shape = classes_[c];
  if (shape.slots_per_page < row_slots) return false;
  // Other workers may take what a new page has.
  if (!pages_[c].take_row(out) && (!may_add_page || !add_page(c) || !pages_[c].take_row(out))) return false;
  for (const Location l : out) hand_out(l, shape.slot_bytes);
  return true;
}

// Fills the `giving` magazine and takes a slot from it; takes only that slot if there is no magazine. REQUIRES: it is
// empty.
Location Heap::take_from_pages(Cache& cache, SizeClass c) noexcept {
  Cache::Shelf& shelf = cache.shelves_[c];
  Magazine* const m = own_giving(cache, c);
  if (m == nullptr) {
    Location l = no_location;
    Cache::count_allocated(shelf, pages_[c].take({&l, 1}));
    return l;
  }
  m->left = pages_[c].take({m->slots, shelf.magazine_slots});
  if (m->left == 0) return no_location;
  set_giving(cache, c, m);
  return m->slots[--m->left];
}

void Heap::set_giving(Cache& cache, SizeClass c, Magazine* m) noexcept {
  Cache::Shelf& shelf = cache.shelves_[c];
  if (shelf.giving != m && shelf.giving != &cache.nothing_) cache.supply_.put(shelf.giving);
  shelf.giving = m;
  Cache::count_allocated(shelf, m->left);
  for (std::uint32_t i = 0; i < std::min(m->left, Cache::prefetch_slots); ++i) {
    prefetch_write(at(m->slots[m->left - 1 - i]));
  }
}

// The class's magazine to take from, which may have slots; nullptr: it has none, and none can be allocated.
Magazine* Heap::own_giving(Cache& cache, SizeClass c) noexcept {
  Cache::Shelf& shelf = cache.shelves_[c];
  if (shelf.magazine_slots == 0) return nullptr;
  if (shelf.giving != &cache.nothing_) return shelf.giving;
  Magazine* const m = cache.supply_.take();
  if (m == nullptr) return nullptr;
  m->left = 0;
  return shelf.giving = m;
}

bool Heap::add_page(SizeClass c) noexcept {
  const PageId page = pool_.take_page();
  if (page == 0) return false;
  adopt(page, c, false);
  return true;
}

void Heap::adopt(PageId page, SizeClass c, bool moved) noexcept {
  const SlotShape& shape = classes_[c];
  // Of a page's old bytes only those that are state words now could be taken for items.
  const bool dirty = moved || table_.info(page).dirty;
  for (std::uint32_t slot = 0; slot < shape.slots_per_page; ++slot) {
    if (dirty) at(shape.location(page, slot))->state_word.store(0, std::memory_order_relaxed);
    poison_slot(shape.location(page, slot), shape.slot_bytes);
  }
  pages_[c].add_page(page, moved);
}

Location Heap::allocate_huge(Cache& cache, std::uint64_t item_bytes) noexcept {
  const auto pages = static_cast<std::uint32_t>(run_pages_of(item_bytes));
  const std::uint64_t last_bytes = large_first_bytes + item_bytes - (pages - 1) * page_bytes;
  reclaim_sealed(cache);  // first: the memory of runs that this worker retired is resident, that of new pages is not
  PageId first = pool_.take_run(pages, last_bytes);
  if (first == 0 && scavenge(cache, huge_class)) first = pool_.take_run(pages, last_bytes);
  if (first == 0) return no_location;

  PageInfo& info = table_.info(first);
  info.run_pages = pages;
  info.huge_value_bytes = 0;
  const Location l = huge_location(first);
  Cache::count_allocated(cache.shelves_[huge_class], 1);
  hand_out(l, item_bytes);
  for (PageId p = first + 1; p < first + pages; ++p) table_.set_tag(p, PageState::huge_body, huge_class);
  table_.set_tag(first, PageState::huge_head, huge_class);
  pages_[index_of(huge_class)].link(first);
  huge_items_.fetch_add(1, std::memory_order_relaxed);
  huge_bytes_.fetch_add(pool_.run_bytes(first, pages), std::memory_order_relaxed);
  return l;
}

void Heap::free_huge(Location l) noexcept {
  const PageId first = page_of(l);
  const std::uint32_t pages = table_.info(first).run_pages;
  for (PageId p = first; p < first + pages; ++p) table_.set_tag(p, PageState::free, 0);
  huge_items_.fetch_sub(1, std::memory_order_relaxed);
  huge_bytes_.fetch_sub(pool_.run_bytes(first, pages), std::memory_order_relaxed);
  pool_.give_run(first, pages);
}

bool Heap::scavenge(Cache& cache, SizeClass c) noexcept {
  // When no batch has ended since the last look, little can have changed: look again only every few calls.
  constexpr std::uint32_t calls_between_looks = 8;
  seal_all(cache);
  const std::uint64_t safe = epochs_.safe_stamp();
  if (safe == cache.scavenged_at_ && ++cache.scavenges_skipped_ < calls_between_looks) return false;
  cache.scavenged_at_ = safe;
  cache.scavenges_skipped_ = 0;
  // This thread holds a cache's lock already, so it must not wait for another's, nor for the list's.
  const std::unique_lock list(caches_mutex_, std::try_to_lock);
  if (!list.owns_lock()) return false;
  for (Cache* other = caches_; other != nullptr; other = other->next_) {
    if (other == &cache || !other->lock_.try_lock()) continue;
    reclaim_all(*other);
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
    // A sweeper may be examining it: like all pages, its pages are reused only after an epoch.
    item->state_word.store(word::State::put(0, static_cast<std::uint64_t>(ItemState::dead)), std::memory_order_relaxed);
    retire(cache, l);
    return;
  }
  item->state_word.store(0, std::memory_order_relaxed);
  put_free(cache, c, l);
}

void Heap::put_free(Cache& cache, SizeClass c, Location l) noexcept {
  Cache::Shelf& shelf = cache.shelves_[c];
  poison_slot(l, shelf.slot_bytes);
  Magazine* const m = tag::state_of(table_.tag(page_of(l))) == PageState::open ? own_giving(cache, c) : nullptr;
  if (m == nullptr) {
    pages_[c].put({&l, 1});
    return;
  }
  if (m->left == shelf.magazine_slots) spill(cache, c, shelf.magazine_slots / 2);
  m->slots[m->left++] = l;
  Cache::count_allocated(shelf, 1);
}

void Heap::spill(Cache& cache, SizeClass c, std::uint32_t keep) noexcept {
  Magazine* const m = cache.shelves_[c].giving;
  if (m->left <= keep) return;
  const std::uint32_t gone = m->left - keep;
  pages_[c].put({m->slots, gone});  // the least recently freed: the rest is in the processor's cache
  std::copy(m->slots + gone, m->slots + m->left, m->slots);
  m->left = keep;
}

std::uint64_t Heap::slot_bytes_at(SizeClass c, Location l) const noexcept {
  return c == huge_class ? pool_.run_bytes(page_of(l), table_.info(page_of(l)).run_pages) : classes_[c].slot_bytes;
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
  const bool is_huge = class_of(l) == huge_class;
  format_slot(l, key, client_flags, is_huge ? 0 : value_bytes, expiry_s, now_s, binary_key);
  if (TD_UNLIKELY(is_huge)) {
    unpoison_memory(item, Item::total_bytes(client_flags, key.size(), value_bytes));
    item->set_fixed(word::Huge::put(item->fixed(), 1));
    table_.info(page_of(l)).huge_value_bytes = value_bytes;
    if (table_.saved_huge_value_bytes != nullptr) table_.saved_huge_value_bytes[page_of(l)] = value_bytes;
  }
  return item;
}

std::uint64_t Heap::huge_value_bytes(const Item* item) const noexcept {
  return table_.info(page_of(location_of(item))).huge_value_bytes;
}

std::uint64_t Heap::slots_at_hand(const Cache& cache, SizeClass c) const noexcept {
  return c == huge_class ? 0 : cache.shelves_[c].giving->left + pages_[c].slots_free();
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
      cached += cache->shelves_[c].giving->left;
      retired += cache->retired_slots(cache->shelves_[c]);
    }
  }
  const ClassPages::Totals totals = pages_[i].totals();
  s.slot_bytes = c == huge_class ? static_cast<std::uint32_t>(page_bytes) : classes_[c].slot_bytes;
  s.slots_per_page = c == huge_class ? 1 : classes_[c].slots_per_page;
  s.pages = c == huge_class ? (huge_bytes() + page_bytes - 1) / page_bytes : totals.pages;
  s.slots_total = s.pages * s.slots_per_page;
  s.slots_free = totals.slots_free + cached;
  // Read at slightly different moments while other threads allocate.
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
