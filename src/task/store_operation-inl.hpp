// store: set, add, replace, cas and ms. In place where possible, else as a new item beside the old one.
#pragma once
#include "base/large_copy.hpp"
#include "task/key_compare.hpp"
#include "task/operation-inl.hpp"

namespace tandem::task {

// Whether an earlier query of the strip has a hit on the item, whose value is copied only when the strip is answered.
template <IndexKind I>
bool is_read_by_strip(const Operation<I>& op, const Item* item) noexcept {
#if defined(TANDEM_CANARY)
  if (canary_bites("get_after_set")) return false;
#endif
  if (!op.strip.has_hits) return false;
  const Result* const results = op.batch.results();
  for (std::uint32_t j = op.strip.strip.begin; j < op.i; ++j) {
    if (TD_UNLIKELY(results[j].item == item) && results[j].status == Status::hit) return true;
  }
  return false;
}

// try_store_in_place(), under the key's stripe where devices have copies of items.
template <IndexKind I>
bool rewrite(const Operation<I>& op, Item* item, const PlainSet& set, ItemVersion& stored) noexcept {
  const StripTime time{op.strip.now_s, op.strip.flush_cas};
  if constexpr (AnnouncingGuard<typename I::Guard>) {
    if (TD_UNLIKELY(op.context.shared.announces_rewrites.load(std::memory_order_relaxed))) {
      if (item->small_value_bytes() != set.value.size()) return false;
      typename I::Guard guard = op.index().lock(op.f);
      return guard.find(set.key, op.heap().location_of(item)) == item &&
             try_store_announced(op.context, guard, item, set, time, stored);
    }
  }
  return try_store_in_place(op.context, item, set, time, stored);
}

// Executes the set in place if possible, changing only the item.
template <IndexKind I>
bool store_in_place(const Operation<I>& op) noexcept {
  const Location found = op.batch.locations()[op.i];
  if (!is_plain_set(op.q) || found == no_location || !may_store_in_place(op.context)) return false;
  Item* const item = op.heap().at(found);
  if (TD_UNLIKELY(is_read_by_strip(op, item))) return false;
  const PlainSet set{
      op.q.key_view(), {op.q.value, op.q.value_bytes}, op.q.client_flags, op.q.expiry_s, op.q.has(option::binary_key)};
  ItemVersion stored;
  if (!rewrite(op, item, set, stored)) return false;
  // S3-FIFO treats this as a new item that replaces the old one, as any set of a present key.
  if (TD_UNLIKELY(op.heap().probation() != nullptr))
    op.strip.published[op.strip.published_count++] = {op.f, found, false};
  if constexpr (StampsAccesses<I>) op.index().note_access(op.f, found, op.index().stamp_now());
  op.r.item = item;
  op.r.state = stored.state;
  op.r.number = stored.cas();
  op.r.value_bytes = op.q.value_bytes;
  op.r.value_offset = static_cast<std::uint16_t>(item->value_offset());
  op.r.status = Status::stored;
  op.count().total_items.add();
  op.count_set();
  return true;
}

// Fills a slot with the query's item: the slot that MM prepared, or one from the cache. False: none is available.
template <IndexKind I>
bool fill_slot(const Operation<I>& op) noexcept {
  const Query& q = op.q;
  if (op.slot() == no_location) {
    const std::uint64_t bytes = Item::total_bytes(q.client_flags, q.key_bytes, q.value_bytes);
    if (bytes > op.context.shared.policy.item_bytes_max) return false;  // MM refuses it
    const Heap::Cache::Lock lock(op.context.cache);
    op.slot() = op.heap().allocate(op.context.cache, op.heap().size_class(bytes), bytes);
    if (TD_UNLIKELY(op.slot() == no_location)) return false;
  }
  if (q.has(option::prefilled)) return true;
  Item* const item = op.heap().format(op.slot(), q.key_view(), q.client_flags, q.value_bytes, q.expiry_s,
                                      op.strip.now_s, q.has(option::binary_key));
  if (TD_LIKELY(q.value_bytes != 0)) copy_to_heap(item->value(), q.value, q.value_bytes);  // it may have no address
  return true;
}

// A store without memory, or too large. As in memcached, some modes remove the key's item.
template <IndexKind I>
Settled refuse_store(const Operation<I>& op) noexcept {
  if (op.q.removes_if_refused()) {
    typename I::Guard guard = op.index().lock(op.f);
    const Found at = find(op, guard);
    if (at.found != nullptr && !erase(op, guard, at.found)) return Settled::changed;
  }
  (op.refused() == Status::too_large ? op.count().store_too_large : op.count().store_no_memory).add();
  return op.finish(op.refused());
}

// Publishes the slot's item as the key's. Usual: neither compares a CAS id nor returns the old item.
template <bool Usual, IndexKind I>
Settled store_beside(const Operation<I>& op) noexcept {
  const Query& q = op.q;
  typename I::Guard guard = op.index().lock(op.f);
  const Found at = find(op, guard);
  std::uint32_t expiry_s = q.expiry_s;
  std::uint64_t keep = at.good != nullptr ? at.seen.state & word::Accessed::mask : 0;
  const bool compare = !Usual && q.has(option::compare_cas) && q.mode != StoreMode::add;
  if (compare) {
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
      expiry_s = Item::expiry_of(at.seen.state);
      keep |= word::Stale::mask | (at.seen.state & word::Win::mask);
    }
  } else if (q.mode == StoreMode::add && at.good != nullptr) {
    mark_access(at.good, at.seen.state, op.strip.now_s, word::Accessed::mask);  // used, but not fetched
    op.count_set();
    return op.finish(Status::not_stored);
  } else if (q.mode == StoreMode::replace && at.good == nullptr) {
    return absent(op, guard, at, Status::not_stored, op.count().cmd_set, op.count_in_own_class().cmd_set);
  }
  if (const Settled s = publish(op, guard, at, expiry_s, keep); s != Settled::done) return s;
  op.count_set();
  if constexpr (!Usual) {
    if (compare) {
      op.count().cas_hits.add();
      op.count_in_class_of(at.good).cas_hits.add();
    }
    if (q.has(option::returns_old)) answer_displaced(op, at);
  }
  return op.finish(Status::stored);
}

template <IndexKind I>
Settled store(const Operation<I>& op) noexcept {
  if (op.refused() != Status::none) return refuse_store(op);
  if (TD_LIKELY(store_in_place(op))) return Settled::done;
  if (TD_UNLIKELY(!fill_slot(op))) return Settled::needs_slot;
  return TD_UNLIKELY(op.q.has(option::compare_cas | option::returns_old)) ? store_beside<false>(op)
                                                                          : store_beside<true>(op);
}

}  // namespace tandem::task
