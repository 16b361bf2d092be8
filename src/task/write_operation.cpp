#include "task/write_operation.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "index/stripes.hpp"
#include "task/key_compare.hpp"
#include "task/number.hpp"

namespace tandem::task {
namespace {

constexpr std::uint64_t no_cas = 0;

// One query's view of the strip.
struct Operation {
  Context& context;
  Batch& batch;
  StripState& strip;
  std::uint32_t i;
  const Query& q;
  Result& r;
  Fingerprint f;

  Index& index() const noexcept { return context.shared.index; }
  Heap& heap() const noexcept { return context.shared.heap; }
  Location& slot() const noexcept { return strip.slot[strip.at(i)]; }
  Location candidate() const noexcept { return batch.candidate(i); }
  Status refused() const noexcept { return strip.refused[strip.at(i)]; }
  StoreCounters& count() const noexcept { return context.counters; }

  bool is_over(const Item* item, std::uint64_t state) const noexcept {
    return is_expired(state, strip.now_s) || is_flushed(item, state, strip.flush_cas);
  }
  // The CAS id that clients see: with CAS off it is 0.
  std::uint64_t cas_of(const Item* item, std::uint64_t state) const noexcept {
    return context.shared.policy.cas ? item->cas(state) : no_cas;
  }
  Settled finish(Status status) const noexcept {
    r.status = status;
    return Settled::done;
  }
  void displace(const Item* old) const noexcept {
    if (old != nullptr && !context.shared.placement.retires_displaced())
      strip.displaced[strip.displaced_count++] = heap().location_of(old);
  }
};

// The key's item under its stripe. An item that is over is still `found` (it has a cell to reuse), but not `good`.
struct Found {
  Item* found = nullptr;
  Item* good = nullptr;
  std::uint64_t state = 0;
};

TD_NOINLINE void observe(const Operation& op, const Found& at) noexcept {
  Lookup lookup = Lookup::found;
  if (at.found == nullptr) {
    lookup = Lookup::not_found;
  } else if (at.good == nullptr) {
    lookup = is_expired(at.state, op.strip.now_s) ? Lookup::expired : Lookup::flushed;
  }
  op.context.observer->looked_up(op.q, lookup, at.good);
}

Found find(const Operation& op, Index::Guard& guard) noexcept {
  Found at;
  at.found = guard.find(op.q.key_view(), op.candidate());
  if (at.found != nullptr) {
    at.state = at.found->state_acquire();
    if (!op.is_over(at.found, at.state)) at.good = at.found;
  }
  if (TD_UNLIKELY(op.context.observer != nullptr)) observe(op, at);
  return at;
}

// Gives the slot's item its CAS id and makes it the key's item. `keep`: state bits beside state, CAS, expiry and access
// second. `is_new`: for the statistics it is an item of its own, not the old one changed.
Settled publish(const Operation& op, Index::Guard& guard, const Found& old, std::uint32_t expiry_s, std::uint64_t keep,
                bool is_new = true) noexcept {
  Item* item = op.heap().at(op.slot());
  const std::uint64_t above = old.found != nullptr ? old.found->cas(old.state) : no_cas;
  const std::uint64_t cas = op.context.cas.next(op.context.shared, above);
  // The old item was judged by the strip's mark; with an id beyond a later one its contents would outlive that flush.
  if (TD_UNLIKELY(cas == no_cas || op.context.shared.flush_cas.load(std::memory_order_acquire) != op.strip.flush_cas))
    return Settled::flushed;
  item->fixed_word = word::CasLow::put(item->fixed_word, cas & word::CasLow::limit);
  std::uint64_t state = keep & (word::Accessed::mask | word::Fetched::mask | word::Stale::mask | word::Win::mask);
  state = word::State::put(state, static_cast<std::uint64_t>(ItemState::live));
  state = word::CasHigh::put(state, cas >> word::CasLow::width);
  state = word::AccessS::put(state, op.strip.now_s);
  state = word::ExpiryS::put(state, expiry_s);
  if (guard.put(op.slot(), state) != Index::Put::done) return Settled::needs_room;
  if (TD_UNLIKELY(op.heap().probation() != nullptr))
    op.strip.published[op.strip.published_count++] = {op.f, op.slot(), old.good == nullptr};
  op.displace(old.found);
  op.slot() = no_location;
  op.r.item = item;
  op.r.state = state;
  op.r.number = cas;
  op.r.value_bytes = static_cast<std::uint32_t>(op.heap().value_bytes(item));
  op.r.value_offset = static_cast<std::uint16_t>(item->value_offset());
  if (is_new) op.count().total_items.add();
  return Settled::done;
}

void erase(const Operation& op, Index::Guard& guard, const Item* item) noexcept {
  guard.erase();
  op.displace(item);
}

// Removes an item that is over and answers as for an absent key.
Settled absent(const Operation& op, Index::Guard& guard, const Found& at, Status status) noexcept {
  if (at.found != nullptr) erase(op, guard, at.found);
  return op.finish(status);
}

bool slot_holds(const Operation& op, std::uint64_t item_bytes) noexcept {
  return op.slot() != no_location && op.heap().capacity_bytes(op.slot()) >= item_bytes;
}

// --- store: set add replace cas ms
// --------------------------------------------------------------------------------------------------------

// What a failed set leaves: nothing, so that no client goes on reading the old value (memcached does the same).
Settled refuse_store(const Operation& op) noexcept {
  (op.refused() == Status::too_large ? op.count().store_too_large : op.count().store_no_memory).add();
  if (op.q.mode == StoreMode::set) {
    Index::Guard guard = op.index().lock(op.f);
    const Found at = find(op, guard);
    if (at.found != nullptr) erase(op, guard, at.found);
  }
  return op.finish(op.refused());
}

Settled store(const Operation& op) noexcept {
  if (op.refused() != Status::none) return refuse_store(op);
  const Query& q = op.q;
  Index::Guard guard = op.index().lock(op.f);
  const Found at = find(op, guard);
  std::uint32_t expiry_s = q.expiry_s;
  std::uint64_t keep = at.good != nullptr ? at.state & word::Accessed::mask : 0;
  const bool compare = q.has(option::compare_cas) && q.mode != StoreMode::add;
  if (compare) {
    if (at.good == nullptr) {
      op.count().cmd_set.add();
      op.count().cas_misses.add();
      return absent(op, guard, at, Status::not_found);
    }
    const std::uint64_t cas = op.cas_of(at.good, at.state);
    if (cas != q.cas || q.cas == no_cas) {
      // An older client may still leave its value behind, marked stale, with the time that is left (meta set, I).
      if (!q.has(option::invalidate) || q.cas == no_cas || q.cas >= cas) {
        op.count().cmd_set.add();
        op.count().cas_badval.add();
        return op.finish(Status::exists);
      }
      expiry_s = Item::expiry_of(at.state);
      keep |= word::Stale::mask | (at.state & word::Win::mask);
    }
  } else if (q.mode == StoreMode::add && at.good != nullptr) {
    mark_access(at.good, at.state, op.strip.now_s, word::Accessed::mask);  // used, but not fetched
    op.count().cmd_set.add();
    return op.finish(Status::not_stored);
  } else if (q.mode == StoreMode::replace && at.good == nullptr) {
    op.count().cmd_set.add();
    return absent(op, guard, at, Status::not_stored);
  }
  if (const Settled s = publish(op, guard, at, expiry_s, keep); s != Settled::done) return s;
  op.count().cmd_set.add();
  if (compare) op.count().cas_hits.add();
  return op.finish(Status::stored);
}

// --- append, prepend
// ----------------------------------------------------------------------------------------------------------------------

// The new item is built before the stripe is taken (items are immutable), then published if the old one is still the
// key's item.
Settled concatenate(const Operation& op) noexcept {
  const Query& q = op.q;
  for (;;) {
    std::uint64_t state = 0;
    Item* const old = op.index().find(op.f, q.key_view(), state, op.candidate());
    if (old == nullptr || op.is_over(old, state)) {
      Index::Guard guard = op.index().lock(op.f);
      const Found at = find(op, guard);
      if (at.good != nullptr) continue;
      op.count().cmd_set.add();
      return absent(op, guard, at, Status::not_stored);
    }
    const bool other =
        q.has(option::compare_cas) && op.context.shared.policy.cas && q.cas != no_cas && old->cas(state) != q.cas;
    if (TD_UNLIKELY(op.context.observer != nullptr) && (other || op.refused() != Status::none))
      observe(op, {old, old, state});
    if (other) {
      op.count().cmd_set.add();
      return op.finish(Status::exists);
    }
    if (op.refused() != Status::none) {
      op.count().cmd_set.add();
      return op.finish(Status::not_stored);
    }
    const std::uint64_t old_bytes = op.heap().value_bytes(old);
    const std::uint32_t flags = old->client_flags();
    const std::uint64_t new_bytes = old_bytes + q.value_bytes;
    if (!slot_holds(op, Item::total_bytes(flags, q.key_bytes, new_bytes))) return Settled::needs_slot;
    Item* const item = op.heap().format(op.slot(), old->key(), flags, new_bytes, 0, op.strip.now_s, old->binary_key());
    const bool append = q.mode == StoreMode::append;
    std::memcpy(item->value() + (append ? 0 : q.value_bytes), old->value(), old_bytes);
    std::memcpy(item->value() + (append ? old_bytes : 0), q.value, q.value_bytes);

    Index::Guard guard = op.index().lock(op.f);
    const Found at = find(op, guard);
    if (at.good != old || at.good->cas(at.state) != old->cas(state)) continue;
    if (const Settled s = publish(op, guard, at, Item::expiry_of(at.state), at.state & word::Accessed::mask);
        s != Settled::done)
      return s;
    op.count().cmd_set.add();
    return op.finish(Status::stored);
  }
}

// --- incr, decr, ma
// -----------------------------------------------------------------------------------------------------------------------

void count_arithmetic(const Operation& op, bool hit) noexcept {
  const bool decrement = op.q.has(option::decrement);
  StoreCounters& c = op.count();
  (decrement ? hit ? c.decr_hits : c.decr_misses : hit ? c.incr_hits : c.incr_misses).add();
}

// Copy on write: an in-place change would let a stale cas win (write protocol 3).
Settled arithmetic(const Operation& op) noexcept {
  const Query& q = op.q;
  Index::Guard guard = op.index().lock(op.f);
  const Found at = find(op, guard);
  if (at.good == nullptr) {
    if (!q.has(option::vivify)) {
      count_arithmetic(op, false);
      return absent(op, guard, at, Status::miss);
    }
    if (op.refused() != Status::none) return op.finish(Status::out_of_memory);
    if (!slot_holds(op, Item::total_bytes(0, q.key_bytes, q.value_bytes))) return Settled::needs_slot;
    Item* const item =
        op.heap().format(op.slot(), q.key_view(), 0, q.value_bytes, 0, op.strip.now_s, q.has(option::binary_key));
    std::memcpy(item->value(), q.value, q.value_bytes);
    if (const Settled s = publish(op, guard, at, q.vivify_expiry_s, 0); s != Settled::done) return s;
    std::uint64_t initial = 0;
    read_number({q.value, q.value_bytes}, initial);
    op.r.number = initial;
    op.r.outcome |= outcome::created;
    return op.finish(Status::number);
  }
  const std::uint64_t old_bytes = op.heap().value_bytes(at.good);
  if (old_bytes == 0) return op.finish(Status::not_a_number);  // before the CAS id is looked at, as memcached does
  if (q.has(option::compare_cas) && q.cas != no_cas && op.cas_of(at.good, at.state) != q.cas)
    return op.finish(Status::exists);
  std::uint64_t number = 0;
  if (at.good->is_huge() || !read_number({at.good->value(), old_bytes}, number)) return op.finish(Status::not_a_number);
  if (op.refused() != Status::none) return op.finish(Status::out_of_memory);
  number = apply_delta(number, q.delta, q.has(option::decrement));
  char digits[20];
  const auto digit_count =
      static_cast<std::uint64_t>(std::to_chars(digits, digits + sizeof digits, number).ptr - digits);
  const std::uint64_t new_bytes = std::max(old_bytes, digit_count);  // a shorter number is padded, as memcached does
  const std::uint32_t flags = at.good->client_flags();
  if (!slot_holds(op, Item::total_bytes(flags, q.key_bytes, new_bytes))) return Settled::needs_slot;
  Item* const item =
      op.heap().format(op.slot(), at.good->key(), flags, new_bytes, 0, op.strip.now_s, at.good->binary_key());
  std::memcpy(item->value(), digits, digit_count);
  std::memset(item->value() + digit_count, ' ', new_bytes - digit_count);
  const std::uint32_t expiry_s = q.has(option::touch) ? q.expiry_s : Item::expiry_of(at.state);
  const std::uint64_t before = at.state;
  // memcached writes a number that is no longer than the old one in place, and then the item keeps its marks.
  const bool in_place = digit_count <= old_bytes;
  const std::uint64_t keep = in_place ? at.state : at.state & word::Accessed::mask;
  if (const Settled s = publish(op, guard, at, expiry_s, keep, !in_place); s != Settled::done) return s;
  op.r.state = word::ExpiryS::put(op.r.state, Item::expiry_of(before));
  op.r.number = number;
  count_arithmetic(op, true);
  return op.finish(Status::number);
}

// --- delete, md
// ---------------------------------------------------------------------------------------------------------------------------

// Marks the item stale under a new CAS id. The id lies partly in the immutable word, so this is a copy too.
Settled invalidate(const Operation& op) noexcept {
  const Query& q = op.q;
  for (;;) {
    std::uint64_t state = 0;
    Item* const old = op.index().find(op.f, q.key_view(), state, op.candidate());
    const bool good = old != nullptr && !op.is_over(old, state);
    const std::uint64_t value_bytes = good ? op.heap().value_bytes(old) : 0;
    if (good && op.refused() == Status::none) {
      const std::uint32_t flags = old->client_flags();
      if (!slot_holds(op, Item::total_bytes(flags, q.key_bytes, value_bytes))) return Settled::needs_slot;
      Item* const item =
          op.heap().format(op.slot(), old->key(), flags, value_bytes, 0, op.strip.now_s, old->binary_key());
      std::memcpy(item->value(), old->value(), value_bytes);
    }
    Index::Guard guard = op.index().lock(op.f);
    const Found at = find(op, guard);
    if (at.good != (good ? old : nullptr) || (good && at.good->cas(at.state) != old->cas(state))) continue;
    if (!good) {
      op.count().delete_misses.add();
      return absent(op, guard, at, Status::miss);
    }
    if (q.has(option::compare_cas) && op.cas_of(at.good, at.state) != q.cas) {
      op.count().delete_misses.add();
      return op.finish(Status::exists);
    }
    if (op.refused() != Status::none) return op.finish(Status::out_of_memory);
    const std::uint32_t expiry_s = q.has(option::touch) ? q.expiry_s : Item::expiry_of(at.state);
    const std::uint64_t keep = (at.state & ~word::Win::mask) | word::Stale::mask;
    if (const Settled s = publish(op, guard, at, expiry_s, keep, false); s != Settled::done) return s;
    return op.finish(Status::removed);
  }
}

// A store that the parser refused.
void count_refused(const Operation& op) noexcept {
  const auto why = static_cast<std::uint16_t>(op.q.options & option::store_no_memory);
  if (why == option::store_no_memory) {
    op.count().store_no_memory.add();
  } else if (why == option::store_too_large) {
    op.count().store_too_large.add();
  } else if (why == option::store_bad_block) {
    op.count().cmd_set.add();
  }
}

// What a refused set leaves of the key: nothing.
Settled remove_refused(const Operation& op) noexcept {
  count_refused(op);
  Index::Guard guard = op.index().lock(op.f);
  const Found at = find(op, guard);
  return absent(op, guard, at, Status::removed);
}

Settled remove(const Operation& op) noexcept {
  if (TD_UNLIKELY(op.q.has(option::store_no_memory))) return remove_refused(op);
  if (op.q.has(option::invalidate)) return invalidate(op);
  Index::Guard guard = op.index().lock(op.f);
  const Found at = find(op, guard);
  if (at.good == nullptr) {
    op.count().delete_misses.add();
    return absent(op, guard, at, Status::miss);
  }
  if (op.q.has(option::compare_cas) && op.cas_of(at.good, at.state) != op.q.cas) {
    op.count().delete_misses.add();
    return op.finish(Status::exists);
  }
  op.r.item = at.good;
  op.r.state = at.state;
  erase(op, guard, at.good);
  op.count().delete_hits.add();
  return op.finish(Status::removed);
}

// --- touch, gat, mg with T, N or R
// -----------------------------------------------------------------------------------------------------------

void answer_hit(const Operation& op, const Found& at) noexcept {
  op.r.item = at.good;
  op.r.state = at.state;
  op.r.value_bytes = static_cast<std::uint32_t>(op.heap().value_bytes(at.good));
  op.r.value_offset = static_cast<std::uint16_t>(at.good->value_offset());
  op.r.outcome = outcome::of_state(at.state);
}

Settled touch(const Operation& op) noexcept {
  Index::Guard guard = op.index().lock(op.f);
  const Found at = find(op, guard);
  op.count().cmd_touch.add();
  if (at.good == nullptr) {
    op.count().touch_misses.add();
    return absent(op, guard, at, Status::miss);
  }
  op.count().touch_hits.add();
  answer_hit(op, at);
  guard.update_state(word::ExpiryS::mask, word::ExpiryS::put(0, op.q.expiry_s));
  mark_access(at.good, at.good->state_acquire(), op.strip.now_s);
  return op.finish(Status::hit);
}

// memcached counts a hit that touches as a touch alone, and a meta get that misses as a get alone.
void count_touching_get(const Operation& op, bool hit) noexcept {
  StoreCounters& c = op.count();
  if (op.q.has(option::touch) && (hit || !op.q.has(option::meta))) {
    c.cmd_touch.add();
    (hit ? c.touch_hits : c.touch_misses).add();
    return;
  }
  c.cmd_get.add();
  (hit ? c.get_hits : c.get_misses).add();
}

Settled get_and_change(const Operation& op) noexcept {
  const Query& q = op.q;
  Index::Guard guard = op.index().lock(op.f);
  Found at = find(op, guard);
  if (at.good == nullptr) {
    if (!q.has(option::vivify)) {
      count_touching_get(op, false);
      return absent(op, guard, at, Status::miss);
    }
    if (op.refused() != Status::none) {
      count_touching_get(op, false);
      return op.finish(Status::out_of_memory);
    }
    if (!slot_holds(op, Item::total_bytes(0, q.key_bytes, 0))) return Settled::needs_slot;
    // Not marked as a binary key, even if it is one: memcached forgets that here, and the next store repairs it.
    op.heap().format(op.slot(), q.key_view(), 0, 0, 0, op.strip.now_s, false);
    const std::uint64_t fetched = q.has(option::no_bump) ? 0 : word::Fetched::mask;
    if (const Settled s = publish(op, guard, at, q.vivify_expiry_s, word::Win::mask | fetched); s != Settled::done)
      return s;
    op.r.state &= ~word::Fetched::mask;  // as it was before this query fetched it
    op.r.outcome = outcome::created | outcome::won;
    count_touching_get(op, true);
    return op.finish(Status::hit);
  }
  answer_hit(op, at);
  const std::uint32_t expiry_s = q.has(option::touch) ? q.expiry_s : Item::expiry_of(at.state);
  if (word::Win::get(at.state) == 0) {
    // Which expiry R looks at depends on where it stands in the line: before T or after.
    const std::uint32_t looked_at_s = q.has(option::recache_first) ? Item::expiry_of(at.state) : expiry_s;
    const std::uint32_t left_s = looked_at_s > op.strip.now_s ? looked_at_s - op.strip.now_s : 0;
    const bool soon = q.has(option::recache) && looked_at_s != Clock::never && left_s < q.recache_ttl_s;
    if (soon || (q.has(option::meta) && word::Stale::get(at.state) != 0)) op.r.outcome |= outcome::won;
  }
  const std::uint64_t win = (op.r.outcome & outcome::won) != 0 ? word::Win::mask : 0;
  guard.update_state(word::ExpiryS::mask | win, word::ExpiryS::put(0, expiry_s) | win);
  if (!q.has(option::no_bump)) mark_access(at.good, at.good->state_acquire(), op.strip.now_s);
  count_touching_get(op, true);
  return op.finish(Status::hit);
}

Settled run(const Operation& op) noexcept {
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

}  // namespace

Settled write_operation(Context& context, Batch& batch, StripState& state, std::uint32_t i) noexcept {
  for (;;) {
    Result& r = batch.result(i);
    r = {};
#if defined(TANDEM_CANARY)
    canary_host_writes = !batch.searched_at(i);
#endif
    const Operation op{context, batch, state, i, batch.query(i), r, batch.fingerprints()[i]};
    if (TD_UNLIKELY(op.q.opcode != Opcode::nothing && !op.context.shared.placement.can_change(op.f)))
      return Settled::needs_room;
    const Settled settled = run(op);
    if (TD_LIKELY(settled != Settled::flushed)) return settled;
    for (SpinWait waiting; context.shared.flush_begins.load(std::memory_order_acquire);) waiting.once();
    state.flush_cas = context.shared.flush_cas.load(std::memory_order_acquire);
  }
}

void win_stale(Context& context, Batch& batch, std::uint32_t i) noexcept {
  const Query& q = batch.query(i);
  Result& r = batch.result(i);
  Index::Guard guard = context.shared.index.lock(batch.fingerprints()[i]);
  Item* const item = guard.find(q.key_view(), batch.candidate(i));
  if (item != r.item) return;  // replaced meanwhile: the value in hand is only stale
  if (word::Win::get(item->state_acquire()) != 0) {
    r.outcome |= outcome::win_sent;
    return;
  }
  guard.update_state(word::Win::mask, word::Win::mask);
  r.outcome |= outcome::won;
}

void remove_garbage(Context& context, Fingerprint f, std::string_view key, Location seen) noexcept {
  Shared& shared = context.shared;
  Location garbage = no_location;
  if (TD_UNLIKELY(!shared.placement.can_change(f))) return;
  {
    Index::Guard guard = shared.index.lock(f);
    Item* const item = guard.find(key, seen);
    if (item == nullptr) return;
    const std::uint64_t state = item->state_acquire();
    if (!is_expired(state, shared.clock.now_s()) &&
        !is_flushed(item, state, shared.flush_cas.load(std::memory_order_acquire)))
      return;
    guard.erase();
    garbage = shared.heap.location_of(item);
  }
  shared.placement.retire(context.cache, {&garbage, 1});
}

}  // namespace tandem::task
