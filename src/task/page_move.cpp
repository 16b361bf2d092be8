#include "task/page_move.hpp"

#include <algorithm>
#include <chrono>

#include "base/yield.hpp"
#include "task/evict.hpp"

namespace tandem::task {
namespace {

// How long a move waits for output that points into its page.
constexpr auto pin_wait_max = std::chrono::milliseconds(1);

// Evicts the page's items and gives it to class `to`.
bool move_this_page(Context& context, PageId page, SizeClass to) noexcept {
  Shared& shared = context.shared;
  context.let_go();
  const SizeClass from = shared.heap.class_of(page_location(page));
  if (!shared.heap.close_page(page)) return false;
  Location batch[victims_per_sweep_max];
  std::size_t count = 0;
  const auto give_up = [&] {
    unlink(context, {batch, count}, Mercy::none);
    count = 0;
  };
  const auto start = std::chrono::steady_clock::now();
  auto pinned_since = start;
  for (bool first = true;; first = false) {
    context.enter();
    shared.heap.for_each_live(page, [&](Location l) {
      batch[count++] = l;
      if (count == victims_per_sweep_max) give_up();
    });
    if (count != 0) give_up();
    context.epoch.exit();
    shared.epochs.synchronize();
    reclaim(context);
    if (shared.heap.finish_page(page, to)) {
      if (TD_UNLIKELY(context.observer != nullptr)) context.observer->page_moved(from, to);
      return true;
    }
    // A client that reads slowly keeps it for as long as it likes.
    const auto now = std::chrono::steady_clock::now();
    if (first || !shared.heap.is_pinned(page)) pinned_since = now;
    if (now - pinned_since > pin_wait_max || now - start > epoch_wait_max) break;
    yield_processor();
  }
  shared.heap.reopen_page(page);
  return false;
}

// Evicts one huge item for the budget, sparing what was used since the last look, if there is anything else. Returns
// how many pages such an item has on average; 0: there is none, or output points to all.
std::uint64_t evict_huge_item(Context& context) noexcept {
  Heap& heap = context.shared.heap;
  context.let_go();
  constexpr int turns = 2;  // the first may only take marks of use away
  const std::uint64_t items = heap.huge_items();
  if (items == 0) return 0;
  const std::uint64_t pages = heap.huge_bytes() / page_bytes / items;
  for (int turn = 0; turn < turns; ++turn) {
    if (evict(context, huge_class, 1, false) == 0) continue;
    context.shared.epochs.synchronize();  // or whoever asks next would evict another one meanwhile
    reclaim(context);
    return std::max<std::uint64_t>(pages, 1);
  }
  return 0;
}

}  // namespace

std::uint64_t move_from(Context& context, const Heap::Donor& donor, SizeClass to) noexcept {
  if (donor.huge_item) return evict_huge_item(context);
  return donor.page != 0 && move_this_page(context, donor.page, to) ? 1 : 0;
}

std::uint64_t move_page(Context& context, SizeClass to, Heap::DonorRule rule) noexcept {
  return move_from(context, context.shared.heap.pick_donor(to, rule), to);
}

bool move_page(Context& context, SizeClass from, SizeClass to) noexcept {
  return move_from(context, {.page = context.shared.heap.pick_donor_from(from)}, to) != 0;
}

}  // namespace tandem::task
