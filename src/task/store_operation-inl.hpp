// store: set, add, replace, cas and ms. In place where possible, else as a new item beside the old one.
#pragma once
#include <optional>

#include "task/key_compare.hpp"
#include "task/operation-inl.hpp"
#include "task/store_plain-inl.hpp"

namespace tandem::task {

// A store without memory, or too large. As in memcached, some modes remove the key's item.
template <IndexKind I>
Settled refuse_store(const Operation<I>& op) noexcept {
  if (op.q.removes_if_refused()) {
    typename I::Guard guard = op.index().lock(op.f);
    const PresentItem at = find(op, guard);
    if (at.found != nullptr && !erase(op, guard, at.found)) return Settled::changed;
  }
  (op.refused() == Status::too_large ? op.count().store_too_large : op.count().store_no_memory).add();
  return op.finish(op.refused());
}

// What the query's conditions say of the key's item: nothing, and the set is stored, or how it is answered.
template <IndexKind I>
TD_INLINE std::optional<Settled> decide(const Operation<I>& op, typename I::Guard& guard, const PresentItem& at,
                                        Publication& what) noexcept {
  const Query& q = op.q;
  if (TD_UNLIKELY(op.context.observer != nullptr)) observe(op, at);
  if (q.has(option::compare_cas) && q.mode != StoreMode::add) {
    if (at.good == nullptr)
      return absent(op, guard, at, Status::not_found, op.count().cmd_set, op.count_in_own_class().cmd_set,
                    op.count().cas_misses);
    const std::uint64_t cas = op.cas_of(at.seen);
    if (cas != q.cas || q.cas == no_cas) {
      // Meta set with I: a smaller CAS id may still store its value, marked stale, with the old item's expiry.
      if (!q.has(option::invalidate) || q.cas == no_cas || q.cas >= cas) {
        op.count_set();
        op.count().cas_badval.add();
        op.count_in_class_of(at.good).cas_badval.add();
        return op.finish(Status::exists);
      }
      what.expiry_s = Item::expiry_of(at.seen.state);
      what.keep |= word::Stale::mask | (at.seen.state & word::Win::mask);
    }
  } else if (q.mode == StoreMode::add && at.good != nullptr) {
    mark_access(at.good, at.seen.state, op.state.now_s, word::Accessed::mask);  // used, but not fetched
    op.count_set();
    return op.finish(Status::not_stored);
  } else if (q.mode == StoreMode::replace && at.good == nullptr) {
    return absent(op, guard, at, Status::not_stored, op.count().cmd_set, op.count_in_own_class().cmd_set);
  }
  return std::nullopt;
}

template <IndexKind I>
Settled store(const Operation<I>& op) noexcept {
  if (op.refused() != Status::none) return refuse_store(op);
  const Query& q = op.q;
  const SetOperation set{
      .set = {q.key_view(), {q.value, q.value_bytes}, q.client_flags, q.expiry_s, q.has(option::binary_key)},
      .f = op.f,
      .time = op.time(),
      .candidate = op.batch.locations()[op.i]};
  ItemVersion stored;
  const Item* item = op.heap().at(set.candidate);
  const bool needs_old = q.has(option::compare_cas | option::returns_old);
  PresentItem old;
  if (TD_LIKELY(is_plain_set(q) && store_in_place<I>(op.context, set, stored))) {
    if constexpr (StampsAccesses<I>) op.index().note_access(op.f, set.candidate, op.index().stamp_now());
  } else {
    if (TD_UNLIKELY(!q.has(option::prefilled) && !fill_slot(op.context, set, op.slot()))) return Settled::needs_slot;
    item = op.heap().at(op.slot());
    const Settled settled =
        store_beside<I>(op.context, set, op.slot(), stored,
                        [&](typename I::Guard& guard, const PresentItem& at, Publication& what) TD_INLINE_LAMBDA {
                          if (TD_UNLIKELY(needs_old)) old = at;
                          return decide(op, guard, at, what);
                        });
    if (settled != Settled::done || op.slot() != no_location) return settled;
  }
  op.show(item, stored, q.value_bytes);
  op.count().total_items.add();
  op.count_set();
  if (TD_UNLIKELY(needs_old)) {
    if (q.has(option::compare_cas) && q.mode != StoreMode::add) {
      op.count().cas_hits.add();
      op.count_in_class_of(old.good).cas_hits.add();
    }
    if (q.has(option::returns_old)) answer_displaced(op, old);
  }
  return op.finish(Status::stored);
}

}  // namespace tandem::task
