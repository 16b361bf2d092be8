// A set that rewrites its key's item in place: no slot, no stripe, no change of the index (docs/decisions/0026).
#pragma once
#include <string_view>

#include "base/bytes_equal.hpp"
#include "base/racing_copy.hpp"
#include "base/spin_wait.hpp"
#include "heap/item_rewrite.hpp"
#include "query/query.hpp"
#include "task/context.hpp"

namespace tandem::task {

// A set without conditions: mode set, no CAS id to compare.
struct PlainSet {
  std::string_view key, value;
  std::uint32_t client_flags, expiry_s;
  bool binary_key;
};

TD_INLINE bool is_plain_set(const Query& q) noexcept {
  return q.opcode == Opcode::store && q.mode == StoreMode::set && !q.has(option::compare_cas | option::prefilled) &&
         q.value_bytes <= rewritten_value_bytes_max;
}

// What the judgement of the old item goes by: the strip's.
struct StripTime {
  std::uint32_t now_s;
  std::uint64_t flush_cas;
};

// Whether this context's sets may try at all now. Not under an observer, which is told of every look-up; not where a
// replica has the items' values; with a memory file only if there was a redo record left for the context.
TD_INLINE bool may_store_in_place(const Context& context) noexcept {
  return context.shared.rewrites_items && context.observer == nullptr &&
         (context.shared.saved == nullptr || context.redo != nullptr);
}

// The fixed word of an item that the set can rewrite, but for its CAS id.
TD_INLINE std::uint64_t layout_of(const PlainSet& set) noexcept {
  return word::KeyBytes::put(0, set.key.size()) | word::ValueBytes::put(0, set.value.size()) |
         word::HasFlags::put(0, set.client_flags != 0) | word::BinaryKey::put(0, set.binary_key);
}

// Whether the item, as it is now, is one to rewrite: live, good, with this key, these client flags and a value of this
// length. Stale items are not, nor those whose token to recache is out: a reader was told so of this very item.
TD_INLINE bool is_rewritable(const Item* item, const ItemVersion& seen, const PlainSet& set,
                             const StripTime& time) noexcept {
  constexpr std::uint64_t state_mask = word::State::mask | word::Stale::mask | word::Win::mask;
  if ((seen.state & state_mask) != static_cast<std::uint64_t>(ItemState::live)) return false;
  if ((seen.fixed & ~word::CasLow::mask) != layout_of(set)) return false;
  if (TD_UNLIKELY(set.client_flags != 0 && item->client_flags() != set.client_flags)) return false;
  return bytes_equal(item->bytes() + sizeof(Item) + (set.client_flags != 0 ? sizeof set.client_flags : 0),
                     set.key.data(), set.key.size()) &&
         !is_over(seen, time.now_s, time.flush_cas);
}

// What came of an attempt to rewrite an item.
enum class Rewritten : std::uint8_t {
  done,
  refused,  // nothing has changed: the set has to go the other way
  changed,  // so has the item's state word: it is to be judged again
};

// Rewrites `item`, which was judged (is_rewritable) by its words `seen`, and tells its new version. changed: `seen` has
// its present state word. REQUIRES: as try_store_in_place().
TD_INLINE Rewritten rewrite_item(Context& context, Item* item, ItemVersion& seen, const PlainSet& set,
                                 const StripTime& time, ItemVersion& stored) noexcept {
  TD_DEBUG_ASSERT(set.value.size() <= rewritten_value_bytes_max);
  // A reader that has judged the item copies whatever version it meets: none may have expired from the first.
  if (TD_UNLIKELY(is_expired(word::ExpiryS::put(0, set.expiry_s), time.now_s))) return Rewritten::refused;
  std::uint64_t now = seen.state;
  if (TD_UNLIKELY(!item->state_word.compare_exchange_strong(now, rewriting_state(now), std::memory_order_acquire,
                                                            std::memory_order_acquire))) {
    seen.state = now;
    return Rewritten::changed;
  }
  fence_release();  // who sees what follows sees the lock
  // Again: the state word may have been a later version's, and the new id must be larger than that one's.
#if defined(TANDEM_CANARY)
  if (!canary_bites("stale_fixed"))
#endif
    seen.fixed = item->fixed();
  const std::uint64_t cas = context.cas.next(context.shared, seen.cas());
  // The old item was judged by the strip's mark, as in a set beside.
  if (TD_UNLIKELY(cas == 0 || context.shared.flush_cas.load(std::memory_order_acquire) != time.flush_cas)) {
    unlock_item(item, seen.state);
    return Rewritten::refused;
  }
  stored.fixed = word::CasLow::put(seen.fixed, cas & word::CasLow::limit);
  stored.state = static_cast<std::uint64_t>(ItemState::live) | (seen.state & word::Accessed::mask) |
                 word::CasHigh::put(0, cas >> word::CasLow::width) | word::AccessS::put(0, time.now_s) |
                 word::ExpiryS::put(0, set.expiry_s);
  auto* const redo = context.redo;
#if defined(TANDEM_CANARY)
  if (!canary_bites("no_redo"))
#endif
    if (TD_UNLIKELY(redo != nullptr)) redo->write(context.shared.heap.location_of(item), stored, set.value);
  item->fixed_word.store(stored.fixed, std::memory_order_relaxed);
  char* const value =
      item->bytes() + sizeof(Item) + (set.client_flags != 0 ? sizeof set.client_flags : 0) + set.key.size();
  racing_copy(value, set.value.data(), set.value.size());
  unlock_item(item, stored.state);
  if (TD_UNLIKELY(redo != nullptr)) redo->clear();
  return Rewritten::done;
}

// Rewrites `item`, the candidate of the set's key, if it can be, and tells its new version. False: nothing has changed,
// and the set has to go the other way. Waits for another thread that rewrites the item. REQUIRES: inside the epoch in
// which `item` was found; may_store_in_place(); at most rewritten_value_bytes_max bytes of value; no earlier query of
// the strip has a hit on `item` that is still to be copied.
TD_INLINE bool try_store_in_place(Context& context, Item* item, const PlainSet& set, const StripTime& time,
                                  ItemVersion& stored) noexcept {
  ItemVersion seen = ItemVersion::of(item);
  for (;;) {
    if (TD_UNLIKELY(is_rewriting(seen.state))) seen.state = wait_while_rewriting(item);
    if (!is_rewritable(item, seen, set, time)) return false;
    const Rewritten r = rewrite_item(context, item, seen, set, time, stored);
    if (TD_LIKELY(r != Rewritten::changed)) return r == Rewritten::done;
  }
}

}  // namespace tandem::task
