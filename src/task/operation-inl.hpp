// Shared by the operations of one query (write_operation-inl.hpp, store_operation-inl.hpp).
//
// Thread safety: as write_operation().
#pragma once
#include <cstring>
#include <utility>

#include "index/index_kind.hpp"
#include "task/publish-inl.hpp"
#include "task/query_state.hpp"
#include "task/settled.hpp"
#include "task/store_in_place.hpp"

namespace tandem::task {

inline constexpr std::uint64_t no_cas = 0;

// What an operation of one query works with.
template <IndexKind I>
struct Operation {
  Context& context;
  Batch& batch;
  QueryState& state;
  std::uint32_t i;
  const Query& q;
  Result& r;
  Fingerprint f;

  I& index() const noexcept { return context.shared.index_as<I>(); }
  Heap& heap() const noexcept { return context.shared.heap; }
  Location& slot() const noexcept { return state.slot; }
  Location candidate() const noexcept { return batch.candidate(i); }
  Status refused() const noexcept { return state.refused; }
  StoreCounters& count() const noexcept { return context.counters; }
  // Of the item's size class, and of the class that the query's value asks for.
  ClassCounters& count_in_class_of(const Item* item) const noexcept {
    return context.classes[heap().class_of(heap().location_of(item))];
  }
  ClassCounters& count_in_own_class() const noexcept {
    return context.classes[heap().size_class(Item::total_bytes(q.client_flags, q.key_bytes, q.value_bytes))];
  }
  void count_set() const noexcept {
    count().cmd_set.add();
    count_in_own_class().cmd_set.add();
  }

  StripTime time() const noexcept { return {state.now_s, state.flush_cas}; }
  bool is_over(const ItemVersion& seen) const noexcept { return tandem::is_over(seen, state.now_s, state.flush_cas); }
  // The CAS id that clients see: with CAS off it is 0.
  std::uint64_t cas_of(const ItemVersion& seen) const noexcept {
    return context.shared.policy.cas ? seen.cas() : no_cas;
  }
  Settled finish(Status status) const noexcept {
    r.status = status;
    return Settled::done;
  }
  // The result tells of the item that the query has stored.
  void show(const Item* item, const ItemVersion& stored, std::uint64_t value_bytes) const noexcept {
    r.item = item;
    r.state = stored.state;
    r.number = stored.cas();
    r.value_bytes = static_cast<std::uint32_t>(value_bytes);
    r.value_offset = static_cast<std::uint16_t>(item->value_offset());
  }
};

template <IndexKind I>
TD_NOINLINE void observe(const Operation<I>& op, const PresentItem& at) noexcept {
  Lookup lookup = Lookup::found;
  if (at.found == nullptr) {
    lookup = Lookup::not_found;
  } else if (at.good == nullptr) {
    lookup = is_expired(at.seen.state, op.state.now_s) ? Lookup::expired : Lookup::flushed;
  }
  op.context.observer->looked_up(op.q, lookup, at.good);
}

template <IndexKind I>
PresentItem find(const Operation<I>& op, typename I::Guard& guard) noexcept {
  const PresentItem at = judge(guard, guard.find(op.q.key_view(), op.candidate()), op.time());
  if (TD_UNLIKELY(op.context.observer != nullptr)) observe(op, at);
  return at;
}

// Gives the slot's item its CAS id and makes it the key's item. `keep`: state bits beside state, CAS, expiry and access
// second. `is_new`: the statistics count a new item rather than a change of the old one.
template <IndexKind I>
Settled publish(const Operation<I>& op, typename I::Guard& guard, const PresentItem& old, std::uint32_t expiry_s,
                std::uint64_t keep, bool is_new = true) noexcept {
  ItemVersion published;
  const Settled settled = publish_slot(op.context, guard, {op.f, op.slot(), expiry_s, keep}, old, op.time(), published);
  if (TD_UNLIKELY(settled != Settled::done)) return settled;
  const Item* const item = op.heap().at(std::exchange(op.slot(), no_location));
  op.show(item, published, op.heap().value_bytes(item));
  if (is_new) op.count().total_items.add();
  return Settled::done;
}

template <IndexKind I>
[[nodiscard]] bool erase(const Operation<I>& op, typename I::Guard& guard, const Item* item) noexcept {
  if (TD_UNLIKELY(!guard.erase())) return false;
  op.context.displace(item);
  return true;
}

// Removes an expired or flushed item; counts and answers as for an absent key.
template <IndexKind I, class... Counters>
Settled absent(const Operation<I>& op, typename I::Guard& guard, const PresentItem& at, Status status,
               Counters&... counters) noexcept {
  if (at.found != nullptr && !erase(op, guard, at.found)) return Settled::changed;
  (counters.add(), ...);
  return op.finish(status);
}

// The result of a write that returns the item which it has displaced under the stripe; of none if the key had none.
template <IndexKind I>
TD_NOINLINE void answer_displaced(const Operation<I>& op, const PresentItem& at) noexcept {
  const Item* old = at.good;
#if defined(TANDEM_CANARY)
  const Location searched = op.batch.locations()[op.i];
  if (canary_bites("old_outside") && old != nullptr && searched != no_location &&
      op.heap().at(searched)->has_key(op.q.key_view()))
    old = op.heap().at(searched);
#endif
  if (old == nullptr) return;
  op.r.item = old;
  op.r.state = at.seen.state;
  op.r.value_bytes = static_cast<std::uint32_t>(op.heap().value_bytes(old));
  op.r.value_offset = static_cast<std::uint16_t>(old->value_offset());
  op.r.outcome = outcome::displaced | outcome::of_state(at.seen.state);
}

// Copies the old item's value into a new one. If a set rewrites it during the copy, the version check under the stripe
// fails.
inline void copy_value(char* to, const Item* old, std::uint64_t bytes) noexcept {
  if (bytes <= rewritten_value_bytes_max) {
    racing_copy(to, old->value(), bytes);
  } else {
    std::memcpy(to, old->value(), bytes);
  }
}

template <IndexKind I>
bool slot_holds(const Operation<I>& op, std::uint64_t item_bytes) noexcept {
  return op.slot() != no_location && op.heap().capacity_bytes(op.slot()) >= item_bytes;
}

}  // namespace tandem::task
