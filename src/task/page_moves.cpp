// A page's way from one class to another, or to the budget.
#include "task/page_moves.hpp"

#include <algorithm>
#include <chrono>

#include "base/yield.hpp"
#include "task/memory.hpp"

namespace tandem::task {
namespace {

// How long a move waits for output that points into its page.
constexpr auto pin_wait_max = std::chrono::milliseconds(1);
// How long it waits for the batches that see the page's items.
constexpr auto move_wait_max = std::chrono::seconds(2);

// Empties a page that moves: items for which their class has free slots are copied there, the rest are evicted, if
// that is allowed, but for those with a CAS id above `keep_above`, which are counted in `kept`. False: items remain.
bool empty_out(Context& context, std::span<Location> items, bool evicts, std::uint64_t keep_above,
               std::size_t& kept) noexcept {
  {
    const ItemMoves::Burst burst(context.shared.moves);
    context.shared.code.rescue(context, items);
  }
  const std::uint32_t now_s = context.shared.clock.now_s();
  const std::uint64_t flush_cas = context.shared.flush_cas.load(std::memory_order_acquire);
  const auto newer = std::partition(items.begin(), items.end(), [&](Location l) {
    const ItemVersion seen = ItemVersion::of(context.shared.heap.at(l));
    return seen.cas() <= keep_above || is_over(seen, now_s, flush_cas);
  });
  const auto kept_here = static_cast<std::size_t>(items.end() - newer);
  kept += kept_here;
  items = items.first(items.size() - kept_here);
  const std::uint64_t before = context.counters.evictions.get();
  const std::size_t unlinked = context.shared.code.unlink(context, items, evicts ? Spare::none : Spare::good, false);
  context.counters.slab_reassign_evictions_nomem.add(context.counters.evictions.get() - before);
  // The item that an append adds to is spared, so its page cannot move.
  const bool spares = std::ranges::find(items, context.spared) != items.end();
  return kept_here == 0 && ((evicts && !spares) || unlinked == items.size());
}

// Evicts as many items of the class, where CLOCK's hand is. False: it found fewer.
bool make_room_for_kept(Context& context, SizeClass c, std::size_t kept) noexcept {
  const std::uint64_t before = context.counters.evictions.get();
  const std::uint64_t fruitless_max = sweeps_of_two_turns(context.shared.heap.slots_total(c));
  std::size_t evicted = 0;
  for (std::uint64_t fruitless = 0; evicted < kept && fruitless < fruitless_max;) {
    const std::size_t found = evict(context, c, kept - evicted, false);
    evicted += found;
    fruitless = found == 0 ? fruitless + 1 : 0;
  }
  context.counters.slab_reassign_evictions_nomem.add(context.counters.evictions.get() - before);
  return evicted >= kept;
}

// Evicts one huge item; its pages go to the budget; prefers items that were not used since the last sweep. Returns
// the average number of pages of such an item; 0: there is none, or output pins all of them.
std::uint64_t evict_huge_item(Context& context) noexcept {
  Heap& heap = context.shared.heap;
  context.let_go();
  constexpr int turns = 2;  // the first may only clear access marks
  const std::uint64_t items = heap.huge_items();
  if (items == 0) return 0;
  const std::uint64_t pages = heap.huge_bytes() / page_bytes / items;
  for (int turn = 0; turn < turns; ++turn) {
    if (evict(context, huge_class, 1, false) == 0) continue;
    context.shared.epochs.synchronize();  // else the next caller evicts another item, too
    reclaim(context);
    return std::max<std::uint64_t>(pages, 1);
  }
  return 0;
}

PageId pick_donor_from(Context& context, SizeClass from) noexcept {
  context.enter();
  const PageId page = context.shared.heap.pick_donor_from(from);
  context.epoch.exit();
  return page;
}

}  // namespace

bool move_this_page(Context& context, PageId page, SizeClass to, Loses loses) noexcept {
  Shared& shared = context.shared;
  context.let_go();
  const SizeClass from = shared.heap.class_of(page_location(page));
  if (!shared.heap.close_page(page)) return false;
  Location batch[victims_per_sweep_max];
  // Removed items become free once the batches in flight have ended and the caches have been reclaimed.
  constexpr int full_passes_max = 16, keeping_passes_max = 8;
  int full_passes = 0;
  const bool evicts = loses != Loses::nothing && shared.policy.evict;
  const bool keeps = evicts && !shared.placement.retires_displaced();
  std::uint64_t keep_above = UINT64_MAX;
  const auto start = std::chrono::steady_clock::now();
  auto pinned_since = start;
  for (bool first = true;; first = false) {
    bool empties = true;
    std::size_t kept = 0;
    context.enter();
    if (first && keeps) keep_above = shared.heap.cas_to_keep_above(page);
    // From the end: pages are filled from their beginning, so what finds no room is what was stored first.
    for (std::uint32_t end = shared.heap.classes()[from].slots_per_page, begin = 0; end != 0; end = begin) {
      begin = end - std::min<std::uint32_t>(end, victims_per_sweep_max);
      std::size_t count = 0;
      shared.heap.visit_slots(page, begin, end - begin, [&](Location l, const Item*) { batch[count++] = l; });
      std::reverse(batch, batch + count);
      if (count != 0) empties &= empty_out(context, {batch, count}, evicts, keep_above, kept);
    }
    context.epoch.exit();
    const bool makes_room = kept == 0 || (make_room_for_kept(context, from, kept) && full_passes < keeping_passes_max);
    if (!makes_room && loses == Loses::oldest) break;
    if (!makes_room) keep_above = UINT64_MAX;
    shared.epochs.synchronize();
    reclaim(context);
    if (shared.heap.finish_page(page, to)) {
      if (TD_UNLIKELY(context.observer != nullptr)) context.observer->page_moved(from, to);
      return true;
    }
    // A slow client's output may pin the page indefinitely.
    const auto now = std::chrono::steady_clock::now();
    if (!empties && ++full_passes == full_passes_max) break;
    if (first || !shared.heap.is_pinned(page)) pinned_since = now;
    if (now - pinned_since > pin_wait_max || now - start > move_wait_max) break;
    yield_processor();
  }
  shared.heap.reopen_page(page);
  return false;
}

std::uint64_t move_page(Context& context, SizeClass to, Heap::DonorRule rule, unsigned passed_over) noexcept {
  context.enter();
  const Heap::Donor donor =
      context.shared.heap.pick_donor(to, rule, context.shared.cas_next.load(std::memory_order_relaxed), passed_over);
  context.epoch.exit();
  if (donor.huge_item) return evict_huge_item(context);
  if (donor.page == 0) return 0;
  // A class that fills up while its spare page moves is not to lose what it has just stored.
  const bool keeps_all = donor.spare && !context.shared.placement.retires_displaced();
  const Loses loses = keeps_all ? Loses::nothing : rule == Heap::DonorRule::any ? Loses::any : Loses::oldest;
  return move_this_page(context, donor.page, to, loses) ? 1 : 0;
}

bool move_page(Context& context, SizeClass from, SizeClass to) noexcept {
  const PageId page = pick_donor_from(context, from);
  return page != 0 && move_this_page(context, page, to, Loses::any);
}

bool empty_page(Context& context, SizeClass c) noexcept {
  const PageId page = pick_donor_from(context, c);
  return page != 0 && move_this_page(context, page, c, Loses::nothing);
}

}  // namespace tandem::task
