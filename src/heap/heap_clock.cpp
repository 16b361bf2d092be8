// CLOCK (Mega-KV 7.2, there with a bitmap beside the slab; here the bit is in the item's state word).
#include <algorithm>

#include "heap/heap.hpp"

namespace tandem {

// Items with no access until the end of their probation.
std::size_t Heap::end_probation(SizeClass c, std::span<Location> victims, IsGarbage is_garbage,
                                const void* context) noexcept {
  constexpr std::size_t looks_max = 512;
  const std::uint64_t slots = slots_total(c);
  std::size_t found = 0, looks = 0;
  for (; looks < looks_max && found < victims.size(); ++looks) {
    const Location l = probation_->take_oldest(c, slots);
    if (l == no_location) break;
    if (items_of_page(page_of(l)) != c) continue;  // its page has moved to another class
    Item* const item = at(l);
    const std::uint64_t state = item->state_acquire();
    if (Item::state_of(state) != ItemState::live) continue;
    if (TD_UNLIKELY(has_pins()) && is_pinned(page_of(l))) continue;  // its slot would not be reusable: left to CLOCK
    if (word::Accessed::get(state) != 0 && (is_garbage == nullptr || !is_garbage(context, item, state))) {
      item->state_word.fetch_and(~word::Accessed::mask, std::memory_order_relaxed);
      continue;
    }
    victims[found++] = l;
  }
  count_swept(c, looks, slots);
  return found;
}

Heap::Swept Heap::sweep(SizeClass c, std::span<Location> victims, std::size_t slots_max, IsGarbage is_garbage,
                        const void* context) noexcept {
  constexpr std::uint32_t range_slots = 64;     // claimed at once
  constexpr std::uint32_t prefetch_slots = 12;  // prefetch distance: slots are a stride apart, which the hardware
                                                // prefetcher does not follow beyond a 4 KiB page
  ClassPages& pages = pages_[index_of(c)];
  // After a full turn from the first victim the hand would find it again.
  const std::uint64_t turn = pages.pages() * (c == huge_class ? 1 : classes_[c].slots_per_page);
  SlotShape shape{};
  shape.first_granule = large_first_granule;  // of a huge item's page
  if (c != huge_class) shape = classes_[c];

  std::size_t found = 0;
  const Probation* const probation = c == huge_class ? nullptr : probation_.get();
  if (probation != nullptr) found = end_probation(c, victims, is_garbage, context);
  if (found != 0) return {found, found};
  std::size_t looked = 0;
  std::size_t slots_end = slots_max;
  while (found < victims.size() && looked < slots_end) {
    const std::size_t want = std::min<std::size_t>(range_slots, slots_end - looked);
    const ClassPages::Range range = pages.claim(static_cast<std::uint32_t>(want));
    if (range.count == 0) break;
    const std::uint32_t end = range.first + range.count;
    if (TD_UNLIKELY(has_pins()) && is_pinned(range.page)) {
      looked += range.count;  // pinned: its slots are not reusable before the output is sent
      continue;
    }
    for (std::uint32_t i = range.first; i < std::min(range.first + prefetch_slots, end); ++i) {
      prefetch_read(at(shape.location(range.page, i)));
    }
    std::uint32_t slot = range.first;
    for (; slot < end && found < victims.size(); ++slot, ++looked) {
      if (slot + prefetch_slots < end) prefetch_read(at(shape.location(range.page, slot + prefetch_slots)));
      const Location l = shape.location(range.page, slot);
      Item* const item = at(l);
      const std::uint64_t state = item->state_acquire();
      if (Item::state_of(state) != ItemState::live) continue;
      if (probation != nullptr && probation->is_on(l)) continue;
      if (is_garbage == nullptr || !is_garbage(context, item, state)) {
        if (word::Accessed::get(state) != 0) {
          item->state_word.fetch_and(~word::Accessed::mask, std::memory_order_relaxed);
          continue;
        }
      }
      if (found == 0) slots_end = std::min<std::size_t>(slots_end, looked + turn);
      victims[found++] = l;
    }
    if (slot < end) pages.unclaim(range, slot);
  }
  count_swept(c, looked, turn);
  return {found, 0};
}

void Heap::count_swept(SizeClass c, std::uint64_t slots, std::uint64_t of_class) noexcept {
  const std::uint64_t eighth = std::max<std::uint64_t>(of_class / 8, 1);
  const std::uint64_t before = counters_[index_of(c)].swept.fetch_add(slots, std::memory_order_relaxed);
  if (before / eighth != (before + slots) / eighth) eighths_swept_.fetch_add(1, std::memory_order_relaxed);
}

void Heap::count_eviction(SizeClass c, bool expired) noexcept {
  Counters& counters = counters_[index_of(c)];
  (expired ? counters.reclaimed_expired : counters.evictions).fetch_add(1, std::memory_order_relaxed);
}

void Heap::count_out_of_memory(SizeClass c) noexcept {
  counters_[index_of(c)].out_of_memory.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace tandem
