// Executes one query, in the epoch that its caller has entered and with the candidate that it has found: of a strip of
// the executor, or a row of the lane.
#pragma once
#include "task/key_compare-inl.hpp"
#include "task/memory.hpp"
#include "task/write_operation-inl.hpp"

namespace tandem::task {

// Insert, Delete or KC of query i, for which MM has prepared what it needs. REQUIRES: as write_operation().
template <IndexKind I>
TD_INLINE Settled settle_one(Context& context, Batch& batch, StripState& state, std::uint32_t i) noexcept {
  if (!batch.query(i).only_reads()) return write_operation<I>(context, batch, state, i);
  key_compare_one<I>(context, batch, state, i);
  return Settled::done;
}

// Executes the strip's only query, whose fingerprint and location are in the batch's columns: not a control query.
// state: its strip, time and flush mark, of which a write may see a later one, and whether it is a plain read; it has
// no slot yet, unless it is prepared. done: the result is in the batch, and release_slots_of_one() follows when it has
// been used. Else nothing has changed, and the query needs what can be had only outside an epoch. REQUIRES: inside an
// epoch, and the host has the index, or the batch has what a device found.
template <IndexKind I>
Settled execute(Context& context, Batch& batch, StripState& state) noexcept {
  const std::uint32_t i = state.strip.begin;
  // A store of its own takes a slot when it needs one.
  if (batch.query(i).slot_need() == SlotNeed::change && TD_LIKELY(!state.is_prepared)) {
    prepare_writes(context, batch, state);
    if (TD_UNLIKELY(state.strip.size() == 0)) return Settled::needs_slot;
  }
  const Settled settled = settle_one<I>(context, batch, state, i);
  if (TD_UNLIKELY(settled != Settled::done)) cut(context, batch, state, i);
  return settled;
}

}  // namespace tandem::task
