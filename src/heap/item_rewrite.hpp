// Replacing the value of a live item in place, and reading it meanwhile: a sequence lock with, as its version, the
// item's CAS id, which is unique and grows, over both words of its header.
//
//   writer    lock: live -> filling, by a compare-and-swap; the mark `fetched` tells it from an item that is not
//             published. Fixed word with the new id, value, then the new state word with release.
//   reader    fixed word, then state word (ItemVersion); copies; both again, in the other order (is_still()). It
//             accepts if the item was live and the id is the same. After two failures it copies under the lock.
//
// Key, client flags, lengths and slot stay. Only values of up to rewritten_value_bytes_max bytes are ever rewritten, so
// longer ones are read without any of this. The lock is a leaf: its holder waits for nothing. A locked item cannot be
// killed. A dead one is not written to until its epoch has passed.
//
// Orders. Writer: the lock, a release fence, fixed word and value (relaxed), the state word (release). Reader: fixed
// word (acquire), state word (acquire), the value (relaxed), an acquire fence, state word (acquire), fixed word. A
// reader that has a byte of a newer version sees, by the two fences, that version's lock or something later in the
// second state word. If that is `live`, its acquire brings the newer fixed word, which the first load did not have.
// With it, the first state word would have been the newer one's, too (Boehm 2012).
//
// Thread safety: all from any thread, inside the epoch in which the item was found.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/racing_copy.hpp"
#include "heap/item.hpp"

namespace tandem {

inline constexpr std::uint32_t rewritten_value_bytes_max = 1024;

TD_INLINE bool is_rewriting(std::uint64_t state) noexcept {
  constexpr std::uint64_t mask = word::State::mask | word::Fetched::mask;
  return (state & mask) ==
         word::Fetched::put(word::State::put(0, static_cast<std::uint64_t>(ItemState::filling)), word::Fetched::limit);
}
TD_INLINE std::uint64_t rewriting_state(std::uint64_t live) noexcept {
  return word::State::put(live, static_cast<std::uint64_t>(ItemState::filling)) | word::Fetched::mask;
}
static_assert(word::Fetched::limit == 1);

// Waits until the item is not locked; returns its state word (acquire).
std::uint64_t wait_while_rewriting(const Item* item) noexcept;
TD_INLINE std::uint64_t settled_state(const Item* item) noexcept {
  const std::uint64_t state = item->state_acquire();
  return TD_UNLIKELY(is_rewriting(state)) ? wait_while_rewriting(item) : state;
}

// Both words of an item. They are of one version only if is_still() says so.
struct ItemVersion {
  std::uint64_t state = 0, fixed = 0;

  TD_INLINE static ItemVersion of(const Item* item) noexcept {
    const std::uint64_t fixed = item->fixed_word.load(std::memory_order_acquire);
    return {item->state_acquire(), fixed};
  }
  TD_INLINE bool is_live() const noexcept { return Item::state_of(state) == ItemState::live; }
  TD_INLINE std::uint64_t cas() const noexcept { return Item::cas_of(state, fixed); }
};

// Whether the item was live when `seen` was read, and kept that version until now: a copy made in between is
// consistent. The item may be dead by now, and its marks may have changed. Only the id's low part is compared: a reader
// would be misled only if exactly 2^33 ids passed during one copy.
TD_INLINE bool is_still(const Item* item, const ItemVersion& seen) noexcept {
  fence_acquire();
  const std::uint64_t both = item->state_acquire() & seen.state;
  // live & live, live & dead; a locked or unused state has the upper bit clear, and dead & dead the lower one set.
  static_assert(static_cast<int>(ItemState::live) == 2 && static_cast<int>(ItemState::dead) == 3 &&
                static_cast<int>(ItemState::filling) == 1);
  return (both & word::State::mask) == static_cast<std::uint64_t>(ItemState::live) && item->fixed() == seen.fixed;
}

// Both words of one version, after waiting for a thread that rewrites the item; or those of an item that is not live.
ItemVersion wait_for_version(const Item* item) noexcept;
TD_INLINE ItemVersion settled_version(const Item* item) noexcept {
  const ItemVersion seen = ItemVersion::of(item);
  return TD_LIKELY(!is_rewriting(seen.state) && item->fixed() == seen.fixed) ? seen : wait_for_version(item);
}

// Whether the item is live and has this key. Waits for a thread that rewrites it, so that a present item is never taken
// for absent. `seen`: its words, not necessarily of one version.
TD_INLINE bool is_live_item_of(const Item* item, std::string_view key, ItemVersion& seen) noexcept {
  seen = ItemVersion::of(item);
  if (TD_LIKELY(seen.is_live())) return item->has_key(key);
  if (TD_LIKELY(!is_rewriting(seen.state)) || !item->has_key(key)) return false;
  seen = settled_version(item);
  return seen.is_live();
}

// Locks the item if it is live and still at version `seen`; updates `seen.state`. Waits for a thread that rewrites it.
bool lock_item(Item* item, ItemVersion& seen) noexcept;
// Unlocks the item: with its state word as it was, with changed marks, or dead. Publishes a rewritten version likewise.
TD_INLINE void unlock_item(Item* item, std::uint64_t state) noexcept {
  item->state_word.store(state, std::memory_order_release);
}

// Calls copy(ItemVersion) until its copy was consistent, the third time under the item's lock. It may be called several
// times and must start again each time. `found_state`: the state word with which the item was found. It provides the
// expiry of a dead item that has a link in its place: one that is stale and won, which is never rewritten, or has its
// slot in a chain (retiring without memory marks it so).
template <class Copy>
TD_NOINLINE void copy_slowly(const Item* item, std::uint64_t found_state, Copy copy) noexcept {
  for (int failures = 0;;) {
    ItemVersion seen = settled_version(item);
    if (!seen.is_live()) {
      // A dead item keeps the words of its last version, unless the heap has put a link in place of its expiry.
      constexpr std::uint64_t linked = word::Stale::mask | word::Win::mask;
      if ((seen.state & linked) == linked) seen.state = word::ExpiryS::put(seen.state, Item::expiry_of(found_state));
      return copy(seen);
    }
    if (failures < 2) {
      copy(seen);
      if (is_still(item, seen)) return;
      ++failures;
      continue;
    }
    Item* const mine = const_cast<Item*>(item);
    if (!lock_item(mine, seen)) continue;
    copy(seen);
    return unlock_item(mine, seen.state);
  }
}
template <class Copy>
TD_INLINE void copy_validated(const Item* item, std::uint64_t found_state, Copy copy) noexcept {
  const ItemVersion seen = ItemVersion::of(item);
  copy(seen);
  if (TD_LIKELY(is_still(item, seen))) return;
  copy_slowly(item, found_state, copy);
}

}  // namespace tandem
