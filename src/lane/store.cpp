// Sets of the lane that are not the usual sets in place.
#include <bit>
#include <new>

#include "lane/state.hpp"

namespace tandem::lane {

void prefetch_for_sets(const State& state, const Strip& strip, bool skips) noexcept {
  if (TD_UNLIKELY(state.cells_in == CellsIn::other)) return;
  if ((state.care & care::dirties) != 0) {
    for (std::uint32_t sets = strip.sets & ((1u << strip.count) - 1); sets != 0; sets &= sets - 1)
      state.context.shared.dirty->prefetch(strip.item[static_cast<std::uint32_t>(std::countr_zero(sets))]);
    return;
  }
  with_index(state, [&]<class I>(I& index) {
    if constexpr (AnnouncingGuard<typename I::Guard>) {
      std::uint32_t sets = strip.sets & ((1u << strip.count) - 1);
      if (skips) sets &= ~strip.overwritten;
      sets &= ~strip.located;  // their fingerprints are not known
      for (; sets != 0; sets &= sets - 1)
        index.prefetch_stripe(strip.fingerprint[static_cast<std::uint32_t>(std::countr_zero(sets))]);
    }
  });
}

bool store_slowly(State& state, const Strip& strip, std::uint32_t i, bool shows_id, const std::uint64_t* hint,
                  ItemVersion& stored) noexcept {
  if (TD_UNLIKELY(strip.is_cold(i))) return false;
  Context& context = state.context;
  const Fingerprint f = fingerprint_at(state, strip, i);
  if (TD_UNLIKELY(!context.shared.placement.can_change(f))) return false;
  const task::SetOperation op{.set = strip.set_of(i, shows_id),
                              .f = f,
                              .time = {state.now_s, state.flush_cas},
                              .candidate = strip.candidate(i, context.shared.heap),
                              .hint = hint,
                              .leaf = strip.leaf_of_added(i)};
  return context.shared.code.store_plain(context, op, stored);
}

void count_sets_apart(State& state, const Strip& strip, std::uint32_t sets) noexcept {
  for (; sets != 0; sets &= sets - 1) count_set(state, strip, static_cast<std::uint32_t>(std::countr_zero(sets)));
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
  Shared& shared = context.shared;
  TD_DEBUG_ASSERT(!shared.placement.wants_search());
  const Location candidate = shared.heap.location_of(d.candidate);
  ItemVersion stored;
  if (shared.code.store_plain(context, {d.set, d.f, {state.now_s, state.flush_cas}, candidate}, stored)) return;
  // Evicted, also if a flush takes its mark, or has taken it: another worker may have set the key since.
  for (;;) {
    ItemVersion seen;
    const Item* const item = shared.index.find(d.f, d.set.key, seen, no_location);
    if (item == nullptr) return;
    const Location l = shared.heap.location_of(item);
    if (shared.code.unlink(context, {&l, 1}, Spare::none, false) != 0) return;
  }
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

}  // namespace tandem::lane
