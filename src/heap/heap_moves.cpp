// Moves pages from one class to another, and back to the budget.
//
// States of a page's move: open -> closed (allocation stopped, slots gather in its bitmap) -> emptied (all slots back;
// sweeps, visits and for_each_live no longer begin on it) -> an epoch later, when no thread examines it: free, cleared,
// open in another class.
#include <algorithm>
#include <array>

#include "heap/heap.hpp"
#include "heap/item_rewrite.hpp"

namespace tandem {

struct Heap::Candidate {
  SizeClass c;
  bool has_free_page, is_last_page;
  std::uint64_t cas;  // of what it gives; 0: not asked for
  double life;
};
struct Heap::Receiver {
  std::uint64_t cas;  // of what it would evict; 0: nothing
  double life;
};
struct Heap::Candidates {
  std::array<Candidate, SizeClasses::classes_max + 1> all;
  std::size_t count = 0;
  double life_of_receiver = 0;
};

// An item's lifetime in a class is about the number of its items divided by its allocation rate. Memory is balanced
// when lifetimes are equal. Each call with `fade`, one per balancing step, halves the counts.
std::uint64_t Heap::count_allocations(SizeClass c, bool fade) noexcept {
  Counters& counters = counters_[index_of(c)];
  std::uint64_t allocated = counters.allocated_by_gone;
  for (const Cache* cache = caches_; cache != nullptr; cache = cache->next_) {
    allocated += cache->shelves_[c].allocated.load(std::memory_order_relaxed);
  }
  const std::uint64_t since = allocated - counters.allocated_seen;
  if (!fade) return counters.allocated_lately + since;
  counters.allocated_lately = counters.allocated_lately / 2 + since;
  counters.allocated_seen = allocated;
  return counters.allocated_lately;
}

void Heap::collect_donors(SizeClass to, DonorRule rule, Candidates& out) noexcept {
  const std::lock_guard list(caches_mutex_);
  for (std::uint32_t i = 0; i <= classes_.count(); ++i) {
    const SizeClass c = i < classes_.count() ? static_cast<SizeClass>(i) : huge_class;
    const std::uint64_t pages = c == huge_class ? huge_items() : pages_[c].pages_open();
    const std::uint64_t slots = c == huge_class ? pages : pages * classes_[c].slots_per_page;
    const std::uint64_t free = c == huge_class ? 0 : std::min(slots, pages_[c].slots_free());
    const std::uint64_t allocated = count_allocations(c, rule == DonorRule::longer_life);
    const double life = static_cast<double>(slots - free) / static_cast<double>(allocated + 1);
    if (c == to) out.life_of_receiver = life;
    if (c == to || pages == 0) continue;
    const bool has_free_page = c != huge_class && free >= classes_[c].slots_per_page;
    out.all[out.count++] = {c, has_free_page, pages == 1, 0, life};
  }
}

// With a smaller difference between lifetimes or ages the page would soon be taken back.
bool Heap::gains_by(DonorRule rule, const Candidate& giver, const Receiver& receiver, std::uint64_t cas_now) noexcept {
  constexpr double ratio_min = 2.0;
  const bool is_newer = receiver.cas != 0 && giver.cas > receiver.cas;
  if (rule == DonorRule::longer_life) return !is_newer && giver.life >= ratio_min * receiver.life;
  const auto age_of = [cas_now](std::uint64_t cas) { return static_cast<double>(cas_now - std::min(cas, cas_now)); };
  return !is_newer && (receiver.cas == 0 || age_of(giver.cas) >= ratio_min * age_of(receiver.cas));
}

Heap::Donor Heap::pick_donor(SizeClass to, DonorRule rule, std::uint64_t cas_now, unsigned passed_over) noexcept {
  const bool for_budget = to == huge_class && rule == DonorRule::any;
  // The budget gets memory back a frame at a time: half-free frames are finished first.
  if (const PageId lone = for_budget && passed_over == 0 ? pool_.lone_page() : 0; lone != 0 && !is_pinned(lone))
    return {.page = lone};
  const bool compares = rule != DonorRule::any && (to == huge_class || pages_[to].pages_open() != 0);
  Candidates donors;
  collect_donors(to, rule, donors);
  const auto begin = donors.all.begin(), end = begin + static_cast<std::ptrdiff_t>(donors.count);
  std::for_each(begin, end, [this](Candidate& d) {
    if (!d.has_free_page) d.cas = pages_[index_of(d.c)].next_cas();
  });
  ClassPages& own = pages_[index_of(to)];
  const Receiver receiver{!compares                        ? 0
                          : rule == DonorRule::longer_life ? own.next_cas()
                                                           : own.cas_ahead(),
                          donors.life_of_receiver};
  const bool by_life = compares && rule == DonorRule::longer_life;
  std::sort(begin, end, [by_life](const Candidate& a, const Candidate& b) {
    if (a.has_free_page != b.has_free_page) return a.has_free_page;
    if (a.is_last_page != b.is_last_page) return b.is_last_page;
    return by_life || a.cas == b.cas ? a.life > b.life : a.cas < b.cas;
  });
  for (std::size_t i = 0; i < donors.count; ++i) {
    const Candidate& best = donors.all[(i + passed_over) % donors.count];
    if (compares && best.is_last_page) continue;
    if (compares && !best.has_free_page && !gains_by(rule, best, receiver, cas_now)) continue;
    if (best.c == huge_class) return {.huge_item = true};
    const auto by = best.has_free_page ? ClassPages::Donor::emptiest : ClassPages::Donor::oldest;
    if (const PageId page = pages_[best.c].pick_donor(best.is_last_page ? 0 : 1, by); page != 0)
      return {.page = page, .spare = best.has_free_page};
  }
  return {.huge_item = for_budget && huge_items() != 0};
}

PageId Heap::pick_donor_from(SizeClass from) noexcept {
  if (from >= classes_.count() || pages_[from].pages_open() <= 1) return 0;
  const bool has_free_page = pages_[from].slots_free() >= classes_[from].slots_per_page;
  return pages_[from].pick_donor(1, has_free_page ? ClassPages::Donor::emptiest : ClassPages::Donor::oldest);
}

// Free slots in caches count, too: a class with one page may have them all there. To count them takes the lock of each
// cache. After a count in vain that waits until the class has more free slots, or a number of calls have been made.
bool Heap::has_spare_page(SizeClass c) noexcept {
  constexpr std::uint32_t calls_passed = 64;
  const SlotShape& shape = classes_[c];
  if (pages_[c].pages_open() == 0) return false;
  const std::uint64_t free = pages_[c].slots_free();
  if (free >= shape.slots_per_page) return true;
  const std::uint64_t in_caches_max = caches_count_.load(std::memory_order_relaxed) * shape.magazine_slots;
  Counters& counters = counters_[c];
  if (free + in_caches_max < shape.slots_per_page) {
    if (counters.free_not_spare.load(std::memory_order_relaxed) != 0)
      counters.free_not_spare.store(0, std::memory_order_relaxed);
    return false;
  }
  if (free <= counters.free_not_spare.load(std::memory_order_relaxed) &&
      counters.spare_calls.fetch_add(1, std::memory_order_relaxed) % calls_passed != 0)
    return false;
  std::uint64_t in_caches = 0;
  {
    const std::lock_guard list(caches_mutex_);
    for (Cache* cache = caches_; cache != nullptr; cache = cache->next_) {
      const Cache::Lock lock(*cache);
      in_caches += cache->shelves_[c].giving->left;
    }
  }
  const bool is_spare = free + in_caches >= shape.slots_per_page;
  counters.free_not_spare.store(is_spare ? 0 : free, std::memory_order_relaxed);
  return is_spare;
}

bool Heap::has_spare(SizeClass to) noexcept {
  for (std::uint32_t c = 0; c < classes_.count(); ++c) {
    if (c != to && has_spare_page(static_cast<SizeClass>(c))) return true;
  }
  return false;
}

PageId Heap::pick_spare(SizeClass to) noexcept {
  const PageId lone = to == huge_class ? pool_.lone_page() : 0;
  if (lone != 0 && !is_pinned(lone) && has_spare_page(tag::class_of(table_.tag(lone)))) return lone;
  for (std::uint32_t i = 0; i < classes_.count(); ++i) {
    const auto c = static_cast<SizeClass>(i);
    if (c == to || !has_spare_page(c)) continue;
    if (const PageId page = pages_[c].pick_donor(0, ClassPages::Donor::emptiest); page != 0) return page;
  }
  return 0;
}

bool Heap::is_moving_pages() const noexcept {
  for (std::uint32_t c = 0; c < classes_.count(); ++c) {
    if (pages_[c].pages_closed() != 0) return true;
  }
  return false;
}

bool Heap::close_page(PageId page) noexcept {
  if (page == 0 || page >= page_end()) return false;
  const SizeClass c = tag::class_of(table_.tag(page));
  if (c >= classes_.count() || !pages_[c].close(page)) return false;
  {
    // From here on a cache that gets its lock after this one sees the page closed and keeps none of its slots.
    const std::lock_guard list(caches_mutex_);
    for (Cache* cache = caches_; cache != nullptr; cache = cache->next_) {
      const Cache::Lock lock(*cache);
      take_out(*cache, c, page);
    }
  }
  const SlotShape& shape = classes_[c];
  for (std::uint32_t slot = 0; slot < shape.slots_per_page; ++slot) {
    const std::uint64_t state = at(shape.location(page, slot))->state_word.load(std::memory_order_relaxed);
    // An item that is being rewritten in place counts as live, and is evicted once it is live again.
    if (Item::state_of(state) == ItemState::filling && !is_rewriting(state)) {
      pages_[c].reopen(page);
      return false;
    }
  }
  return true;
}

// Only from the `giving` magazine: retired slots are checked when they become free (make_free).
void Heap::take_out(Cache& cache, SizeClass c, PageId page) noexcept {
  Magazine* const m = cache.shelves_[c].giving;
  Location* const end = m->slots + m->left;
  Location* const gone = std::partition(m->slots, end, [page](Location l) { return page_of(l) != page; });
  if (gone == end) return;
  pages_[c].put({gone, end});
  m->left = static_cast<std::uint32_t>(gone - m->slots);
}

void Heap::for_each_live(PageId page, const std::function<void(Location)>& f) const {
  visit_page(page, [&f](Location l, Item*) { f(l); });
}

bool Heap::finish_page(PageId page, SizeClass to) noexcept {
  const std::uint16_t tag = table_.tag(page);
  const SizeClass c = tag::class_of(tag);
  PageInfo& info = table_.info(page);
  if (tag::state_of(tag) == PageState::closed) {
    if (!pages_[c].is_empty(page)) {
      const std::lock_guard list(caches_mutex_);
      for (Cache* cache = caches_; cache != nullptr; cache = cache->next_) {
        const Cache::Lock lock(*cache);
        reclaim_all(*cache);
      }
    }
    if (!pages_[c].is_empty(page)) return false;
    table_.set_tag(page, PageState::emptied, c);
    info.emptied_stamp = epochs_.retire_stamp();
  }
  TD_ASSERT(tag::state_of(table_.tag(page)) == PageState::emptied);
  if (!epochs_.is_safe(info.emptied_stamp)) return false;

  unpoison_memory(table_.page(page), page_bytes);
  if (probation_ != nullptr) probation_->forget(page);
  pages_[c].leave(page);
  pages_moved_.fetch_add(1, std::memory_order_relaxed);
  if (to == huge_class) {
    pool_.give_page(page);
    return true;
  }
  adopt(page, to, true);
  return true;
}

void Heap::reopen_page(PageId page) noexcept { pages_[tag::class_of(table_.tag(page))].reopen(page); }

}  // namespace tandem
