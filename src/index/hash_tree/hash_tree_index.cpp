#include "index/hash_tree/hash_tree_index.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/hash.hpp"
#include "index/index_kind.hpp"

namespace tandem {

static_assert(SearchesByKey<HashTreeIndex> && !DeviceSearches<HashTreeIndex>);

HashTreeIndex::HashTreeIndex(const IndexOptions& options, MemoryBudget& budget, EpochDomain& epochs, Heap& heap)
    : heap_(heap),
      hash_seed_(options.hash_seed),
      tree_({.shape = options.tree, .huge_pages = options.huge_pages, .lanes = options.lanes}, budget, epochs, heap) {
  if (options.log != nullptr || options.shard_bits != 0)
    throw std::invalid_argument("devices cannot follow a hash tree");
}

std::uint32_t HashTreeIndex::search_first(const Fingerprint*, std::uint32_t count, Location* location) const noexcept {
  std::fill_n(location, count, no_location);
  return 0;
}

// A hit is valid whatever happens meanwhile; a miss as HashTree::find() says.
Item* HashTreeIndex::find(Fingerprint f, std::string_view key, ItemVersion& seen, Location candidate) const noexcept {
  Item* found = nullptr;
  if (candidate != no_location && is_live_item_of(heap_.at(candidate), key, seen)) return heap_.at(candidate);
  tree_.find(f, key, [&](Location l) {
    Item* const item = heap_.at(l);
    if (!is_live_item_of(item, key, seen)) return false;
    found = item;
    return true;
  });
  return found;
}

std::unique_ptr<KeyHold> HashTreeIndex::hold(Fingerprint f) {
  return std::make_unique<GuardHold<HashTreeIndex>>(*this, f);
}

// --- Guard

HashTreeIndex::Guard::Guard(HashTreeIndex& index, Fingerprint f) noexcept
    : index_(index), f_(f), lock_(index.stripes_.of(f.signature)) {}

// Readers wait for the leaf's version, so the stripe needs none.
HashTreeIndex::Guard::~Guard() { lock_.unlock_unchanged(); }

Item* HashTreeIndex::Guard::find(std::string_view key, Location candidate) noexcept {
  item_ = index_.find(f_, key, version_, candidate);
  // Only a holder of this stripe kills it: a thread that rewrites it makes it live again.
  if (item_ != nullptr) version_ = settled_version(item_);
  return item_;
}

// At most one item of a key is live, so a live one at a location is its key's current item. It need not be this
// guard's: an item is live for a moment before its leaf takes it, and if that has no place another key may get the
// slot.
Item* HashTreeIndex::Guard::find(Location l) noexcept {
  Item* const item = index_.heap_.at(l);
  version_ = settled_version(item);
  return item_ = version_.is_live() && fingerprint_of(item->key(), index_.hash_seed_) == f_ ? item : nullptr;
}

// REQUIRES: the item is locked. A plain store: the only other writer of a locked item's word is CLOCK, which clears a
// mark.
void HashTreeIndex::Guard::kill() noexcept {
  unlock_item(item_, word::State::put(version_.state, static_cast<std::uint64_t>(ItemState::dead)));
}

// In this order a process that is killed in between leaves the old item or both; after a restart the larger CAS id
// wins.
IndexPut HashTreeIndex::Guard::put(Location now, std::uint64_t live_state) noexcept {
  TD_DEBUG_ASSERT(Item::state_of(live_state) == ItemState::live);
  Item* const item = index_.heap_.at(now);
  HashTree::Hold leaf = index_.tree_.hold(item->key(), leaf_);
  if (item_ != nullptr) {
    if (TD_UNLIKELY(!lock_item(item_, version_))) return Put::changed;
    item->state_word.store(live_state, std::memory_order_release);
    kill();
    leaf.replace(f_, item->key(), index_.heap_.location_of(item_), now);
  } else {
    // Live before its cell. If there is no place after all, no reader has seen the item.
    const std::uint64_t filling = item->state_word.load(std::memory_order_relaxed);
    item->state_word.store(live_state, std::memory_order_release);
    if (TD_UNLIKELY(!leaf.add(f_, item->key(), now))) {
      item->state_word.store(filling, std::memory_order_relaxed);
      return Put::needs_room;
    }
  }
  item_ = item;
  return Put::done;
}

bool HashTreeIndex::Guard::erase() noexcept {
  TD_ASSERT(item_ != nullptr);
  HashTree::Hold leaf = index_.tree_.hold(item_->key());
  if (TD_UNLIKELY(!lock_item(item_, version_))) return false;
  kill();
#if defined(TANDEM_CANARY)
  if (!canary_strikes("ghost", 200))
#endif
    leaf.remove(f_, item_->key(), index_.heap_.location_of(item_));
  item_ = nullptr;
  return true;
}

bool HashTreeIndex::Guard::update_state(std::uint64_t mask, std::uint64_t bits) noexcept {
  if (TD_UNLIKELY(!lock_item(item_, version_))) return false;
  version_.state = (version_.state & ~mask) | bits;
  unlock_item(item_, version_.state);
  return true;
}

}  // namespace tandem
