// Executes one query, in the epoch that its caller has entered and with the candidate that it has found.
#pragma once
#include "task/key_compare-inl.hpp"
#include "task/memory.hpp"
#include "task/write_operation-inl.hpp"

namespace tandem::task {

// Executes a query, whose fingerprint and location are in the batch's columns: not a control query. state: its number,
// time and flush mark, of which a write may see a later one, and whether it is a plain read; it has no slot yet, unless
// it is prepared. done: the result is in the batch, and release_slots() follows when it has been used. Else nothing has
// changed, and the query needs what can be had only outside an epoch. REQUIRES: inside an epoch, and the host has the
// index, or the batch has what a device found.
template <IndexKind I>
Settled execute(Context& context, Batch& batch, QueryState& state) noexcept {
  const Query& q = batch.query(state.query);
  if (q.only_reads()) {
    key_compare<I>(context, batch, state);
    return Settled::done;
  }
  // A store of its own takes a slot when it needs one.
  if (q.slot_need() == SlotNeed::change && TD_LIKELY(!state.is_prepared) &&
      TD_UNLIKELY(!prepare_write(context, batch, state)))
    return Settled::needs_slot;
  const Settled settled = write_operation<I>(context, batch, state);
  if (TD_UNLIKELY(settled != Settled::done)) release_unused(context, batch, state);
  return settled;
}

}  // namespace tandem::task
