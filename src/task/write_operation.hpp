// IN (Insert, Delete) and KC of the queries that write: each runs under its key's stripe, in query order (write
// protocol, rules 1-4).
#pragma once
#include "task/context.hpp"
#include "task/strip_state.hpp"

namespace tandem::task {

// done: the query has its result. The others leave everything as it was, and the strip has to be cut before the query,
// since what it needs can only be had outside an epoch.
enum class Settled : std::uint8_t {
  done,
  needs_slot,  // a slot, or a larger one than MM prepared: its key's item changed meanwhile
  needs_room,  // a cell in the index: there is no displacement path
  flushed,     // within write_operation() alone: a flush came between the look at the old item and the new one's CAS id
  changed,     // likewise: the old item was rewritten in place since it was looked at
};

// Settles query i: anything but control and plain reads. REQUIRES: inside an epoch; all earlier queries of the batch
// are settled.
Settled write_operation(Context& context, Batch& batch, StripState& state, std::uint32_t i) noexcept;

// A meta get hit a stale item whose recache token nobody has: takes it (outcome won) unless another client was faster.
void win_stale(Context& context, Batch& batch, std::uint32_t i) noexcept;

// Removes the key's item if it is expired or flushed. seen: where it was a moment ago.
void remove_garbage(Context& context, Fingerprint f, std::string_view key, Location seen) noexcept;

}  // namespace tandem::task
