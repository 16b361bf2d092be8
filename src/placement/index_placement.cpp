#include "placement/index_placement.hpp"

#include <algorithm>

namespace tandem {
namespace {

constexpr double device_load_max = 0.95;

}  // namespace

void IndexPlacement::retire(Heap::Cache& cache, std::span<const Location> displaced) noexcept {
  if (!is_here()) return;
  const Heap::Cache::Lock lock(cache);
  for (const Location l : displaced) heap_.retire(cache, l);
}

void IndexPlacement::reclaim_changes(Heap::Cache& cache, Overlay::Reclaim whose) noexcept {
  if (!can_search()) return;
  if (hot_ != nullptr) {
    hot_->retire(heap_, cache, whose != Overlay::Reclaim::mine);
    if (whose == Overlay::Reclaim::all) replay_some();
  }
  for (const auto& overlay : overlays_) overlay->reclaim(heap_, cache, index_->stripes(), whose);
}

bool IndexPlacement::has_unretired() const noexcept {
  return !is_here() && ((hot_ != nullptr && hot_->has_unretired()) ||
                        std::ranges::any_of(overlays_, [](const auto& overlay) { return overlay->has_unretired(); }));
}

// --- hot keys

bool IndexPlacement::promote(Fingerprint f, Location l) noexcept {
  if (hot_ == nullptr || !can_search()) return false;
  const Overlay& overlay = overlay_of(f);
  const RecordId record = overlay.find_locked(f, l);
  // A device cannot have it beside the key of the same signature that it has.
  if (record != no_record && overlay.is_resident(record)) return false;
  return hot_->promote(f, l);
}

// False: the overlay has no room.
bool IndexPlacement::settle_hot(HotTable::Cell& cell, std::uint64_t key, Hot how) noexcept {
  const Fingerprint f = HotTable::Cell::of(key);
  Overlay& overlay = overlay_of(f);
  if (!overlay.has_room()) return false;
  StripeLock lock(index_->stripes().of(f.signature));
  if (cell.key.load(std::memory_order_relaxed) != key) {
    lock.unlock_unchanged();
    return true;
  }
#if defined(TANDEM_CANARY)
  if (cell.is_dirty() && canary_bites("router_flips")) hot_->replayed(cell);
#endif
  if (cell.is_dirty()) {
    const Location from = cell.from.load(std::memory_order_relaxed), to = cell.location.load(std::memory_order_relaxed);
    // The record that still adds what is to be replaced, or is resident since the device had no room for it. `from`
    // names no other key's item, as its slot is held.
    const RecordId old = from != no_location ? overlay.find_locked(f, from) : no_record;
    if (to != no_location) {
      overlay.put(f, from, to, old, false);
    } else {
      overlay.erase(f, from, old);
    }
    hot_->replayed(cell);
  }
  if (how == Hot::turns_cold) hot_->forget(cell);
  lock.unlock_changed(0);
  return true;
}

// Of a thread that waits for slots: changes of dirty keys, which then hold none.
void IndexPlacement::replay_some() noexcept {
  constexpr std::uint32_t buckets_max = 1024;
  if (hot_->stats().held == 0) return;
  const std::unique_lock lock(hot_mutex_, std::try_to_lock);
  if (!lock) return;
  const std::uint32_t count = std::min(buckets_max, hot_->buckets());
  for_each_hot(hot_next_, count,
               [](Fingerprint, const HotTable::Cell& cell) { return cell.is_dirty() ? Hot::is_replayed : Hot::stays; });
  hot_next_ = (hot_next_ + count) % hot_->buckets();
}

Item* IndexPlacement::find(Fingerprint f, std::string_view key, ItemVersion& seen) const noexcept {
  // Before the record: a key turns cold behind its own.
  if (hot_ != nullptr) {
    const Location l = hot_->find(f).location;
    if (l != no_location && is_live_item_of(heap_.at(l), key, seen)) return heap_.at(l);
  }
  return overlay_of(f).find(f, key, heap_, seen);
}

Elsewhere::Found IndexPlacement::find_locked(Fingerprint f, std::string_view key) const noexcept {
  Found found = overlay_of(f).find_locked(f, key, heap_);
  const HotTable::Cell* const cell = hot_ != nullptr ? hot_->cell_of(f.signature) : nullptr;
  if (TD_LIKELY(cell == nullptr)) return found;
  const Location l = cell->location.load(std::memory_order_relaxed);
  if (cell->fingerprint() != f || (l != no_location && !heap_.at(l)->has_key(key))) {
    found.clash = true;
  } else if (l != no_location && Item::state_of(settled_state(heap_.at(l))) == ItemState::live) {
    found.location = l;
  }
  return found;
}

Elsewhere::RecordId IndexPlacement::put(Fingerprint f, Location from, Location to, RecordId old, bool clash) noexcept {
  if (hot_ != nullptr && hot_->put(f, from, to)) return no_record;
  // A device has one cell of a signature: that of the hot key, which it may be told of later.
  return overlay_of(f).put(f, from, to, old, clash || (hot_ != nullptr && hot_->cell_of(f.signature) != nullptr));
}

void IndexPlacement::erase(Fingerprint f, Location from, RecordId old) noexcept {
  if (hot_ == nullptr || !hot_->erase(f, from)) overlay_of(f).erase(f, from, old);
}

// --- moving

void IndexPlacement::move_to_devices(std::vector<std::unique_ptr<Overlay>> overlays, std::uint64_t cells,
                                     std::unique_ptr<HotTable> hot) {
  TD_ASSERT(is_here() && index_ != nullptr && overlays.size() == std::size_t{1} << index_->shard_bits());
  overlays_ = std::move(overlays);
  hot_ = std::move(hot);
  cells_ = cells;
  bool all = true;
  index_->for_each_to_move([](Fingerprint, Location) {},
                           [&](Fingerprint f, Location l) {
                             all = all && overlay_of(f).has_room();
                             if (all) overlay_of(f).put(f, no_location, l, Overlay::none, true);
                           });
  try {
    if (!all) throw std::bad_alloc();
    index_->move_out(*this);
  } catch (const std::bad_alloc&) {
    overlays_.clear();
    hot_.reset();
    throw;
  }
  place_.store(Place::device, std::memory_order_seq_cst);
}

void IndexPlacement::leave() noexcept {
  Place expected = Place::device;
  place_.compare_exchange_strong(expected, Place::leaving, std::memory_order_seq_cst);
}

void IndexPlacement::bring_back(Heap::Cache& cache, unsigned threads) noexcept {
  TD_ASSERT(is_closed());
  index_->wait_for_batches();
  const std::lock_guard lock(hot_mutex_);
  for (const auto& overlay : overlays_) overlay->retire_all(heap_, cache);
  if (hot_ != nullptr) hot_->clear(heap_, cache);
  index_->rebuild(cache, threads);
  device_full_.store(false, std::memory_order_relaxed);
  place_.store(Place::host, std::memory_order_seq_cst);
}

void IndexPlacement::watch_load() noexcept {
  const bool full = static_cast<double>(index_->item_count()) >= device_load_max * static_cast<double>(cells_);
  if (full != is_full()) device_full_.store(full, std::memory_order_relaxed);
}

std::uint64_t IndexPlacement::bytes() const noexcept {
  std::uint64_t bytes = hot_ != nullptr ? hot_->bytes() : 0;
  for (const auto& overlay : overlays_) bytes += overlay->bytes();
  return bytes;
}

}  // namespace tandem
