// Moves items to other slots of their class: those of a page that changes class, and those that are arranged by key
// order.
#pragma once
#include <cstddef>
#include <span>

#include "base/hash.hpp"
#include "index/index_kind.hpp"
#include "task/context.hpp"
#include "task/operation-inl.hpp"

namespace tandem::task {

inline Location free_slot(Context& context, SizeClass c, std::uint64_t item_bytes) noexcept {
  const Heap::Cache::Lock lock(context.cache);
  return context.shared.heap.allocate_spare(context.cache, c, item_bytes);
}

// Publishes the item at `from` again at `to`, under its key's stripe, with the same version. False: it has been
// removed, has expired, was flushed, or changes.
template <IndexKind I>
bool move_item(Context& context, Location from, Location to) noexcept {
  Shared& shared = context.shared;
  Heap& heap = shared.heap;
  const Item* const item = heap.at(from);
  const Fingerprint f = fingerprint_of(item->key(), shared.hash_seed);
  if (TD_UNLIKELY(!shared.placement.can_change(f))) return false;
  typename I::Guard guard = shared.index_as<I>().lock(f);
  if (guard.find(from) != item) return false;
  const ItemVersion seen = guard.version();
  if (is_over(seen, shared.clock.now_s(), shared.flush_cas.load(std::memory_order_acquire))) return false;
  const std::uint64_t value_bytes = heap.value_bytes(item);
  Item* const copy =
      heap.format(to, item->key(), item->client_flags(), value_bytes, 0, shared.clock.now_s(), item->binary_key());
  copy_value(copy->value(), item, value_bytes);
  copy->set_fixed(word::CasLow::put(copy->fixed(), word::CasLow::get(seen.fixed)));
  return guard.put(to, seen.state) == IndexPut::done;
}

// The same for an item that a look at the heap has found, and retires what it leaves. The slot `to`, of the same class,
// is given back if the item is not moved. REQUIRES: inside an epoch in which `from` was a slot of that class, no Guard
// held.
template <IndexKind I>
bool move_to(Context& context, Location from, Location to) noexcept {
  Shared& shared = context.shared;
  // A look-up by location does not tell which keys must stay out of a device's table.
  const bool may_move =
      Item::state_of(settled_state(shared.heap.at(from))) == ItemState::live && !shared.placement.retires_displaced();
  if (TD_UNLIKELY(!may_move || !move_item<I>(context, from, to))) {
    const Heap::Cache::Lock lock(context.cache);
    shared.heap.release(context.cache, to);
    return false;
  }
  if (from == context.spared) context.spared = to;
  if (TD_UNLIKELY(shared.heap.probation() != nullptr)) shared.heap.probation()->release(to);
  shared.placement.retire(context.cache, {&from, 1});
  return true;
}

// Moves good items to other slots of their class, as long as the class has free ones without a new page. Key, value,
// times, marks and CAS id stay. Removes the moved items from `items`; the remaining ones found no slot, have expired,
// or are being rewritten. Returns the number of moved items. REQUIRES: inside the epoch in which they were found, no
// Guard held, and their page is closed.
template <IndexKind I>
std::size_t rescue(Context& context, std::span<Location>& items) noexcept {
  Shared& shared = context.shared;
  // A look-up by location does not tell which keys must stay out of a device's table, so there the items are evicted.
  if (TD_UNLIKELY(shared.placement.retires_displaced())) return 0;
  std::size_t rescued = 0, left = 0;
  bool has_slots = true;  // a failed attempt scans all epochs and caches, so there is only one
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Location from = items[i];
    items[left] = from;
    const Item* const item = shared.heap.at(from);
    const std::uint64_t state = settled_state(item);
    if (Item::state_of(state) != ItemState::live) continue;  // removed since
    const Location to =
        has_slots ? free_slot(context, shared.heap.class_of(from), shared.heap.total_bytes(item)) : no_location;
    has_slots = to != no_location;
    if (has_slots && move_to<I>(context, from, to)) {
      ++rescued;
    } else {
      ++left;
    }
  }
  items = items.first(left);
  context.counters.slab_reassign_rescues.add(rescued);
  return rescued;
}

}  // namespace tandem::task
