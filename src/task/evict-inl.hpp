// The part of an eviction that is compiled for each kind of index: victims leave it.
#pragma once
#include "base/hash.hpp"
#include "index/index_kind.hpp"
#include "task/context.hpp"
#include "task/store_in_place.hpp"

namespace tandem::task {

// Counts an unlinked item and reports it to the observer. state: at unlinking. garbage: expired or flushed.
inline void count_eviction(Context& context, Location l, std::uint64_t state, bool garbage) noexcept {
  Heap& heap = context.shared.heap;
  heap.count_eviction(heap.class_of(l), garbage);
  (garbage ? context.counters.reclaimed : context.counters.evictions).add();
  if (!garbage && word::Accessed::get(state) != 0) context.counters.evicted_active.add();
  if (word::Fetched::get(state) == 0)
    (garbage ? context.counters.expired_unfetched : context.counters.evicted_unfetched).add();
}

// Evicts the least recently used item of the guard's full set, as an eviction for memory does. The caller retires it.
// nullptr: the policy keeps it. REQUIRES: the guard has found nothing.
template <IndexGuard G>
TD_NOINLINE const Item* evict_from_set(Context& context, G& guard, const StripTime& time) noexcept {
  constexpr int tries_max = 16;  // a victim that is rewritten just now is in use
  for (int i = 0; i < tries_max; ++i) {
    const Item* const victim = guard.find_victim();
    if (victim == nullptr) return nullptr;
    const ItemVersion seen = guard.version();
    const bool garbage = is_over(seen, time.now_s, time.flush_cas);
    if (!garbage && !context.shared.policy.evict) return nullptr;
    if (TD_UNLIKELY(!guard.erase())) continue;
    const Location l = context.shared.heap.location_of(victim);
    if (TD_UNLIKELY(context.observer != nullptr) && !garbage) context.observer->evicted(l, victim, seen.state);
    count_eviction(context, l, seen.state, garbage);
    return victim;
  }
  return nullptr;
}

// Unlinks and retires the victims that are still live and that `spare` does not exempt. probation_failed: also records
// their keys as evicted from probation. Returns their number. REQUIRES: inside the epoch in which they were found; at
// most victims_per_sweep_max.
template <IndexKind I>
std::size_t unlink(Context& context, std::span<const Location> victims, Spare spare, bool probation_failed) noexcept {
  Shared& shared = context.shared;
  I& index = shared.index_as<I>();
  Fingerprint f[victims_per_sweep_max];
  Location unlinked[victims_per_sweep_max];
  std::size_t count = 0;
  const auto prefetch = index.prefetcher();
  for (std::size_t i = 0; i < victims.size(); ++i) {
    const Item* const item = shared.heap.at(victims[i]);
    if (Item::state_of(settled_state(item)) != ItemState::live) {
      f[i] = {0, 0};
      continue;
    }
    f[i] = fingerprint_of(item->key(), shared.hash_seed);
    prefetch(f[i]);
    index.prefetch_stripe(f[i]);
  }
  const std::uint32_t now_s = shared.clock.now_s();
  const std::uint64_t flush_cas = shared.flush_cas.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < victims.size(); ++i) {
    if (f[i].signature == 0) continue;
    if (TD_UNLIKELY(!shared.placement.can_change(f[i]))) break;  // the device has not caught up
    typename I::Guard guard = index.lock(f[i]);
    const Item* const item = guard.find(victims[i]);
    if (item == nullptr) continue;
    const std::uint64_t state = guard.version().state;
    const bool garbage = is_over(guard.version(), now_s, flush_cas);
    const bool spared = spare == Spare::good || (spare == Spare::used && word::Accessed::get(state) != 0);
    if (!garbage && (spared || victims[i] == context.spared)) continue;
    if (TD_UNLIKELY(!guard.erase())) continue;  // rewritten since, so it is in use
    unlinked[count++] = victims[i];
    if (probation_failed && !garbage) shared.heap.probation()->remember(f[i]);
    if (TD_UNLIKELY(context.observer != nullptr) && !garbage) context.observer->evicted(victims[i], item, state);
    count_eviction(context, victims[i], state, garbage);
  }
  shared.placement.retire(context.cache, {unlinked, count});
  return count;
}

}  // namespace tandem::task
