// The body of a set, of a plain query and of a row: in place where possible, else as a new item beside the old one.
#pragma once
#include <optional>

#include "base/large_copy.hpp"
#include "base/racing_copy.hpp"
#include "index/index_kind.hpp"
#include "task/publish-inl.hpp"
#include "task/store_in_place.hpp"

namespace tandem::task {

// Under the key's stripe. A hint is for the guards of a table.
template <IndexGuard G>
TD_INLINE Item* find(G& guard, const SetOperation& op) noexcept {
  if constexpr (requires { guard.find(op.set.key, op.candidate, op.hint); }) {
    return guard.find(op.set.key, op.candidate, op.hint);
  } else {
    return guard.find(op.set.key, op.candidate);
  }
}

// Rewrites the candidate if possible, as Rewrites says.
template <IndexKind I>
TD_INLINE bool store_in_place(Context& context, const SetOperation& op, ItemVersion& stored) noexcept {
  if (op.candidate == no_location) return false;
  Heap& heap = context.shared.heap;
  Item* const item = heap.at(op.candidate);
  // An item's lengths never change, so most sets that go beside need no closer look.
  if (item->small_value_bytes() != op.set.value.size() || op.set.value.size() > rewritten_value_bytes_max ||
      !may_store_in_place(context))
    return false;
  const auto rewrite = [&]() TD_INLINE_LAMBDA {
    if constexpr (AnnouncingGuard<typename I::Guard>) {
      const Rewrites rewrites = context.shared.rewrites.load(std::memory_order_relaxed);
      if (TD_UNLIKELY(rewrites == Rewrites::announced)) {
        typename I::Guard guard = context.shared.index_as<I>().lock(op.f);
        return find(guard, op) == item && try_store_announced(context, guard, item, op.set, op.time, stored);
      }
      if (TD_UNLIKELY(rewrites == Rewrites::marked)) {
        if (!try_store_in_place(context, item, op.set, op.time, stored)) return false;
        context.shared.dirty->mark(item);
        return true;
      }
    }
    return try_store_in_place(context, item, op.set, op.time, stored);
  };
  if (!rewrite()) return false;
  // S3-FIFO treats this as a new item that replaces the old one, as any set of a present key.
  if (TD_UNLIKELY(heap.probation() != nullptr)) admit(heap, op.f, op.candidate, false);
  return true;
}

// Fills `slot` with the set's item, or one from the cache where it is no_location. False: none is at hand.
TD_INLINE bool fill_slot(Context& context, const SetOperation& op, Location& slot) noexcept {
  Heap& heap = context.shared.heap;
  const PlainSet& set = op.set;
  const std::uint64_t bytes = Item::total_bytes(set.client_flags, set.key.size(), set.value.size());
  const SizeClass c = heap.size_class(bytes);
  if (slot == no_location) {
    if (c == huge_class || bytes > context.shared.policy.item_bytes_max) return false;  // MM takes or refuses it
    const Heap::Cache::Lock lock(context.cache);
    context.retire_displaced_now();
    slot = heap.allocate(context.cache, c, bytes);
  }
  if (TD_UNLIKELY(slot == no_location)) return false;
  const auto format = [&]() TD_INLINE_LAMBDA {
    if (TD_LIKELY(c != huge_class))
      return heap.format_slot(slot, set.key, set.client_flags, set.value.size(), set.expiry_s, op.time.now_s,
                              set.binary_key);
    return heap.format(slot, set.key, set.client_flags, set.value.size(), set.expiry_s, op.time.now_s, set.binary_key)
        ->value();
  };
  char* const value = format();
  constexpr std::size_t inline_bytes_max = 64;  // a call of memcpy costs more
  if (TD_LIKELY(set.value.size() <= inline_bytes_max)) {
    racing_copy(value, set.value.data(), set.value.size());
  } else {
    copy_to_heap(value, set.value.data(), set.value.size());
  }
  return true;
}

// Makes the item in `slot` the key's; then the slot is no_location. decide(guard, at, publication) is called under the
// key's stripe and may change the publication; what it returns, if anything, is the set's outcome, and nothing is
// stored. needs_room: no cell is at hand.
template <IndexKind I, class Decide>
TD_INLINE Settled store_beside(Context& context, const SetOperation& op, Location& slot, ItemVersion& stored,
                               Decide decide) noexcept {
  I& index = context.shared.index_as<I>();
  for (Leaf* leaf = op.leaf;; leaf = nullptr) {
    Settled settled = Settled::done;
    {
      typename I::Guard guard = index.lock(op.f);
      const PresentItem at = judge(guard, find(guard, op), op.time);
      Publication what{op.f, slot, op.set.expiry_s, at.good != nullptr ? at.seen.state & word::Accessed::mask : 0};
      if (const std::optional<Settled> other = decide(guard, at, what)) {
        settled = *other;
      } else {
        if constexpr (requires { guard.expect_in(leaf); }) guard.expect_in(leaf);  // of a kind with leaves
        settled = publish_slot(context, guard, what, at, op.time, stored);
        if (TD_LIKELY(settled == Settled::done)) slot = no_location;
      }
    }
    if (TD_LIKELY(settled == Settled::done)) return settled;
    if (settled == Settled::changed) continue;
    // A full leaf is divided. Elsewhere, and where a leaf has to be paid for, room is made outside the epoch.
    const bool is_free = index.is_ordered() && !context.shared.growth_refused.load(std::memory_order_relaxed);
    if (settled != Settled::needs_room || !is_free || !index.make_room(op.f, op.set.key)) return settled;
  }
}

// Executes a set without conditions; `stored` receives the new version. False: no slot or no cell is at hand, and
// nothing has changed.
template <IndexKind I>
bool store_plain(Context& context, const SetOperation& op, ItemVersion& stored) noexcept {
  if (store_in_place<I>(context, op, stored)) return true;
  Location slot = no_location;
  if (TD_UNLIKELY(!fill_slot(context, op, slot))) return false;
  constexpr auto always = [](const auto&, const PresentItem&, const Publication&) { return std::optional<Settled>(); };
  const Settled settled = store_beside<I>(context, op, slot, stored, always);
  if (TD_LIKELY(settled == Settled::done)) return true;
  const Heap::Cache::Lock lock(context.cache);
  context.shared.heap.release(context.cache, slot);
  return false;
}

}  // namespace tandem::task
