// Sets of the lane that are not the usual ones in place.
#include <cstring>

#include "lane/state.hpp"
#include "task/memory.hpp"
#include "task/publish-inl.hpp"

namespace tandem::lane {
namespace {

using task::Settled;

// In place, whatever the old item's expiry and client flags, the key's length.
bool store_in_place(State& state, const task::PlainSet& set, Location candidate, ItemVersion& stored) noexcept {
  Context& context = state.context;
  return candidate != no_location && set.value.size() <= rewritten_value_bytes_max &&
         task::may_store_in_place(context) &&
         task::try_store_in_place(context, context.shared.heap.at(candidate), set, {state.now_s, state.flush_cas},
                                  stored);
}

// A slot with the set's item in it, if one is at hand. Gives back what the last set replaced on the way, for one lock
// of the cache.
Location fill_slot(State& state, const task::PlainSet& set) noexcept {
  Context& context = state.context;
  Heap& heap = context.shared.heap;
  const std::uint64_t bytes = Item::total_bytes(set.client_flags, set.key.size(), set.value.size());
  const SizeClass c = heap.size_class(bytes);
  if (c == huge_class || bytes > context.shared.policy.item_bytes_max) return no_location;
  Location slot = no_location;
  {
    const Heap::Cache::Lock lock(context.cache);
    if (state.displaced != no_location) {
      state.retired_bytes += heap.retire(context.cache, state.displaced);
      state.displaced = no_location;
    }
    slot = heap.allocate(context.cache, c, bytes);
  }
  if (TD_UNLIKELY(slot == no_location)) return no_location;
  Item* const item =
      heap.format(slot, set.key, set.client_flags, set.value.size(), set.expiry_s, state.now_s, set.binary_key);
  std::memcpy(item->value(), set.value.data(), set.value.size());
  return slot;
}

// A new item beside the old one, as task::store() does it.
Settled store_beside(State& state, Fingerprint f, const task::PlainSet& set, const std::uint64_t* hint,
                     bool& is_new_key, ItemVersion& stored, Location slot) noexcept {
  Context& context = state.context;
  const task::StripTime time{state.now_s, state.flush_cas};
  for (;;) {
    CuckooIndex::Guard guard = state.index->lock(f);
    Item* const old = guard.find(set.key, no_location, hint);
    const bool is_good = old != nullptr && !is_over(guard.version(), time.now_s, time.flush_cas);
    const std::uint64_t keep = is_good ? guard.version().state & word::Accessed::mask : 0;
    const Settled settled =
        task::publish_slot(context, guard, {slot, set.expiry_s, keep}, old != nullptr, time, stored);
    if (TD_UNLIKELY(settled == Settled::changed)) continue;
    if (TD_LIKELY(settled == Settled::done)) {
      is_new_key = !is_good;
      if (old != nullptr && !context.shared.placement.retires_displaced())
        state.displaced = context.shared.heap.location_of(old);
    }
    return settled;
  }
}

}  // namespace

bool store_slowly(State& state, const Strip& strip, std::uint32_t i, const std::uint64_t* hint,
                  ItemVersion& stored) noexcept {
  Context& context = state.context;
  Heap& heap = context.shared.heap;
  const task::PlainSet set = strip.set_of(i);
  const Fingerprint f = strip.fingerprint[i];
  const Location candidate = strip.candidate(i, heap);
  if (store_in_place(state, set, candidate, stored)) {
    if (TD_UNLIKELY(heap.probation() != nullptr)) task::admit(heap, {f, candidate, false});
    return true;
  }
  if (TD_UNLIKELY(!context.shared.placement.can_change(f))) return false;
  const Location slot = fill_slot(state, set);
  if (TD_UNLIKELY(slot == no_location)) return false;
  bool is_new_key = false;
  if (TD_UNLIKELY(store_beside(state, f, set, hint, is_new_key, stored, slot) != Settled::done)) {
    const Heap::Cache::Lock lock(context.cache);
    heap.release(context.cache, slot);
    return false;
  }
  if (TD_UNLIKELY(heap.probation() != nullptr)) task::admit(heap, {f, slot, is_new_key});
  return true;
}

void retire_displaced(State& state) noexcept {
  const Heap::Cache::Lock lock(state.context.cache);
  state.retired_bytes += state.context.shared.heap.retire(state.context.cache, state.displaced);
  state.displaced = no_location;
}

}  // namespace tandem::lane
