// Executes one query, in the epoch that its caller has entered and with the candidate that it has found: a row of the
// lane.
#pragma once
#include "task/key_compare-inl.hpp"
#include "task/memory.hpp"
#include "task/write_operation-inl.hpp"

namespace tandem::task {

// Executes the strip's only query, whose fingerprint and location are in the batch's columns: not a control query.
// state: its strip, time and flush mark, of which a write may see a later one, and whether it only reads; it has no
// slot yet. done: the result is in the batch, and release_slots_of_one() follows when it has been used. Else nothing
// has changed, and the query needs what can be had only outside an epoch. REQUIRES: inside an epoch, and the host has
// the index.
template <IndexKind I>
Settled execute(Context& context, Batch& batch, StripState& state) noexcept {
  const std::uint32_t i = state.strip.begin;
  const Query& q = batch.query(i);
  if (state.plain_reads) {
    key_compare_one<I>(context, batch, state, i);
    return Settled::done;
  }
  if (q.slot_need() != SlotNeed::none) {
    prepare_writes(context, batch, state);
    if (TD_UNLIKELY(state.strip.size() == 0)) return Settled::needs_slot;
  }
  const Settled settled = write_operation<I>(context, batch, state, i);
  if (TD_UNLIKELY(settled != Settled::done)) cut(context, batch, state, i);
  return settled;
}

}  // namespace tandem::task
