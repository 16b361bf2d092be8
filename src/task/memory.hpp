// MM: slots for what the strip's queries will write (Mega-KV 7.2: batched allocation). What frees them: evict.hpp,
// page_move.hpp.
#pragma once
#include "task/context.hpp"
#include "task/strip_state.hpp"

namespace tandem::task {

// Prepares a slot, filled with key and value, for every query of the strip that will write an item; cuts the strip at
// the first one that needs a slot when none can be had at once, so that what stands before it can end its epoch. Inside
// an epoch it takes only what is free; outside it evicts, and the strip's first query is never cut: it gets its slot or
// a reason in state.refused. REQUIRES: fingerprint() was called.
void prepare_writes(Context& context, Batch& batch, StripState& state) noexcept;
TD_INLINE void memory(Context& context, Batch& batch, StripState& state) noexcept {
  state.displaced_count = state.published_count = 0;
  if (TD_UNLIKELY(!state.plain_reads)) prepare_writes(context, batch, state);
}

// A slot for an item of so many bytes, evicting as the policy allows. no_location: nothing can be freed. REQUIRES: no
// epoch, cache not locked. `wait`: also waits for other workers' epochs; without it the call returns quickly.
Location allocate(Context& context, std::uint64_t item_bytes, bool wait) noexcept;

// Shortens the strip to end before query `end`, giving back the slots prepared for the rest.
void cut(Context& context, Batch& batch, StripState& state, std::uint32_t end) noexcept;

// After the strip's last query is settled: retires what its writes displaced and gives back the slots they did not use.
// Returns the bytes of the slots that were retired.
std::uint64_t settle_writes(Context& context, StripState& state) noexcept;
TD_INLINE std::uint64_t settle_memory(Context& context, StripState& state) noexcept {
  return TD_LIKELY(state.plain_reads) ? 0 : settle_writes(context, state);
}

}  // namespace tandem::task
