// A run of the lane as one epoch, and what it counts.
#pragma once
#include "lane/state.hpp"
#include "task/memory.hpp"

namespace tandem::lane {

// Asks whether the index should grow, now that so many items have been stored.
TD_NOINLINE void check_growth(State& state) noexcept;
// Adds a run's queries to the counters; rows are counted where they are executed. REQUIRES: its epoch has ended.
TD_INLINE void count_run(State& state, std::uint64_t queries, std::uint64_t rows) noexcept {
  Context& context = state.context;
  context.tasks.batches.add();
  context.tasks.queries_total.add(queries + rows);
  const std::uint64_t gets = queries - state.sets;
  StoreCounters& counters = context.counters;
  counters.cmd_get.add(gets);
  counters.get_hits.add(state.hits);
  counters.get_misses.add(gets - state.hits);
  if (state.sets == 0 && rows == 0) return;
  counters.cmd_set.add(state.sets);
  counters.total_items.add(state.sets);
  if (TD_UNLIKELY(counters.total_items.get() - state.stored_at_check >= task::stores_per_growth_check))
    check_growth(state);
}
// What a run's searches need to know of the index. REQUIRES: inside the epoch.
TD_NOINLINE void look_at_other_index(State& s) noexcept;
TD_INLINE void look_at_index(State& s) noexcept {
  if (TD_UNLIKELY(s.cells_in != CellsIn::table)) return look_at_other_index(s);
  const auto& index = s.context.shared.index_as<CuckooIndex>();
  s.view = index.searched().view;
  s.order = index.order();
}
// Inside the epoch of a run before which devices alone had the index: whether they still have it, and where the run's
// keys come from then. False: nothing can search for them.
TD_NOINLINE bool choose_source(State& s) noexcept;
// Runs `body` in an epoch. Does nothing if devices alone have the index, unless the keys are located. REQUIRES:
// State::is_elsewhere is what the placement says.
template <class Body>
TD_INLINE void run_in_epoch(State& s, Body body) {
  Shared& shared = s.context.shared;
  s.now_s = shared.clock.now_s();
  s.marked = marked_at(s.now_s);
  s.hits = s.sets = 0;
  s.context.enter();
  struct Exit {
    State& state;
    ~Exit() {
      while (TD_UNLIKELY(state.deferred_count != 0))
        execute_deferred(state, state.deferring->sets[--state.deferred_count]);
      if (TD_UNLIKELY(state.context.displaced_count != 0)) state.context.retire_displaced();
      state.context.epoch.exit();
    }
  };
  const Exit exit{s};
  if (TD_UNLIKELY(s.is_elsewhere) && !choose_source(s)) return;
  s.flush_cas = shared.flush_cas.load(std::memory_order_acquire);
  s.care = s.flush_cas != 0 ? care::flushed : 0;
  look_at_index(s);
  body();
}

// The same of a run with sets: whether there are usual ones. Such a set neither reports a new item, as which S3-FIFO
// treats a set in place, nor announces one to devices. It may mark one.
TD_INLINE void look_for_usual_sets(State& s) noexcept {
  const Shared& shared = s.context.shared;
  const bool in_place = task::may_store_in_place(s.context) && shared.heap.probation() == nullptr;
  s.unusual_layout = in_place ? 0 : no_layout;
  if (const Rewrites rewrites = shared.rewrites.load(std::memory_order_relaxed);
      TD_UNLIKELY(rewrites != Rewrites::unseen)) {
    if (rewrites == Rewrites::marked) {
      s.care |= care::dirties;
    } else {
      s.unusual_layout = no_layout;
    }
  }
}

}  // namespace tandem::lane
