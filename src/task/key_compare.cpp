#include "task/key_compare.hpp"

#include "task/write_operation.hpp"

namespace tandem::task {
namespace {

TD_INLINE void count_read(StoreCounters& counters, Status status) noexcept {
  counters.cmd_get.add();
  if (status == Status::hit) {
    counters.get_hits.add();
  } else {
    counters.get_misses.add();
  }
}

// The candidate was wrong or missing: ask the index for the key itself.
TD_NOINLINE Item* find_again(Context& context, const Query& q, Fingerprint f, std::uint64_t& state) noexcept {
  context.counters.index_retries.add();
  return context.shared.index.find(f, q.key_view(), state);
}

// An item that is over is a miss, and its memory goes back at once.
TD_NOINLINE void over(Context& context, const Query& q, Fingerprint f, bool expired) noexcept {
  if (expired) {
    context.counters.get_expired.add();
  } else {
    context.counters.get_flushed.add();
  }
  remove_garbage(context, f, q.key_view());
}

TD_INLINE void settle(Context& context, Batch& batch, StripState& state, std::uint32_t i) noexcept {
  const Query& q = batch.query(i);
  const Location location = batch.locations()[i];
  Heap& heap = context.shared.heap;
  Result& r = batch.result(i);
  Item* item = nullptr;
  std::uint64_t word = 0;
  if (TD_LIKELY(location != no_location)) {
    item = heap.at(location);
    word = item->state_acquire();
    if (TD_UNLIKELY(Item::state_of(word) != ItemState::live || item->key_bytes() != q.key_bytes ||
                    !keys_equal(item->bytes() + item->key_offset(), q.key, q.key_bytes))) {
      item = nullptr;
    }
  }
  if (TD_UNLIKELY(item == nullptr)) item = find_again(context, q, batch.fingerprints()[i], word);
  r.outcome = 0;
  if (TD_LIKELY(item != nullptr)) {
    const bool expired = is_expired(word, state.now_s);
    if (TD_LIKELY(!expired && !is_flushed(item, word, state.flush_cas))) {
      r.item = item;
      r.state = word;
      r.value_bytes =
          TD_LIKELY(!item->is_huge()) ? item->small_value_bytes() : static_cast<std::uint32_t>(heap.value_bytes(item));
      r.status = Status::hit;
      r.outcome = outcome::of_state(word);
      if (!q.has(option::no_bump) && q.opcode != Opcode::debug) mark_access(item, word, state.now_s);
      return;
    }
    over(context, q, batch.fingerprints()[i], expired);
  }
  r.item = nullptr;
  r.status = Status::miss;
}

// A meta get of a stale item that nobody recaches yet takes the token (memcached does this without being asked by N or
// R).
TD_INLINE bool may_win_stale(const Query& q, const Result& r) noexcept {
  return r.outcome == outcome::stale && q.has(option::meta) && q.opcode == Opcode::get;
}

}  // namespace

void key_compare(Context& context, Batch& batch, StripState& state) noexcept {
  std::uint64_t hits = 0;
  bool any_to_win = false;
  for (std::uint32_t i = state.strip.begin; i < state.strip.end; ++i) {
    settle(context, batch, state, i);
    hits += batch.result(i).status == Status::hit;
    any_to_win |= may_win_stale(batch.query(i), batch.result(i));
  }
  const std::uint64_t queries = state.strip.size();
  context.counters.cmd_get.add(queries);
  context.counters.get_hits.add(hits);
  context.counters.get_misses.add(queries - hits);
  if (TD_UNLIKELY(any_to_win)) {
    for (std::uint32_t i = state.strip.begin; i < state.strip.end; ++i) {
      if (may_win_stale(batch.query(i), batch.result(i))) win_stale(context, batch, i);
    }
  }
}

void key_compare_one(Context& context, Batch& batch, StripState& state, std::uint32_t i) noexcept {
  settle(context, batch, state, i);
  if (batch.query(i).opcode == Opcode::debug) return;
  count_read(context.counters, batch.result(i).status);
  if (TD_UNLIKELY(may_win_stale(batch.query(i), batch.result(i)))) win_stale(context, batch, i);
}

}  // namespace tandem::task
