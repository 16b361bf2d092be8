// IN, the reading half: fingerprints, prefetches and the search of a strip (DIDO III-A; Mega-KV 4.2 Search). Insert and
// Delete are in write_operation.hpp: they run under a key's stripe, in query order.
#pragma once
#include "base/hash.hpp"
#include "index/index_kind.hpp"
#include "task/context.hpp"
#include "task/strip_state.hpp"

namespace tandem::task {

// Ends the strip before the first control query. Hashes the strip's keys into the fingerprint column, prefetches their
// buckets, and notes whether all are plain reads. Runs before MM, so that the buckets arrive during MM (Mega-KV, too,
// computes signatures before it uses the index, in its receiver threads).
template <IndexKind I>
void fingerprint(Context& context, Batch& batch, StripState& state) noexcept {
  const I& index = context.shared.index_as<I>();
  const auto prefetch = index.prefetcher();
  const std::uint64_t seed = context.shared.hash_seed;
  const Query* const queries = batch.queries();
  Fingerprint* const fingerprints = batch.fingerprints();
  bool plain = true;
  for (std::uint32_t i = state.strip.begin, end = state.strip.end; i < end; ++i) {
    const Query& q = queries[i];
    if (TD_UNLIKELY(q.opcode == Opcode::control)) {
      state.strip.end = i;
      break;
    }
    const Fingerprint f = fingerprint_of(q.key, q.key_bytes, seed);
    fingerprints[i] = f;
    prefetch(f);
    if (TD_UNLIKELY(!q.is_plain_read())) {
      plain = false;
      if (q.opcode != Opcode::nothing) index.prefetch_stripe(f);
    }
  }
  state.plain_reads = plain;
}

// Fills the location column with candidates and prefetches the items they name. search() reads the first buckets and
// prefetches the second ones of queries without a candidate, which search_rest() then reads. REQUIRES: inside an epoch;
// the strip's buckets were prefetched.
template <IndexKind I>
void search(Context& context, Batch& batch, StripState& state) noexcept {
  if constexpr (SearchesByKey<I>) {
    const I& index = context.shared.index_as<I>();
    for (std::uint32_t i = state.strip.begin; i < state.strip.end; ++i)
      state.places[state.at(i)] = index.locate(batch.fingerprints()[i], batch.query(i).key_view());
    state.left = (1u << state.strip.size()) - 1;
    return;
  }
  state.left = context.shared.index_as<I>().search_first(batch.fingerprints() + state.strip.begin, state.strip.size(),
                                                         batch.locations() + state.strip.begin);
}

template <IndexKind I>
void search_rest(Context& context, Batch& batch, const StripState& state) noexcept {
  if constexpr (SearchesByKey<I>) {
    const I& index = context.shared.index_as<I>();
    for (std::uint32_t i = state.strip.begin; i < state.strip.end; ++i)
      batch.locations()[i] = index.candidate_at(state.places[state.at(i)], batch.fingerprints()[i]);
    return;
  }
  context.shared.index_as<I>().search_second(batch.fingerprints() + state.strip.begin, state.left,
                                             batch.locations() + state.strip.begin);
}

// Replaces the three functions above for a batch that a device has searched: ends the strip before the first control
// query, notes whether all are plain reads, and prefetches the items that were found and the stripes for writes.
template <DeviceSearches I>
void take_found(Context& context, Batch& batch, StripState& state) noexcept {
  const I& index = context.shared.index_as<I>();
  const Heap& heap = context.shared.heap;
  const Query* const queries = batch.queries();
  const Fingerprint* const fingerprints = batch.fingerprints();
  const Location* const locations = batch.locations();
  const bool with_images = batch.found.images != nullptr;
  bool plain = true;
  for (std::uint32_t i = state.strip.begin, end = state.strip.end; i < end; ++i) {
    const Query& q = queries[i];
    if (TD_UNLIKELY(q.opcode == Opcode::control)) {
      state.strip.end = i;
      break;
    }
    if (with_images && batch.found.images[i] != 0) {
      prefetch_read(batch.image(i));
      index.prefetch_stripe_to_read(fingerprints[i]);
    } else {
      prefetch_read(heap.at(locations[i]));
    }
    if (TD_UNLIKELY(!q.is_plain_read())) {
      plain = false;
      if (q.opcode != Opcode::nothing) index.prefetch_guard(fingerprints[i]);
    }
  }
  state.plain_reads = plain;
  state.left = 0;
}

}  // namespace tandem::task
