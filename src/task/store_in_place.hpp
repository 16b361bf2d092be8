// A set that rewrites its key's item in place, without a slot or a change of the index, and without a stripe unless
// devices have copies of items (docs/decisions/0026).
#pragma once
#include <string_view>
#include <type_traits>

#include "base/bytes_equal.hpp"
#include "base/racing_copy.hpp"
#include "base/spin_wait.hpp"
#include "heap/item_rewrite.hpp"
#include "index/index_kind.hpp"
#include "query/query.hpp"
#include "task/context.hpp"

namespace tandem {

struct Leaf;

namespace task {

// A set without conditions: mode set, no CAS id to compare. One that returns the old item leaves that as it is.
struct PlainSet {
  std::string_view key, value;
  std::uint32_t client_flags, expiry_s;
  bool binary_key;
  bool shows_id = true;  // its reply has its CAS id
};

TD_INLINE bool is_plain_set(const Query& q) noexcept {
  return q.opcode == Opcode::store && q.mode == StoreMode::set &&
         !q.has(option::compare_cas | option::prefilled | option::returns_old) &&
         q.value_bytes <= rewritten_value_bytes_max;
}

// The strip's time and flush mark, by which old items are judged.
struct StripTime {
  std::uint32_t now_s;
  std::uint64_t flush_cas;
};

// A set, and what its search has found.
struct SetOperation {
  PlainSet set;
  Fingerprint f;
  StripTime time;
  Location candidate;                   // no_location: none
  const std::uint64_t* hint = nullptr;  // as for CuckooIndex::Guard::find()
  Leaf* leaf = nullptr;                 // of a new key: as KeyTree::hold() wants it
};

// Whether this context's sets may rewrite in place. False under an observer, which receives every look-up; with a
// memory file true only if the context has a redo record.
TD_INLINE bool may_store_in_place(const Context& context) noexcept {
  return context.observer == nullptr && (context.shared.saved == nullptr || context.redo != nullptr);
}

// The fixed word, CAS id excluded, of an item that the set can rewrite.
TD_INLINE std::uint64_t layout_of(const PlainSet& set) noexcept {
  return word::KeyBytes::put(0, set.key.size()) | word::ValueBytes::put(0, set.value.size()) |
         word::HasFlags::put(0, set.client_flags != 0) | word::BinaryKey::put(0, set.binary_key);
}

// Whether the set can rewrite the item at version `seen`: live, good, with the set's key, client flags and value
// length. Not if it is stale or its recache token is taken, which a client was told about this very item.
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

// Outcome of an attempt to rewrite an item.
enum class Rewritten : std::uint8_t {
  done,
  refused,  // nothing has changed: the set must go beside
  changed,  // nothing, but the item's state word has: the caller judges it again
};

// What a set in place does beside the item, before its new version can be read: nothing.
inline constexpr auto tell_nobody = [](const ItemVersion&) noexcept {};
template <class Tell>
inline constexpr bool tells_nobody = std::is_same_v<std::remove_cv_t<Tell>, std::remove_cv_t<decltype(tell_nobody)>>;

// Whether another set has rewritten the item since seen.fixed was read: nothing else changes that word while the item's
// epoch lasts. Then a set that began to execute before that takes effect just before the other one, which no client can
// tell from being overwritten at once: it need not write anything (publishing elimination: Srivastava and Brown,
// "Elimination (a,b)-trees with fast, durable updates", PPoPP 2022; theirs finds the other by a record in the leaf).
// The other one may still hold the item's lock; it succeeds, as all that can refuse it comes before, and readers wait
// for it. Only of a set that shows no id: an item's ids grow, and a new one could be higher than the other set's.
TD_INLINE bool is_overwritten(const Item* item, const ItemVersion& seen) noexcept {
  return item->fixed_word.load(std::memory_order_acquire) != seen.fixed;
}

// Rewrites `item`, which is_rewritable() has judged by its words `seen`; `stored` receives the new version, unless
// another set has overwritten it. changed: `seen.state` receives the present state word. tell(version): called under
// the item's lock, when all but its state word is written. REQUIRES: as try_store_in_place(); seen.fixed was read when
// all earlier queries of the strip had taken effect.
template <class Tell>
TD_INLINE Rewritten rewrite_item(Context& context, Item* item, ItemVersion& seen, const PlainSet& set,
                                 const StripTime& time, ItemVersion& stored, Tell tell) noexcept {
  TD_DEBUG_ASSERT(set.value.size() <= rewritten_value_bytes_max);
  // A reader that has judged the item copies any later version, so no version may be expired when it is written.
  if (TD_UNLIKELY(is_expired(word::ExpiryS::put(0, set.expiry_s), time.now_s))) return Rewritten::refused;
  std::uint64_t now = seen.state;
  if (TD_UNLIKELY(!item->state_word.compare_exchange_strong(now, rewriting_state(now), std::memory_order_acquire,
                                                            std::memory_order_acquire))) {
    if constexpr (tells_nobody<Tell>) {
      if (!set.shows_id && is_overwritten(item, seen)) {
        context.counters.set_overwritten.add();
        return Rewritten::done;
      }
    }
    seen.state = now;
    return Rewritten::changed;
  }
  fence_release();  // a reader that sees a later store sees the lock
  // Read again: the state word may be a later version's, and the new id must be larger than that version's.
#if defined(TANDEM_CANARY)
  if (!canary_bites("stale_fixed"))
#endif
    seen.fixed = item->fixed();
  const std::uint64_t cas = context.cas.next(context.shared, seen.cas());
  // The old item was judged by the strip's flush mark, as in publish_slot().
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
  tell(stored);
  unlock_item(item, stored.state);
  if (TD_UNLIKELY(redo != nullptr)) redo->clear();
  return Rewritten::done;
}

// Whether the item is the set's, alive or not, and would be rewritten by the set.
TD_INLINE bool has_layout_of(const Item* item, const ItemVersion& seen, const PlainSet& set) noexcept {
  return (seen.fixed & ~word::CasLow::mask) == layout_of(set) && item->has_key(set.key);
}

// Waits until the item is not locked, or the set is overwritten. Returns which, and updates `seen.state`.
TD_NOINLINE inline bool wait_or_be_overwritten(const Item* item, ItemVersion& seen) noexcept {
  for (SpinWait waiting;; waiting.once()) {
    if (is_overwritten(item, seen)) return true;
    seen.state = item->state_acquire();
    if (!is_rewriting(seen.state)) return is_overwritten(item, seen);
  }
}

// Rewrites `item`, the candidate of the set's key, if possible; `stored` receives the new version. False: nothing has
// changed, and the set must go beside. Waits for another thread that rewrites the item, and writes nothing if that was
// a set which began later. REQUIRES: inside the epoch in which `item` was found; may_store_in_place(); at most
// rewritten_value_bytes_max bytes of value; no earlier query of the strip has a hit on `item` with a value that is not
// copied yet.
template <class Tell = decltype(tell_nobody)>
TD_INLINE bool try_store_in_place(Context& context, Item* item, const PlainSet& set, const StripTime& time,
                                  ItemVersion& stored, Tell tell = tell_nobody) noexcept {
  ItemVersion seen = ItemVersion::of(item);
  for (;;) {
    if (TD_UNLIKELY(is_rewriting(seen.state))) {
      if (!has_layout_of(item, seen, set)) return false;
      if (!tells_nobody<Tell> || set.shows_id) {
        seen.state = wait_while_rewriting(item);
      } else if (wait_or_be_overwritten(item, seen)) {
        context.counters.set_overwritten.add();
        return true;
      }
    }
    if (!is_rewritable(item, seen, set, time)) return false;
    const Rewritten r = rewrite_item(context, item, seen, set, time, stored, tell);
    if (TD_LIKELY(r != Rewritten::changed)) return r == Rewritten::done;
  }
}

// The same where devices have copies of items (Rewrites::announced): the copies follow the index's log, in which
// only the holder of the key's stripe announces a change. The item is in this processor's cache, so its image is put
// there as well, and no drain has to read it. REQUIRES: guard.find() returned `item`.
template <AnnouncingGuard G>
bool try_store_announced(Context& context, G& guard, Item* item, const PlainSet& set, const StripTime& time,
                         ItemVersion& stored) noexcept {
  if (!is_rewritable(item, guard.version(), set, time)) return false;
  return guard.rewrite_item([&](const ImageSlot& slot) noexcept {
    return try_store_in_place(context, item, set, time, stored, [&](const ItemVersion& now) noexcept {
      if (TD_LIKELY(slot.granules != nullptr)) slot.publish(item, now.state, now.fixed);
    });
  });
}

}  // namespace task
}  // namespace tandem
