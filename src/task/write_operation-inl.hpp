// IN (Insert, Delete) and KC of the queries that write: each runs under its key's stripe, in query order (write
// protocol, rules 1-4).
#pragma once
#include <algorithm>
#include <cstring>
#include <new>

#include "base/spin_wait.hpp"
#include "codec/digits.hpp"
#include "task/key_compare.hpp"
#include "task/number.hpp"
#include "task/store_operation-inl.hpp"

namespace tandem::task {

// --- append, prepend

// The new item is built before the stripe is taken, and published if the old one is still the key's item at the version
// that was read first. So no copy of an item that was rewritten during the copy is published. The new item is marked as
// used, because CLOCK would otherwise evict an item that clients only append to.
template <IndexKind I>
Settled concatenate(const Operation<I>& op) noexcept {
  const Query& q = op.q;
  // As in memcached, lack of memory is reported before the key is looked up. (An item that would become too large is
  // answered like an absent one.)
  if (op.refused() == Status::out_of_memory) return refuse_store(op);
  for (;;) {
    ItemVersion seen;
    Item* const old = op.index().find(op.f, q.key_view(), seen, op.candidate());
    if (old == nullptr || op.is_over(seen)) {
      typename I::Guard guard = op.index().lock(op.f);
      const PresentItem at = find(op, guard);
      if (at.good != nullptr) continue;
      return absent(op, guard, at, Status::not_stored, op.count().cmd_set, op.count_in_own_class().cmd_set);
    }
    const bool other =
        q.has(option::compare_cas) && op.context.shared.policy.cas && q.cas != no_cas && seen.cas() != q.cas;
    if (TD_UNLIKELY(op.context.observer != nullptr) && (other || op.refused() != Status::none))
      observe(op, {old, old, seen});
    if (other) {
      op.count_set();
      return op.finish(Status::exists);
    }
    if (op.refused() != Status::none) {
      op.r.outcome |= outcome::too_large;
      op.count_set();
      return op.finish(Status::not_stored);
    }
    const std::uint64_t old_bytes = op.heap().value_bytes(old);
    const std::uint32_t flags = old->client_flags();
    const std::uint64_t new_bytes = old_bytes + q.value_bytes;
    if (!slot_holds(op, Item::total_bytes(flags, q.key_bytes, new_bytes))) return Settled::needs_slot;
    Item* const item = op.heap().format(op.slot(), old->key(), flags, new_bytes, 0, op.state.now_s, old->binary_key());
    const bool append = q.mode == StoreMode::append;
    copy_value(item->value() + (append ? 0 : q.value_bytes), old, old_bytes);
    // An empty value may have no address.
    if (TD_LIKELY(q.value_bytes != 0)) std::memcpy(item->value() + (append ? old_bytes : 0), q.value, q.value_bytes);

    typename I::Guard guard = op.index().lock(op.f);
    const PresentItem at = find(op, guard);
    if (at.good != old || at.seen.cas() != seen.cas()) continue;
    if (const Settled s = publish(op, guard, at, Item::expiry_of(at.seen.state), word::Accessed::mask);
        s != Settled::done)
      return s;
    op.count_set();
    return op.finish(Status::stored);
  }
}

// --- incr, decr, ma

template <IndexKind I>
void count_arithmetic(const Operation<I>& op, const Item* hit) noexcept {
  const bool decrement = op.q.has(option::decrement);
  StoreCounters& c = op.count();
  if (hit == nullptr) return (decrement ? c.decr_misses : c.incr_misses).add();
  ClassCounters& in_class = op.count_in_class_of(hit);
  (decrement ? c.decr_hits : c.incr_hits).add();
  (decrement ? in_class.decr_hits : in_class.incr_hits).add();
}

// Copy on write: the number is read and replaced at one version of the item (write protocol 3).
template <IndexKind I>
Settled arithmetic(const Operation<I>& op) noexcept {
  const Query& q = op.q;
  typename I::Guard guard = op.index().lock(op.f);
  const PresentItem at = find(op, guard);
  if (at.good == nullptr) {
    if (!q.has(option::vivify)) {
      const Settled s = absent(op, guard, at, Status::miss);
      if (s == Settled::done) count_arithmetic(op, nullptr);
      return s;
    }
    if (op.refused() != Status::none) {
      op.r.outcome |= outcome::created;  // the item for which there was no memory
      return op.finish(Status::out_of_memory);
    }
    if (!slot_holds(op, Item::total_bytes(0, q.key_bytes, q.value_bytes))) return Settled::needs_slot;
    Item* const item =
        op.heap().format(op.slot(), q.key_view(), 0, q.value_bytes, 0, op.state.now_s, q.has(option::binary_key));
    std::memcpy(item->value(), q.value, q.value_bytes);
    if (const Settled s = publish(op, guard, at, q.vivify_expiry_s, 0); s != Settled::done) return s;
    op.r.cas = op.r.number;
    std::uint64_t initial = 0;
    read_number({q.value, q.value_bytes}, initial);
    op.r.number = initial;
    op.r.outcome |= outcome::created;
    return op.finish(Status::number);
  }
  const std::uint64_t old_bytes = op.heap().value_bytes(at.good);
  // As in memcached, a value that is no number is refused before the CAS id is compared.
  if (old_bytes == 0 || at.good->is_huge()) return op.finish(Status::not_a_number);
  if (q.has(option::compare_cas) && q.cas != no_cas && op.cas_of(at.seen) != q.cas) return op.finish(Status::exists);
  std::uint64_t number = 0;
  const bool is_number = read_item_number(at.good, number);
  if (TD_UNLIKELY(!is_still(at.good, at.seen))) return Settled::changed;
  if (!is_number) return op.finish(Status::not_a_number);
  if (op.refused() != Status::none) return op.finish(Status::out_of_memory);
  number = apply_delta(number, q.delta, q.has(option::decrement));
  char digits[codec::digits_max];
  const auto digit_count = static_cast<std::uint64_t>(codec::write_digits(digits, number) - digits);
  const std::uint64_t new_bytes = std::max(old_bytes, digit_count);  // a shorter number is padded, as memcached does
  const std::uint32_t flags = at.good->client_flags();
  if (!slot_holds(op, Item::total_bytes(flags, q.key_bytes, new_bytes))) return Settled::needs_slot;
  Item* const item =
      op.heap().format(op.slot(), at.good->key(), flags, new_bytes, 0, op.state.now_s, at.good->binary_key());
  std::memcpy(item->value(), digits, digit_count);
  std::memset(item->value() + digit_count, ' ', new_bytes - digit_count);
  const std::uint32_t expiry_s = q.has(option::touch) ? q.expiry_s : Item::expiry_of(at.seen.state);
  const std::uint64_t before = at.seen.state;
  // memcached writes a number that is no longer than the old one in place, so the item keeps its marks.
  const bool in_place = digit_count <= old_bytes;
  const std::uint64_t keep = in_place ? at.seen.state : at.seen.state & word::Accessed::mask;
  if (const Settled s = publish(op, guard, at, expiry_s, keep, !in_place); s != Settled::done) return s;
  op.r.state = word::ExpiryS::put(op.r.state, Item::expiry_of(before));
  op.r.cas = op.r.number;
  op.r.number = number;
  count_arithmetic(op, at.good);
  return op.finish(Status::number);
}

// --- delete, md

// Marks the item stale under a new CAS id, in a copy as well.
template <IndexKind I>
Settled invalidate(const Operation<I>& op) noexcept {
  const Query& q = op.q;
  for (;;) {
    ItemVersion seen;
    Item* const old = op.index().find(op.f, q.key_view(), seen, op.candidate());
    const bool good = old != nullptr && !op.is_over(seen);
    const std::uint64_t value_bytes = good ? op.heap().value_bytes(old) : 0;
    if (good && op.refused() == Status::none) {
      const std::uint32_t flags = old->client_flags();
      if (!slot_holds(op, Item::total_bytes(flags, q.key_bytes, value_bytes))) return Settled::needs_slot;
      Item* const item =
          op.heap().format(op.slot(), old->key(), flags, value_bytes, 0, op.state.now_s, old->binary_key());
      copy_value(item->value(), old, value_bytes);
    }
    typename I::Guard guard = op.index().lock(op.f);
    const PresentItem at = find(op, guard);
    if (at.good != (good ? old : nullptr) || (good && at.seen.cas() != seen.cas())) continue;
    if (!good) return absent(op, guard, at, Status::miss, op.count().delete_misses);
    if (q.has(option::compare_cas) && op.cas_of(at.seen) != q.cas) {
      op.count().delete_misses.add();
      return op.finish(Status::exists);
    }
    if (op.refused() != Status::none) return op.finish(Status::out_of_memory);
    const std::uint32_t expiry_s = q.has(option::touch) ? q.expiry_s : Item::expiry_of(at.seen.state);
    const std::uint64_t keep = (at.seen.state & ~word::Win::mask) | word::Stale::mask;
    if (const Settled s = publish(op, guard, at, expiry_s, keep, false); s != Settled::done) return s;
    return op.finish(Status::removed);
  }
}

// A store that the parser refused.
template <IndexKind I>
void count_refused(const Operation<I>& op) noexcept {
  const auto why = static_cast<std::uint16_t>(op.q.options & option::store_no_memory);
  if (why == option::store_no_memory) {
    op.count().store_no_memory.add();
  } else if (why == option::store_too_large) {
    op.count().store_too_large.add();
  } else if (why == option::store_bad_block) {
    op.count_set();
  }
}

// Removes the item of a refused set's key.
template <IndexKind I>
Settled remove_refused(const Operation<I>& op) noexcept {
  typename I::Guard guard = op.index().lock(op.f);
  const PresentItem at = find(op, guard);
  const Settled s = absent(op, guard, at, Status::removed);
  if (s == Settled::done) count_refused(op);
  return s;
}

// Usual: neither compares a CAS id nor returns the old item.
template <bool Usual, IndexKind I>
Settled remove_item(const Operation<I>& op) noexcept {
  typename I::Guard guard = op.index().lock(op.f);
  const PresentItem at = find(op, guard);
  if (at.good == nullptr) return absent(op, guard, at, Status::miss, op.count().delete_misses);
  if constexpr (!Usual) {
    if (op.q.has(option::compare_cas) && op.cas_of(at.seen) != op.q.cas) {
      op.count().delete_misses.add();
      return op.finish(Status::exists);
    }
  }
  op.r.item = at.good;
  op.r.state = at.seen.state;
  if (!erase(op, guard, at.good)) return Settled::changed;
  op.count().delete_hits.add();
  op.count_in_class_of(at.good).delete_hits.add();
  if constexpr (!Usual) {
    if (op.q.has(option::returns_old)) answer_displaced(op, at);
  }
  return op.finish(Status::removed);
}

template <IndexKind I>
Settled remove(const Operation<I>& op) noexcept {
  constexpr std::uint16_t unusual =
      option::store_no_memory | option::invalidate | option::compare_cas | option::returns_old;
  if (TD_LIKELY(!op.q.has(unusual))) return remove_item<true>(op);
  if (op.q.has(option::store_no_memory)) return remove_refused(op);
  return op.q.has(option::invalidate) ? invalidate(op) : remove_item<false>(op);
}

// --- touch, gat, mg with T, N or R

template <IndexKind I>
void answer_hit(const Operation<I>& op, const PresentItem& at) noexcept {
  op.r.item = at.good;
  op.r.state = at.seen.state;
  op.r.value_bytes = static_cast<std::uint32_t>(op.heap().value_bytes(at.good));
  op.r.value_offset = static_cast<std::uint16_t>(at.good->value_offset());
  op.r.outcome = outcome::of_state(at.seen.state);
}

// Copies the item that the guard found. The copy is consistent if the item still has that version afterwards.
template <IndexKind I>
const Item* copy_of(const Operation<I>& op, const PresentItem& at) noexcept {
  char* const to = op.context.copy.bytes;
  auto* const copy = new (to) Item;
  copy->state_word.store(at.seen.state, std::memory_order_relaxed);
  copy->set_fixed(at.seen.fixed);
  const std::uint64_t bytes = at.good->value_offset() + op.heap().value_bytes(at.good);
  racing_copy(to + sizeof(Item), at.good->bytes() + sizeof(Item), bytes - sizeof(Item));
  return copy;
}

// The query's reply must show its own change, even if other sets rewrite the item since. False: the item has changed
// already.
template <IndexKind I>
bool keep_for_reply(const Operation<I>& op, const PresentItem& at) noexcept {
  if (op.heap().value_bytes(at.good) > ItemCopy::value_bytes_max) return true;  // not rewritten in place
  if (op.q.opcode == Opcode::get) op.r.item = copy_of(op, at);
  return is_still(at.good, at.seen);
}

template <IndexKind I>
Settled touch(const Operation<I>& op) noexcept {
  typename I::Guard guard = op.index().lock(op.f);
  const PresentItem at = find(op, guard);
  if (at.good == nullptr) return absent(op, guard, at, Status::miss, op.count().cmd_touch, op.count().touch_misses);
  answer_hit(op, at);
  if (TD_UNLIKELY(!keep_for_reply(op, at))) return Settled::changed;
  if (!guard.update_state(word::ExpiryS::mask, word::ExpiryS::put(0, op.q.expiry_s))) return Settled::changed;
  op.count().cmd_touch.add();
  op.count().touch_hits.add();
  op.count_in_class_of(at.good).touch_hits.add();
  mark_access(at.good, guard.version().state, op.state.now_s);
  return op.finish(Status::hit);
}

// memcached counts a hit that touches as a touch alone, and a meta get that misses as a get alone.
template <IndexKind I>
void count_touching_get(const Operation<I>& op, const Item* hit) noexcept {
  StoreCounters& c = op.count();
  if (op.q.has(option::touch) && (hit != nullptr || !op.q.has(option::meta))) {
    c.cmd_touch.add();
    if (hit == nullptr) return c.touch_misses.add();
    c.touch_hits.add();
    return op.count_in_class_of(hit).touch_hits.add();
  }
  c.cmd_get.add();
  (hit != nullptr ? c.get_hits : c.get_misses).add();
}

template <IndexKind I>
Settled get_and_change(const Operation<I>& op) noexcept {
  const Query& q = op.q;
  typename I::Guard guard = op.index().lock(op.f);
  PresentItem at = find(op, guard);
  if (at.good == nullptr) {
    if (!q.has(option::vivify)) {
      const Settled s = absent(op, guard, at, Status::miss);
      if (s == Settled::done) count_touching_get(op, nullptr);
      return s;
    }
    if (op.refused() != Status::none) {
      count_touching_get(op, nullptr);
      return op.finish(Status::out_of_memory);
    }
    if (!slot_holds(op, Item::total_bytes(0, q.key_bytes, 0))) return Settled::needs_slot;
    // Not marked as a binary key, even if it is one: memcached forgets that here, and the next store repairs it.
    op.heap().format(op.slot(), q.key_view(), 0, 0, 0, op.state.now_s, false);
    const std::uint64_t fetched = q.has(option::no_bump) ? 0 : word::Fetched::mask;
    if (const Settled s = publish(op, guard, at, q.vivify_expiry_s, word::Win::mask | fetched); s != Settled::done)
      return s;
    op.r.state &= ~word::Fetched::mask;  // as before this query's fetch
    op.r.outcome = outcome::created | outcome::won;
    count_touching_get(op, op.r.item);
    return op.finish(Status::hit);
  }
  answer_hit(op, at);
  if (TD_UNLIKELY(!keep_for_reply(op, at))) return Settled::changed;
  const std::uint32_t expiry_s = q.has(option::touch) ? q.expiry_s : Item::expiry_of(at.seen.state);
  if (word::Win::get(at.seen.state) == 0) {
    // R compares with the expiry before or after T, by their order in the line.
    const std::uint32_t looked_at_s = q.has(option::recache_first) ? Item::expiry_of(at.seen.state) : expiry_s;
    const std::uint32_t left_s = looked_at_s > op.state.now_s ? looked_at_s - op.state.now_s : 0;
    const bool soon = q.has(option::recache) && looked_at_s != Clock::never && left_s < q.recache_ttl_s;
    if (soon || (q.has(option::meta) && word::Stale::get(at.seen.state) != 0)) op.r.outcome |= outcome::won;
  }
  const std::uint64_t win = (op.r.outcome & outcome::won) != 0 ? word::Win::mask : 0;
  if (!guard.update_state(word::ExpiryS::mask | win, word::ExpiryS::put(0, expiry_s) | win)) return Settled::changed;
  if (!q.has(option::no_bump)) mark_access(at.good, guard.version().state, op.state.now_s);
  count_touching_get(op, at.good);
  return op.finish(Status::hit);
}

template <IndexKind I>
Settled run_write(const Operation<I>& op) noexcept {
  switch (op.q.opcode) {
    case Opcode::store:
      return op.q.concatenates() ? concatenate(op) : store(op);
    case Opcode::get:
      return get_and_change(op);
    case Opcode::remove:
      return remove(op);
    case Opcode::arithmetic:
      return arithmetic(op);
    case Opcode::touch:
      return touch(op);
    case Opcode::nothing:
      count_refused(op);
      break;
    case Opcode::debug:
    case Opcode::control:
      break;
  }
  return op.finish(Status::none);
}

// Executes a query that is neither a control query nor a plain read. REQUIRES: inside an epoch.
template <IndexKind I>
Settled write_operation(Context& context, Batch& batch, QueryState& state) noexcept {
  const std::uint32_t i = state.query;
  for (;;) {
    Result& r = batch.result(i);
    r = {};
    const Operation<I> op{context, batch, state, i, batch.query(i), r, batch.fingerprints()[i]};
    if (TD_UNLIKELY(op.q.opcode != Opcode::nothing && !op.context.shared.placement.can_change(op.f)))
      return Settled::needs_room;
    const Settled settled = run_write(op);
    if (TD_UNLIKELY(settled == Settled::changed)) continue;
    if (TD_LIKELY(settled != Settled::flushed)) return settled;
    for (SpinWait waiting; context.shared.flush_begins.load(std::memory_order_acquire);) waiting.once();
    state.flush_cas = context.shared.flush_cas.load(std::memory_order_acquire);
  }
}

}  // namespace tandem::task
