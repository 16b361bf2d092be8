#include "task/arrange.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/yield.hpp"
#include "task/memory.hpp"
#include "task/page_moves.hpp"
#include "task/scan.hpp"

namespace tandem::task {
namespace {

using Steady = std::chrono::steady_clock;

// Whether the slot at `l` lies just behind the one at `before`: holes of removed items do not matter.
bool lies_behind(Location before, Location l, std::uint32_t slot_granules) noexcept {
  constexpr std::uint32_t slots_max = 4;
  return l > before && l - before <= slots_max * slot_granules;
}

bool is_small(const Heap& heap, SizeClass c) noexcept {
  return c != huge_class && heap.slot_bytes(c) <= arranged_slot_bytes_max;
}

}  // namespace

void note_if_scattered(Context& context, const ScanCopies& copies, std::uint32_t count, bool reverse) noexcept {
  constexpr std::uint32_t looked_min = 8;
  const Heap& heap = context.shared.heap;
  std::array<Location, SizeClasses::classes_max> before{};
  std::uint32_t looked = 0, breaks = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Location l = heap.location_of(copies.item(reverse ? count - 1 - i : i));
    const SizeClass c = heap.class_of(l);
    if (!is_small(heap, c)) continue;
    ++looked;
    if (!lies_behind(before[c], l, heap.classes()[c].slot_granules)) ++breaks;
    before[c] = l;
  }
  if (looked < looked_min || breaks * 4 < looked) return;
  ScatteredRanges& scattered = *context.shared.scattered;
  scattered.ranges.add(copies.item(reverse ? count - 1 : 0)->key(), count);
  scattered.added.notify();
}

RangeArranger::RangeArranger(Context& context) : context_(context) {
  small_.reserve(scan_items_max);
  places_.reserve(scan_items_max);
}

std::optional<std::string_view> RangeArranger::begin(const ScanRange& range, std::uint32_t items) {
  constexpr std::uint32_t empty_attempts_max = 256;
  give_row_back();
  places_.clear();
  next_ = 0;
  no_row_ = false;
  moved_before_ = moved_;
  const std::uint32_t wanted = std::clamp((items + row_slots - 1) / row_slots * row_slots, row_slots, scan_items_max);
  ScanCopies& copies = context_.for_scan();
  ScanStamp stamp;
  ScanResult found;
  for (std::uint32_t attempt = 0; attempt < empty_attempts_max; ++attempt) {
    context_.enter();
    copies.clear();
    found = context_.shared.index.scan(range, wanted, copies, stamp);
    if (found.done || found.count != 0) break;
    context_.epoch.exit();  // so many leaves without an item: as task::scan()
    context_.shared.maintenance.notify();
    yield_processor();
  }
  if (!context_.epoch.active()) return std::nullopt;
  choose(copies);
  if (found.count != 0) {
    const std::string_view last = copies.item(found.count - 1)->key();
    last_bytes_ = static_cast<std::uint8_t>(last.size());
    std::memcpy(last_.data(), last.data(), last.size());
  }
  context_.epoch.exit();
  if (found.done) return std::nullopt;
  return std::string_view(last_.data(), last_bytes_);
}

// Other items may have the places by the time of the move. Then these are moved, which does no harm.
void RangeArranger::choose(const ScanCopies& copies) {
  const Heap& heap = context_.shared.heap;
  small_.clear();
  for (std::uint32_t i = 0; i < copies.count(); ++i) {
    const Location l = heap.location_of(copies.item(i));
    if (const SizeClass c = heap.class_of(l); is_small(heap, c))
      small_.push_back({c, static_cast<std::uint16_t>(i), l});
  }
  std::ranges::sort(small_);
  for (auto at = small_.begin(); at != small_.end();) {
    const auto end = std::find_if(at, small_.end(), [&](const Place& p) { return p.size_class != at->size_class; });
    choose_of_class({at, end});
    at = end;
  }
}

// Those that are in no run. A run that the range's begin or end cuts may be longer than it seems.
void RangeArranger::choose_of_class(std::span<const Place> of) {
  constexpr std::size_t cut_run_min = 4;
  const std::uint32_t granules = context_.shared.heap.classes()[of.front().size_class].slot_granules;
  const std::size_t chosen_before = places_.size();
  for (std::size_t at = 0; at < of.size();) {
    std::size_t end = at + 1;
    while (end < of.size() && lies_behind(of[end - 1].location, of[end].location, granules)) ++end;
    const bool is_cut = at == 0 || end == of.size();
    if (end - at < (is_cut ? cut_run_min : arranged_run_min))
      places_.insert(places_.end(), of.begin() + static_cast<std::ptrdiff_t>(at),
                     of.begin() + static_cast<std::ptrdiff_t>(end));
    at = end;
  }
  if (places_.size() - chosen_before < arranged_run_min) places_.resize(chosen_before);
}

bool RangeArranger::go_on(std::uint64_t ns) noexcept {
  if (row_next_ == row_end_ && !take_row()) return false;
  const auto end = Steady::now() + std::chrono::nanoseconds(ns);
  context_.enter();
  {
    const ItemMoves::Burst burst(context_.shared.moves);
    do {
      move_next();
    } while (row_next_ != row_end_ && Steady::now() < end);
  }
  context_.epoch.exit();
  const Heap::Cache::Lock lock(context_.cache);
  context_.shared.heap.reclaim(context_.cache);
  return row_next_ != row_end_ || next_ != places_.size();
}

// A row for the next items of one class; slots that they do not need are given back.
bool RangeArranger::take_row() noexcept {
  while (next_ != places_.size()) {
    const SizeClass c = places_[next_].size_class;
    std::uint32_t count = 0;
    while (next_ + count < places_.size() && places_[next_ + count].size_class == c) ++count;
    if (!find_row(c)) {
      no_row_ = true;
      next_ += count;
      continue;
    }
    row_next_ = 0;
    row_end_ = std::min(count, row_slots);
    const Heap::Cache::Lock lock(context_.cache);
    for (std::uint32_t i = row_end_; i < row_slots; ++i) context_.shared.heap.release(context_.cache, row_[i]);
    return true;
  }
  return false;
}

bool RangeArranger::find_row(SizeClass c) noexcept {
  const auto allocate = [&](bool may_add_page) {
    const Heap::Cache::Lock lock(context_.cache);
    return context_.shared.heap.allocate_row(context_.cache, c, row_, may_add_page);
  };
  if (allocate(false)) return true;
  if (has_many_free(c) && empty_page(context_, c) && allocate(false)) return true;
  // Where nothing is evicted, the last pages are for what is stored.
  const bool may_add_page = context_.shared.policy.evict || context_.shared.heap.is_roomy();
  return (may_add_page && allocate(true)) || (has_page_free(c) && empty_page(context_, c) && allocate(false));
}

// Then a page of it is emptied rather than another one taken.
bool RangeArranger::has_many_free(SizeClass c) const noexcept {
  constexpr std::uint64_t pages_min = 2, share = 4;
  const Heap& heap = context_.shared.heap;
  const std::uint64_t slots = heap.classes()[c].slots_per_page, free = heap.slots_free(c);
  return free >= pages_min * slots && free * share >= heap.pages_open(c) * slots;
}

// Whether the class has a page's worth of free slots, after evicting if need be.
bool RangeArranger::has_page_free(SizeClass c) noexcept {
  constexpr std::uint64_t evicting_pages_min = 64;
  constexpr int turns_max = 4;  // CLOCK's first may only clear marks
  Shared& shared = context_.shared;
  Heap& heap = shared.heap;
  const std::uint64_t slots = heap.classes()[c].slots_per_page;
  for (int turn = 0;; ++turn) {
    shared.epochs.synchronize();
    {
      const Heap::Cache::Lock lock(context_.cache);
      heap.reclaim_all(context_.cache);
    }
    const std::uint64_t free = heap.slots_free(c);
    if (free >= slots) return true;
    if (turn == turns_max || !shared.policy.evict || heap.pages_open(c) < evicting_pages_min) return false;
    std::uint64_t evicted = 0;
    for (std::uint64_t sweeps = slots / victims_per_sweep_max + 1; sweeps != 0 && evicted < slots - free; --sweeps)
      evicted += evict(context_, c, victims_per_sweep_max, false);
  }
}

void RangeArranger::move_next() noexcept {
  const Shared& shared = context_.shared;
  const Place& from = places_[next_++];
  const Location to = row_[row_next_++];
  // The page may have gone to another class, with slots that begin elsewhere. A scan does not end an item's probation.
  const Probation* const probation = shared.heap.probation();
  if (shared.heap.items_of_page(page_of(from.location)) == from.size_class &&
      (probation == nullptr || !probation->is_on(from.location))) {
    if (!shared.code.move_to(context_, from.location, to)) return;
    ++moved_;
    context_.counters.items_arranged.add();
    return;
  }
  const Heap::Cache::Lock lock(context_.cache);
  context_.shared.heap.release(context_.cache, to);
}

void RangeArranger::give_row_back() noexcept {
  const Heap::Cache::Lock lock(context_.cache);
  while (row_next_ != row_end_) context_.shared.heap.release(context_.cache, row_[row_next_++]);
}

std::uint64_t arrange_all(Context& context) {
  constexpr std::uint64_t ns_at_a_time = 10'000;
  constexpr auto rest_for_scans = std::chrono::microseconds(50);
  RangeArranger arranger(context);
  std::string behind;
  ScanRange range;
  for (;;) {
    const std::optional<std::string_view> last = arranger.begin(range, scan_items_max);
    while (arranger.go_on(ns_at_a_time)) {
      if (context.shared.moves.take_waited()) std::this_thread::sleep_for(rest_for_scans);
    }
    if (!last || arranger.is_out_of_rows()) return arranger.moved();
    behind = *last;
    range = {.begin = behind, .after_begin = true};
  }
}

}  // namespace tandem::task
