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

// An item's lifetime in a class is about the number of its slots divided by its allocation rate. Memory is balanced
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

Heap::Donor Heap::pick_donor(SizeClass to, DonorRule rule, unsigned passed_over) noexcept {
  // With a smaller difference between the lifetimes the page would soon be taken back.
  constexpr double life_ratio_min = 2.0;
  struct Candidate {
    SizeClass c;
    bool has_free_page;
    double life;
  };
  const bool for_budget = to == huge_class && rule == DonorRule::any;
  const bool compares = rule != DonorRule::any;
  // The budget gets memory back a frame at a time: half-free frames are finished first.
  if (const PageId lone = for_budget && passed_over == 0 ? pool_.lone_page() : 0; lone != 0 && !is_pinned(lone))
    return {.page = lone};
  std::array<Candidate, SizeClasses::classes_max + 1> candidates;
  const bool starving = to != huge_class && pages_[to].pages_open() == 0;
  // A class's last page is taken only for a class that has none, or when there is no other.
  for (std::uint64_t keep = starving ? 0 : 1;; keep = 0) {
    std::size_t count = 0;
    double life_of_receiver = 0;
    {
      const std::lock_guard list(caches_mutex_);
      for (std::uint32_t i = 0; i <= classes_.count(); ++i) {
        const SizeClass c = i < classes_.count() ? static_cast<SizeClass>(i) : huge_class;
        const std::uint64_t pages = c == huge_class ? huge_items() : pages_[c].pages_open();
        const std::uint64_t slots = c == huge_class ? pages : pages * classes_[c].slots_per_page;
        const bool fade = rule == DonorRule::longer_life;
        const double life = static_cast<double>(slots) / static_cast<double>(count_allocations(c, fade) + 1);
        if (c == to) life_of_receiver = life;
        if (c == to || pages <= keep) continue;
        const bool has_free_page = c != huge_class && pages_[c].slots_free() >= classes_[c].slots_per_page;
        candidates[count++] = {c, has_free_page, life};
      }
    }
    std::sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count),
              [](const Candidate& a, const Candidate& b) {
                return a.has_free_page != b.has_free_page ? a.has_free_page : a.life > b.life;
              });
    for (std::size_t i = 0; i < count; ++i) {
      const Candidate& best = candidates[(i + passed_over) % count];
      if (!starving && compares && !best.has_free_page && best.life < life_ratio_min * life_of_receiver) continue;
      if (best.c == huge_class) return {.huge_item = true};
      if (const PageId page = pages_[best.c].pick_donor(keep); page != 0) return {.page = page};
    }
    if (rule != DonorRule::any || keep == 0) break;
  }
  return {.huge_item = for_budget && huge_items() != 0};
}

PageId Heap::pick_donor_from(SizeClass from) noexcept {
  return from < classes_.count() && pages_[from].pages_open() > 1 ? pages_[from].pick_donor(1) : 0;
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
