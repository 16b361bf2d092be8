#include "task/evict.hpp"

#include <algorithm>

#include "base/hash.hpp"
#include "base/yield.hpp"

namespace tandem::task {
namespace {

struct GarbageRule {
  std::uint32_t now_s;
  std::uint64_t flush_cas;
};
bool is_garbage(const void* rule, const Item* item, std::uint64_t state) {
  const auto& r = *static_cast<const GarbageRule*>(rule);
  return is_expired(state, r.now_s) || is_flushed(item, state, r.flush_cas);
}

// Evicts one item from the buckets of `f`: room for an insertion in an index that cannot grow. REQUIRES: inside an
// epoch, no Guard held.
bool evict_candidate(Context& context, Fingerprint f) noexcept {
  Shared& shared = context.shared;
  Location candidates[16];
  const std::uint32_t count = shared.index.candidates(f, candidates);
  // An item that nobody reads first, then any.
  for (const bool any : {false, true}) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const Item* const item = shared.heap.at(candidates[i]);
      const std::uint64_t state = item->state_acquire();
      if (Item::state_of(state) != ItemState::live || (!any && word::Accessed::get(state) != 0)) continue;
      const Fingerprint victim = fingerprint_of(item->key(), shared.hash_seed);
      {
        Index::Guard guard = shared.index.lock(victim);
        if (guard.find(candidates[i]) == nullptr) continue;
        guard.erase();
      }
      const GarbageRule rule{shared.clock.now_s(), shared.flush_cas.load(std::memory_order_acquire)};
      const bool garbage = is_garbage(&rule, item, state);
      if (TD_UNLIKELY(context.observer != nullptr) && !garbage) context.observer->evicted(candidates[i], item, state);
      shared.heap.count_eviction(shared.heap.class_of(candidates[i]), garbage);
      (garbage ? context.counters.reclaimed : context.counters.evictions).add();
      const Heap::Cache::Lock lock(context.cache);
      shared.heap.retire(context.cache, candidates[i]);
      return true;
    }
  }
  return false;
}

// The devices' tables are full, or behind: some item goes, whichever.
void make_room_on_device(Context& context) noexcept {
  Shared& shared = context.shared;
  shared.index.settle_changes(context.cache, Overlay::Settle::all);
  if (!shared.index.is_device_full() || !shared.policy.evict) return;
  for (std::uint32_t c = 0; c < shared.heap.class_count(); ++c) {
    if (evict(context, static_cast<SizeClass>(c), victims_per_sweep_max, false) != 0) return;
  }
  evict(context, huge_class, 1, false);
}

}  // namespace

std::size_t unlink(Context& context, std::span<const Location> victims, Mercy mercy, bool probation_failed) noexcept {
  Shared& shared = context.shared;
  Fingerprint f[victims_per_sweep_max];
  Location unlinked[victims_per_sweep_max];
  std::size_t count = 0;
  const Index::Prefetcher prefetch = shared.index.prefetcher();
  for (std::size_t i = 0; i < victims.size(); ++i) {
    const Item* const item = shared.heap.at(victims[i]);
    if (Item::state_of(item->state_acquire()) != ItemState::live) {
      f[i] = {0, 0};
      continue;
    }
    f[i] = fingerprint_of(item->key(), shared.hash_seed);
    prefetch(f[i]);
    shared.index.prefetch_stripe(f[i]);
  }
  const GarbageRule rule{shared.clock.now_s(), shared.flush_cas.load(std::memory_order_acquire)};
  for (std::size_t i = 0; i < victims.size(); ++i) {
    if (f[i].signature == 0) continue;
    if (TD_UNLIKELY(!shared.index.takes_changes(f[i]))) break;  // the device is behind
    Index::Guard guard = shared.index.lock(f[i]);
    const Item* const item = guard.find(victims[i]);
    if (item == nullptr) continue;
    const std::uint64_t state = item->state_acquire();
    const bool garbage = is_garbage(&rule, item, state);
    const bool spared = mercy == Mercy::spare_good || (mercy == Mercy::spare_used && word::Accessed::get(state) != 0);
    if (!garbage && spared) continue;
    guard.erase();
    unlinked[count++] = victims[i];
    if (probation_failed && !garbage) shared.heap.probation()->remember(f[i]);
    if (TD_UNLIKELY(context.observer != nullptr) && !garbage) context.observer->evicted(victims[i], item, state);
    shared.heap.count_eviction(shared.heap.class_of(victims[i]), garbage);
    (garbage ? context.counters.reclaimed : context.counters.evictions).add();
    if (word::Fetched::get(state) == 0)
      (garbage ? context.counters.expired_unfetched : context.counters.evicted_unfetched).add();
  }
  if (shared.index.on_device()) return count;  // it retires them
  const Heap::Cache::Lock lock(context.cache);
  for (std::size_t i = 0; i < count; ++i) shared.heap.retire(context.cache, unlinked[i]);
  return count;
}

std::size_t evict(Context& context, SizeClass c, std::size_t victims_max, bool garbage_only) noexcept {
  const GarbageRule rule{context.shared.clock.now_s(), context.shared.flush_cas.load(std::memory_order_acquire)};
  Location victims[victims_per_sweep_max];
  const std::span<Location> wanted(victims, std::min(victims_max, victims_per_sweep_max));
  context.enter();
  const Heap::Swept swept = context.shared.heap.sweep(c, wanted, slots_per_sweep, is_garbage, &rule);
  const Mercy mercy = garbage_only ? Mercy::spare_good : Mercy::spare_used;
  const std::size_t evicted =
      swept.found == 0 ? 0 : unlink(context, wanted.first(swept.found), mercy, swept.from_probation != 0);
  context.epoch.exit();
  return evicted;
}

Reclaimed reclaim_garbage(Context& context, PageId page, std::uint32_t first_slot, std::uint32_t slots_max) noexcept {
  Shared& shared = context.shared;
  const GarbageRule rule{shared.clock.now_s(), shared.flush_cas.load(std::memory_order_acquire)};
  Location victims[victims_per_sweep_max];
  std::size_t count = 0;
  Reclaimed result{};
  const auto give_back = [&] {
    result.reclaimed += static_cast<std::uint32_t>(unlink(context, {victims, count}, Mercy::spare_good));
    count = 0;
  };
  context.enter();
  result.next_slot = shared.heap.visit_slots(page, first_slot, slots_max, [&](Location l, const Item* item) {
    ++result.checked;
    if (TD_LIKELY(!is_garbage(&rule, item, item->state_acquire()))) return;
    victims[count++] = l;
    if (count == victims_per_sweep_max) give_back();
  });
  if (count != 0) give_back();
  context.epoch.exit();
  const Heap::Cache::Lock lock(context.cache);
  shared.heap.reclaim(context.cache);
  return result;
}

std::size_t reclaim(Context& context) noexcept {
  context.shared.index.settle_changes(context.cache, Overlay::Settle::all);
  const Heap::Cache::Lock lock(context.cache);
  return context.shared.heap.reclaim_all(context.cache);
}

bool make_index_room(Context& context, Fingerprint f) noexcept {
  Shared& shared = context.shared;
  context.let_go();
  const auto start = std::chrono::steady_clock::now();
  do {
    context.enter();
    const bool on_device = shared.index.on_device();
    const bool room = on_device ? shared.index.takes_changes(f) && !shared.index.is_device_full()
                                : shared.index.make_room(f) || (shared.growth_refused.load(std::memory_order_relaxed) &&
                                                                evict_candidate(context, f));
    context.epoch.exit();
    if (!room && on_device) make_room_on_device(context);
    if (room) return true;
    shared.maintenance.notify();
    yield_processor();
  } while (std::chrono::steady_clock::now() - start < epoch_wait_max);
  return false;
}

}  // namespace tandem::task
