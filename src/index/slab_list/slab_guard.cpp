// SlabListIndex::Guard: one writer's hold on one key. Its stripe is the lock of the key's whole chain (KVCG 5.1).
#include <bit>

#include "index/index_kind.hpp"
#include "index/slab_list/slab_access.hpp"
#include "index/slab_list/slab_index.hpp"

namespace tandem {

SlabListIndex::Guard::Guard(SlabListIndex& index, Fingerprint f) noexcept
    : index_(index), f_(f), lock_(index.stripe_of(f)), first_(index.view().of(f)) {}

SlabListIndex::Guard::~Guard() {
  if (changed_) {
    lock_.unlock_changed(0);
  } else {
    lock_.unlock_unchanged();
  }
}

template <class IsIt>
Item* SlabListIndex::Guard::find_entry(IsIt is_it) noexcept {
  item_ = nullptr;
  for (Slab* slab = first_; slab != nullptr; slab = index_.next_of(slab)) {
    for (std::uint32_t m = index_.ops_.entries_with(slab, slab_key(f_)); m != 0; m &= m - 1) {
      const auto entry = static_cast<std::uint32_t>(std::countr_zero(m));
      const Location l = slab_load(slab->location[entry]);
      Item* const item = index_.heap_.at(l);
      if (!is_it(l, item)) continue;
      // A thread that rewrites it makes it live again: only a holder of this stripe kills it.
      version_ = settled_version(item);
      if (!version_.is_live()) continue;
      slab_ = slab;
      entry_ = entry;
      return item_ = item;
    }
  }
  return nullptr;
}

Item* SlabListIndex::Guard::find(std::string_view key, Location) noexcept {
  return find_entry([key](Location, const Item* item) { return item->has_key(key); });
}

// At most one item of a key is live, so a live one at a location is the key's current item.
Item* SlabListIndex::Guard::find(Location l) noexcept {
  return find_entry([l](Location at, const Item*) { return at == l; });
}

// REQUIRES: the item is locked. A plain store: the only other writer of a locked item's word is CLOCK, which clears a
// mark.
void SlabListIndex::Guard::kill() noexcept {
  unlock_item(item_, word::State::put(version_.state, static_cast<std::uint64_t>(ItemState::dead)));
}

// In this order a process that is killed in between leaves the old item or both; after a restart the larger CAS id
// wins.
IndexPut SlabListIndex::Guard::put(Location now, std::uint64_t live_state) noexcept {
  TD_DEBUG_ASSERT(Item::state_of(live_state) == ItemState::live);
  Item* const item = index_.heap_.at(now);
  if (item_ != nullptr) {
    if (TD_UNLIKELY(!lock_item(item_, version_))) return Put::changed;
    item->state_word.store(live_state, std::memory_order_release);
    kill();
    slab_store(slab_->location[entry_], now);
  } else {
    // Live before its entry. If there is no room after all, no reader has seen the item.
    const std::uint64_t filling = item->state_word.load(std::memory_order_relaxed);
    item->state_word.store(live_state, std::memory_order_release);
    if (TD_UNLIKELY(!index_.add(first_, {slab_key(f_), now}))) {
      item->state_word.store(filling, std::memory_order_relaxed);
      return Put::needs_room;
    }
    index_.count(1);
  }
  changed_ = true;
  return Put::done;
}

bool SlabListIndex::Guard::erase() noexcept {
  TD_ASSERT(item_ != nullptr);
  if (TD_UNLIKELY(!lock_item(item_, version_))) return false;
  kill();
  slab_store(slab_->key[entry_], std::uint64_t{0});
  index_.count(-1);
  if (TD_UNLIKELY(slab_ != first_)) index_.drop_empty(first_);
  item_ = nullptr;
  changed_ = true;
  return true;
}

bool SlabListIndex::Guard::update_state(std::uint64_t mask, std::uint64_t bits) noexcept {
  TD_DEBUG_ASSERT((mask & word::State::mask) == 0 && (bits & ~mask) == 0);
  if (TD_UNLIKELY(!lock_item(item_, version_))) return false;
  version_.state = (version_.state & ~mask) | bits;
  unlock_item(item_, version_.state);
  return true;
}

}  // namespace tandem
