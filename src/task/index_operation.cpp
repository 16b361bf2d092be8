#include "task/index_operation.hpp"

#include "base/hash.hpp"

namespace tandem::task {

void fingerprint(Context& context, Batch& batch, StripState& state) noexcept {
  const Index& index = context.shared.index;
  const Index::Prefetcher prefetch = index.prefetcher();
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

void search(Context& context, Batch& batch, StripState& state) noexcept {
  state.left = context.shared.index.search_first(batch.fingerprints() + state.strip.begin, state.strip.size(),
                                                 batch.locations() + state.strip.begin);
}

void search_rest(Context& context, Batch& batch, const StripState& state) noexcept {
  context.shared.index.search_second(batch.fingerprints() + state.strip.begin, state.left,
                                     batch.locations() + state.strip.begin);
}

void take_found(Context& context, Batch& batch, StripState& state) noexcept {
  const Index& index = context.shared.index;
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
