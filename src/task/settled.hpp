// What came of a query that writes.
#pragma once
#include <cstdint>

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

}  // namespace tandem::task
