// KC compares the candidate's key with the query's, checks that the item is good, and completes plain reads (DIDO
// III-A; Mega-KV 7.3 `get`).
#pragma once
#include "base/bytes_equal.hpp"
#include "index/index_kind.hpp"
#include "placement/mirrored/replica_log.hpp"
#include "task/context.hpp"
#include "task/key_compare.hpp"
#include "task/query_state.hpp"

namespace tandem::task {

// Takes the recache token of a stale item that a meta get hit (outcome won), unless another client takes it first.
template <IndexKind I>
void win_stale(Context& context, Batch& batch, std::uint32_t i) noexcept {
  const Query& q = batch.query(i);
  Result& r = batch.result(i);
  typename I::Guard guard = context.shared.index_as<I>().lock(batch.fingerprints()[i]);
  Item* const item = guard.find(q.key_view(), batch.candidate(i));
  if (item != r.item) return;  // replaced since: the result is the stale value without the token
  if (word::Win::get(guard.version().state) != 0) {
    r.outcome |= outcome::win_sent;
    return;
  }
  // A stale item is never rewritten in place, so its value is unchanged.
  if (guard.update_state(word::Win::mask, word::Win::mask)) r.outcome |= outcome::won;
}

// Removes the key's item if it is expired or flushed. seen: where a look-up found it.
template <IndexKind I>
void remove_garbage(Context& context, Fingerprint f, std::string_view key, Location seen) noexcept {
  Shared& shared = context.shared;
  Location garbage = no_location;
  if (TD_UNLIKELY(!shared.placement.can_change(f))) return;
  {
    typename I::Guard guard = shared.index_as<I>().lock(f);
    Item* const item = guard.find(key, seen);
    if (item == nullptr) return;
    if (!is_over(guard.version(), shared.clock.now_s(), shared.flush_cas.load(std::memory_order_acquire))) return;
    if (!guard.erase()) return;
    garbage = shared.heap.location_of(item);
  }
  shared.placement.retire(context.cache, {&garbage, 1});
}

TD_INLINE void count_read(StoreCounters& counters, Status status) noexcept {
  counters.cmd_get.add();
  if (status == Status::hit) {
    counters.get_hits.add();
  } else {
    counters.get_misses.add();
  }
}

// An expired or flushed item is a miss and is reclaimed at once.
template <IndexKind I>
TD_NOINLINE void settle_expired(Context& context, const Query& q, Fingerprint f, const Item* item,
                                bool expired) noexcept {
  if (expired) {
    context.counters.get_expired.add();
  } else {
    context.counters.get_flushed.add();
  }
  if (context.observer != nullptr) context.observer->looked_up(q, expired ? Lookup::expired : Lookup::flushed, nullptr);
  remove_garbage<I>(context, f, q.key_view(), context.shared.heap.location_of(item));
}

TD_INLINE std::uint64_t key_offset_of(std::uint64_t fixed) noexcept {
  return sizeof(Item) + word::HasFlags::get(fixed) * sizeof(std::uint32_t);
}

// Fills the result of a hit for RD and WR; does not mark the item.
TD_INLINE void set_hit(Context& context, Result& r, const Item* item, std::uint64_t word, std::uint64_t fixed,
                       std::uint64_t key_offset) noexcept {
  r.item = item;
  r.state = word;
  r.value_bytes = TD_LIKELY(word::Huge::get(fixed) == 0)
                      ? static_cast<std::uint32_t>(word::ValueBytes::get(fixed))
                      : static_cast<std::uint32_t>(context.shared.heap.value_bytes(item));
  r.value_offset = static_cast<std::uint16_t>(key_offset + word::KeyBytes::get(fixed));
  r.status = Status::hit;
  r.outcome = outcome::of_state(word);
}

TD_INLINE void settle_hit(Context& context, const Query& q, Result& r, Item* item, const ItemVersion& seen,
                          std::uint64_t key_offset, std::uint32_t now_s) noexcept {
  set_hit(context, r, item, seen.state, seen.fixed, key_offset);
  if (TD_LIKELY(!q.has(option::no_bump) && q.opcode != Opcode::debug)) mark_access(item, seen.state, now_s);
}

// Whether a good candidate may be returned without comparing its key, because the caller compares it. False where the
// hit would write to the item (access marks, recache token): it may be an item of another key.
TD_INLINE bool answers_any_key(const Query& q, std::uint64_t word, bool marks) noexcept {
  return q.has(option::caller_compares) && !marks && (word & (word::Stale::mask | word::Win::mask)) == 0;
}

TD_INLINE bool is_key(const Query& q, const Item* item, std::uint64_t fixed, std::uint64_t key_offset) noexcept {
  return word::KeyBytes::get(fixed) == q.key_bytes && bytes_equal(item->bytes() + key_offset, q.key, q.key_bytes);
}

// What all steps of a read share.
struct Reading {
  Context& context;
  Batch& batch;
  std::uint32_t now_s;
  std::uint32_t stamp = 0;  // where the index stamps accesses
  std::uint64_t flush_cas;

  Reading(Context& c, Batch& b, const QueryState& state) noexcept
      : context(c), batch(b), now_s(state.now_s), flush_cas(state.flush_cas) {}
};

template <IndexKind I>
TD_INLINE Reading reading_of(Context& context, Batch& batch, const QueryState& state) noexcept {
  Reading reading(context, batch, state);
  if constexpr (StampsAccesses<I>) reading.stamp = context.shared.index_as<I>().stamp_now();
  return reading;
}
// A hit that counts as an access, for an index that orders its entries by them.
template <IndexKind I>
TD_INLINE void note_access(const Reading& reading, std::uint32_t i, const Query& q, Location l) noexcept {
  if constexpr (StampsAccesses<I>) {
    if (TD_LIKELY(!q.has(option::no_bump) && q.opcode != Opcode::debug))
      reading.context.shared.index_as<I>().note_access(reading.batch.fingerprints()[i], l, reading.stamp);
  }
}

// The candidate is not the key's good item: asks the index and fills the result.
template <IndexKind I>
TD_NOINLINE void settle_slowly(const Reading& reading, std::uint32_t i, const Item* candidate) noexcept {
  Context& context = reading.context;
  const Batch& batch = reading.batch;
  const Query& q = batch.query(i);
  const Fingerprint f = reading.batch.fingerprints()[i];
  Result& r = reading.batch.result(i);
  r.item = nullptr;
  r.value_bytes = 0;
  r.outcome = 0;
  r.status = Status::miss;
  const I& index = context.shared.index_as<I>();
  if constexpr (DeviceSearches<I>) {
    if (candidate == nullptr && batch.searched_at(i) && context.shared.placement.has_final_misses()) {
      if (final_miss(index, f, batch.found.launch, batch.found.whole)) return;
      context.counters.device_rechecks.add();
    }
  }
  ItemVersion seen;
  Item* const item = index.find(f, q.key_view(), seen, batch.candidate(i));
  if (item != candidate) context.counters.index_retries.add();
  if (item == nullptr) return;
  const bool expired = is_expired(seen.state, reading.now_s);
  if (TD_UNLIKELY(expired || is_flushed(seen, reading.flush_cas)))
    return settle_expired<I>(context, q, f, item, expired);
  settle_hit(context, q, r, item, seen, key_offset_of(seen.fixed), reading.now_s);
  note_access<I>(reading, i, q, context.shared.heap.location_of(item));
}

template <IndexKind I>
TD_INLINE void settle(const Reading& reading, std::uint32_t i, const Query& q, Location location, Result& r) noexcept {
  Item* const item = reading.context.shared.heap.at(location);
  if (TD_LIKELY(location != no_location)) {
    // The two words may be of different versions; their id is not smaller than the item's id at the first load.
    const ItemVersion seen = ItemVersion::of(item);
    const std::uint64_t key_offset = key_offset_of(seen.fixed);
    if (TD_LIKELY(seen.is_live() &&
                  (answers_any_key(q, seen.state, !q.has(option::no_bump) && needs_mark(seen.state, reading.now_s)) ||
                   is_key(q, item, seen.fixed, key_offset)) &&
                  !is_expired(seen.state, reading.now_s) && !is_flushed(seen, reading.flush_cas))) {
      settle_hit(reading.context, q, r, item, seen, key_offset, reading.now_s);
      return note_access<I>(reading, i, q, location);
    }
  }
  settle_slowly<I>(reading, i, location != no_location ? item : nullptr);
}

// A meta get of a stale item with a free recache token takes the token, as in memcached even without the flags N and
// R.
TD_INLINE bool may_win_stale(const Query& q, const Result& r) noexcept {
  return r.outcome == outcome::stale && q.has(option::meta) && q.opcode == Opcode::get;
}

// Completes a plain read (Opcode::get without touch, vivify or recache), or a debug query.
template <IndexKind I>
void key_compare(Context& context, Batch& batch, const QueryState& state) noexcept {
  const std::uint32_t i = state.query;
  const Reading reading = reading_of<I>(context, batch, state);
  settle<I>(reading, i, batch.query(i), batch.locations()[i], batch.result(i));
  if (batch.query(i).opcode == Opcode::debug) return;
  count_read(context.counters, batch.result(i).status);
  if (TD_UNLIKELY(may_win_stale(batch.query(i), batch.result(i)))) win_stale<I>(context, batch, i);
}

}  // namespace tandem::task
