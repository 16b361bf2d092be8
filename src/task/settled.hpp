// Outcome of a query that writes, and what settles one.
#pragma once
#include <cstdint>

#include "base/platform.hpp"
#include "plan/task.hpp"
#include "query/query.hpp"

namespace tandem::task {

// done: the query has its result. The rest change nothing: the query needs something that is only available outside an
// epoch.
enum class Settled : std::uint8_t {
  done,
  needs_slot,  // a slot, or a larger one than MM prepared, because the key's item has changed
  needs_room,  // a cell in the index: there is no displacement path
  flushed,     // within write_operation() only: a flush after the old item was judged, before the new one's CAS id
  changed,     // likewise: the old item was rewritten in place since it was judged
};

// The task that settles the query: writes compare the key themselves, under its stripe.
TD_INLINE Task settled_by(const Query& q) noexcept {
  if (q.only_reads() || q.opcode == Opcode::nothing) return Task::key_compare;
  return q.opcode == Opcode::remove ? Task::remove : Task::insert;
}

}  // namespace tandem::task
