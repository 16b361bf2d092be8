// Sets of the lane that are not the usual sets in place.
#include <bit>
#include <cstring>
#include <new>

#include "lane/state.hpp"
#include "task/evict-inl.hpp"
#include "task/memory.hpp"
#include "task/publish-inl.hpp"

namespace tandem::lane {
namespace {

using task::Settled;

// A hint is for the guards of a table.
Item* find(CuckooIndex::Guard& guard, std::string_view key, Location candidate, const std::uint64_t* hint) noexcept {
  return guard.find(key, candidate, hint);
}
template <IndexGuard G>
Item* find(G& guard, std::string_view key, Location candidate, const std::uint64_t*) noexcept {
  return guard.find(key, candidate);
}

// The set in place with any key length, client flags, and expiry of the old item; under the key's stripe where devices
// have copies of items.
TD_INLINE bool store_in_place(State& state, Fingerprint f, const task::PlainSet& set, Location candidate,
                              const std::uint64_t* hint, ItemVersion& stored) noexcept {
  Context& context = state.context;
  if (candidate == no_location) return false;
  Item* const item = context.shared.heap.at(candidate);
  // An item's lengths never change, so most sets that go beside need no closer look.
  if (item->small_value_bytes() != set.value.size() || set.value.size() > rewritten_value_bytes_max ||
      !task::may_store_in_place(context))
    return false;
  const task::StripTime time{state.now_s, state.flush_cas};
  if (TD_LIKELY(!announces(state))) return task::try_store_in_place(context, item, set, time, stored);
  if (TD_UNLIKELY(!context.shared.placement.can_change(f))) return false;
  return with_index(state, [&]<class I>(I& index) {
    if constexpr (AnnouncingGuard<typename I::Guard>) {
      typename I::Guard guard = index.lock(f);
      return find(guard, set.key, candidate, hint) == item &&
             task::try_store_announced(context, guard, item, set, time, stored);
    } else {
      return false;
    }
  });
}

// A slot that holds the set's new item; no_location: none is at hand. Also retires the last set's displaced item, so
// that a set takes the cache's lock once.
TD_INLINE Location fill_slot(State& state, const task::PlainSet& set) noexcept {
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
  char* const value =
      heap.format_slot(slot, set.key, set.client_flags, set.value.size(), set.expiry_s, state.now_s, set.binary_key);
  constexpr std::size_t inline_bytes_max = 64;  // a call of memcpy costs more
  if (TD_LIKELY(set.value.size() <= inline_bytes_max)) {
    racing_copy(value, set.value.data(), set.value.size());
  } else {
    std::memcpy(value, set.value.data(), set.value.size());
  }
  return slot;
}

// A set whose new item is complete in `slot`, and what comes of it.
struct Beside {
  Fingerprint f;
  const task::PlainSet& set;
  const std::uint64_t* hint;
  Leaf* leaf;  // of a new key: as HashTree::hold() wants it
  Location slot;
  bool is_new_key = false;
  ItemVersion stored{};
};

// Publishes the new item in place of the old one, as task::store() does.
template <IndexKind I>
TD_INLINE Settled store_beside(State& state, I& index, Beside& beside) noexcept {
  const task::PlainSet& set = beside.set;
  Context& context = state.context;
  const task::StripTime time{state.now_s, state.flush_cas};
  const auto displace = [&](const Item* item) {
    if (context.shared.placement.retires_displaced()) return;
    if (TD_UNLIKELY(state.displaced != no_location)) retire_displaced(state);
    state.displaced = context.shared.heap.location_of(item);
  };
  for (;;) {
    Settled settled = Settled::needs_room;
    {
      typename I::Guard guard = index.lock(beside.f);
      Item* const old = find(guard, set.key, no_location, beside.hint);
      if constexpr (CanBeOrdered<I>) guard.expect_in(beside.leaf);
      if constexpr (EvictsFromSet<I>) {
        if (TD_UNLIKELY(old == nullptr && !guard.has_room())) {
          const Item* const victim = task::evict_from_set(context, guard, time);
          if (victim == nullptr) return settled;
          displace(victim);
        }
      }
      const bool is_good = old != nullptr && !is_over(guard.version(), time.now_s, time.flush_cas);
      const std::uint64_t keep = is_good ? guard.version().state & word::Accessed::mask : 0;
      settled =
          task::publish_slot(context, guard, {beside.slot, set.expiry_s, keep}, old != nullptr, time, beside.stored);
      if (TD_LIKELY(settled == Settled::done)) {
        beside.is_new_key = !is_good;
        if (old != nullptr) displace(old);
        return settled;
      }
    }
    if (settled == Settled::changed) continue;
    // A full leaf is divided. Elsewhere, and where a leaf has to be paid for, the general path looks for room.
    const bool is_free = index.is_ordered() && !context.shared.growth_refused.load(std::memory_order_relaxed);
    if (settled != Settled::needs_room || !is_free || !index.make_room(beside.f, set.key)) return settled;
    beside.leaf = nullptr;
  }
}

// Executes the set by an item beside the old one. needs_room: no slot, or no cell, is at hand.
TD_INLINE Settled store_aside(State& state, Beside& beside) noexcept {
  Heap& heap = state.context.shared.heap;
  beside.slot = fill_slot(state, beside.set);
  if (TD_UNLIKELY(beside.slot == no_location)) return Settled::needs_room;
  const Settled settled = with_index(state, [&](auto& index) { return store_beside(state, index, beside); });
  if (TD_UNLIKELY(settled != Settled::done)) {
    const Heap::Cache::Lock lock(state.context.cache);
    heap.release(state.context.cache, beside.slot);
    return settled;
  }
  if (TD_UNLIKELY(heap.probation() != nullptr)) task::admit(heap, {beside.f, beside.slot, beside.is_new_key});
  return settled;
}

}  // namespace

void prefetch_stripes(const State& state, const Strip& strip, bool skips) noexcept {
  with_index(state, [&]<class I>(I& index) {
    if constexpr (AnnouncingGuard<typename I::Guard>) {
      std::uint32_t sets = strip.sets & ((1u << strip.count) - 1);
      if (skips) sets &= ~strip.overwritten;
      for (; sets != 0; sets &= sets - 1)
        index.prefetch_stripe(strip.fingerprint[static_cast<std::uint32_t>(std::countr_zero(sets))]);
    }
  });
}

bool store_slowly(State& state, const Strip& strip, std::uint32_t i, bool shows_id, const std::uint64_t* hint,
                  ItemVersion& stored) noexcept {
  Context& context = state.context;
  Heap& heap = context.shared.heap;
  const task::PlainSet set = strip.set_of(i, shows_id);
  const Fingerprint f = strip.fingerprint[i];
  const Location candidate = strip.candidate(i, heap);
  if (store_in_place(state, f, set, candidate, hint, stored)) {
    if (TD_UNLIKELY(heap.probation() != nullptr)) task::admit(heap, {f, candidate, false});
    return true;
  }
  if (TD_UNLIKELY(!context.shared.placement.can_change(f))) return false;
  Beside beside{f, set, hint, strip.leaf_of_added(i), no_location};
  if (TD_UNLIKELY(store_aside(state, beside) != Settled::done)) return false;
  stored = beside.stored;
  return true;
}

void count_sets_apart(State& state, const Strip& strip, std::uint32_t sets) noexcept {
  Context& context = state.context;
  for (; sets != 0; sets &= sets - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(sets));
    const SetPart& set = strip.set[i];
    const std::uint64_t bytes = Item::total_bytes(set.client_flags, info::key_bytes(strip.info[i]), set.value_bytes);
    context.classes[context.shared.heap.size_class(bytes)].cmd_set.add();
  }
}

Deferred take_deferred(State& state, const Strip& strip, std::uint32_t i) noexcept {
  const std::uint8_t place = strip.deferred[i];
  const Deferred taken = state.deferring->sets[place];
  TD_DEBUG_ASSERT(taken.strip == &strip && taken.query == i);
  taken.strip->overwrites &= ~(1u << i);
  const Deferred& last = state.deferring->sets[--state.deferred_count];
  last.strip->deferred[last.query] = place;
  state.deferring->sets[place] = last;
  return taken;
}

void execute_deferred(State& state, const Deferred& d) noexcept {
  Context& context = state.context;
  Heap& heap = context.shared.heap;
  TD_DEBUG_ASSERT(!context.shared.placement.wants_search());
  ItemVersion stored;
  if (store_in_place(state, d.f, d.set, heap.location_of(d.candidate), nullptr, stored)) return;
  Beside beside{d.f, d.set, nullptr, nullptr, no_location};
  if (store_aside(state, beside) == Settled::done) return;
  // Also if a flush takes its mark, or has taken it: others may have set the key since.
  with_index(state, [&]<class I>(I& index) {
    typename I::Guard guard = index.lock(d.f);
    for (;;) {
      const Item* const item = find(guard, d.set.key, no_location, nullptr);
      if (item == nullptr) return;
      const ItemVersion last = guard.version();
      if (!guard.erase()) continue;
      if (TD_UNLIKELY(state.displaced != no_location)) retire_displaced(state);
      state.displaced = heap.location_of(item);
      return task::count_eviction(context, state.displaced, last.state, is_over(last, state.now_s, state.flush_cas));
    }
  });
}

bool may_defer(State& state) noexcept {
  constexpr std::uint64_t sets_judged = 256, overwritten_one_in = 64;
  if (state.always_defers) return state.context.shared.policy.evict;
  const StoreCounters& counters = state.context.counters;
  const std::uint64_t sets = counters.cmd_set.get(), overwritten = counters.set_overwritten.get();
  if (sets - state.sets_before < sets_judged) return state.defers;
  state.defers = state.context.shared.policy.evict &&
                 (overwritten - state.overwritten_before) * overwritten_one_in >= sets - state.sets_before;
  state.sets_before = sets;
  state.overwritten_before = overwritten;
  return state.defers;
}

void set_ring(State& state) noexcept {
  if (TD_UNLIKELY(state.defers && state.deferring == nullptr)) {
    state.deferring.reset(new (std::nothrow) Deferring);
    state.defers = state.deferring != nullptr;
  }
  // A short run would only wait for its end.
  const bool is_long = state.defers && state.last_queries >= Deferring::ring_strips * strip_queries;
  state.ring_begin = state.defers ? state.deferring->ring.data() : state.ring.data();
  state.ring_mask = (is_long ? Deferring::ring_strips : State::ring_strips) - 1;
  state.delay = is_long ? Deferring::delay : 0;
}

void retire_displaced(State& state) noexcept {
  const Heap::Cache::Lock lock(state.context.cache);
  state.retired_bytes += state.context.shared.heap.retire(state.context.cache, state.displaced);
  state.displaced = no_location;
}

}  // namespace tandem::lane
