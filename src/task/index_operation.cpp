#include "task/index_operation.hpp"

#include "base/hash.hpp"

namespace tandem::task {
namespace {

// Opcodes with a key, and gets that need nothing but reading.
TD_INLINE bool is_plain_read(const Query& q) noexcept {
  return q.opcode == Opcode::get && !q.has(option::touch | option::vivify | option::recache);
}

}  // namespace

void fingerprint(Context& context, Batch& batch, StripState& state) noexcept {
  Index& index = context.shared.index;
  const std::uint64_t seed = context.shared.hash_seed;
  Fingerprint* const f = batch.fingerprints();
  bool plain = true;
  for (std::uint32_t i = state.strip.begin; i < state.strip.end; ++i) {
    const Query& q = batch.query(i);
    f[i] = fingerprint_of(q.key, q.key_bytes, seed);
    index.prefetch(f + i, 1);
    if (TD_UNLIKELY(!is_plain_read(q))) {
      plain = false;
      if (q.opcode != Opcode::nothing) index.prefetch_stripe(f[i]);
    }
  }
  state.plain_reads = plain;
}

void search(Context& context, Batch& batch, StripState& state) noexcept {
  const Heap& heap = context.shared.heap;
  Location* const location = batch.locations();
  context.shared.index.search(batch.fingerprints() + state.strip.begin, state.strip.size(),
                              location + state.strip.begin);
  for (std::uint32_t i = state.strip.begin; i < state.strip.end; ++i) {
    if (location[i] != no_location) prefetch_read(heap.at(location[i]));
  }
}

}  // namespace tandem::task
