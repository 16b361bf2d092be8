// IN, the reading half: fingerprints, prefetches and the search of a strip (DIDO III-A; Mega-KV 4.2 Search). Insert and
// Delete are in write_operation.hpp: they run under a key's stripe, in query order.
#pragma once
#include "task/context.hpp"
#include "task/strip_state.hpp"

namespace tandem::task {

// Ends the strip before the first control query. Hashes the strip's keys into the fingerprint column, prefetches their
// buckets, and notes whether all are plain reads. (Mega-KV computes signatures in its receiver threads, before the
// index is asked: so do we, so that the buckets are on their way during MM.)
void fingerprint(Context& context, Batch& batch, StripState& state) noexcept;

// Fills the location column with candidates and prefetches the items they name; search_rest() does it for the queries
// that found nothing in their first buckets, whose second ones search() prefetches. REQUIRES: inside an epoch; the
// strip's buckets were prefetched.
void search(Context& context, Batch& batch, StripState& state) noexcept;
void search_rest(Context& context, Batch& batch, const StripState& state) noexcept;

// In place of the three for a batch that a device has searched: ends the strip before the first control query, notes
// whether all are plain reads, and prefetches the items that were found and what writes will need.
void take_found(Context& context, Batch& batch, StripState& state) noexcept;

}  // namespace tandem::task
