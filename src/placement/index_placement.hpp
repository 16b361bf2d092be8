// Where the index is: in host memory, mirrored on devices (mirrored/), or in device memory alone (on_device/). The
// tasks and the engine ask this class; no other code depends on the difference.
//
// With the index on the host, mirrored or not, each answer costs one load. With placement `device`, each device holds
// one shard of the table (docs/decisions/0020-index-on-a-device.md), and an overlay per shard holds the changes that
// the device has not taken. If a device is lost, the index is rebuilt on the host from the heap. leave() stops new
// epochs, and bring_back() waits for all batches that began before. Those still use the overlays, and their writes are
// in the heap. While epochs are stopped no batch reads or writes, so the heap's live items define the index.
//
// Thread safety: any thread, unless a call says otherwise.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "heap/cache.hpp"
#include "heap/heap.hpp"
#include "placement/offload_index.hpp"
#include "placement/on_device/hot_table.hpp"
#include "placement/on_device/overlay.hpp"

namespace tandem {

class IndexPlacement final : public Elsewhere {
 public:
  // Placement on the host. Both outlive it.
  IndexPlacement(Index& index, Heap& heap) noexcept : index_(offload_index_of(index)), heap_(heap) {}

  // --- reading

  // No epoch may begin: the index is being rebuilt on the host.
  TD_INLINE bool is_closed() const noexcept { return place_.load(std::memory_order_seq_cst) == Place::leaving; }
  // Whether a batch has to be searched on devices before it is executed (RemoteSearch).
  TD_INLINE bool wants_search() const noexcept { return TD_UNLIKELY(!is_here()); }
  // Whether devices can search: false from the moment when one is lost.
  bool can_search() const noexcept { return place_.load(std::memory_order_seq_cst) == Place::device; }
  // Whether a miss of a device's search can be final (final_miss()). False while overlays hold changes.
  TD_INLINE bool has_final_misses() const noexcept { return is_here(); }

  // --- writing

  // Whether `f` can be changed now. Asked once before each change, outside the stripe.
  TD_INLINE bool can_change(Fingerprint f) noexcept { return is_here() || takes_changes(f); }
  // Whether this class retires the slots of replaced and erased items, once the devices have taken the change.
  // Otherwise the writer retires them.
  TD_INLINE bool retires_displaced() const noexcept { return TD_UNLIKELY(!is_here()); }
  // Retires them, unless retires_displaced(). REQUIRES: neither a stripe nor the cache's lock is held.
  void retire(Heap::Cache& cache, std::span<const Location> displaced) noexcept;
  // Whether the devices' tables are full, so that a key must be evicted before a new one fits.
  bool is_full() const noexcept { return device_full_.load(std::memory_order_relaxed); }
  // Retires slots after the devices have taken their changes; which lanes: Overlay::Reclaim. REQUIRES: as retire().
  void reclaim_changes(Heap::Cache& cache, Overlay::Reclaim whose = Overlay::Reclaim::mine) noexcept;
  // Whether slots are held back until a device takes their change. A thread that is out of slots should then wait.
  bool has_unretired() const noexcept;
  // Calls f(location) for each such slot, as of some moment of the call.
  template <class F>
  void for_each_unretired(F f) const {
    for (const auto& overlay : overlays_) overlay->for_each_displaced(f);
    if (hot_ != nullptr) hot_->for_each_unretired(f);
  }

  // --- hot keys (on_device/hot_table.hpp)

  // nullptr: no memory was given to them, or devices do not have the index. Its find() is for queries in an epoch that
  // began while wants_search().
  const HotTable* hot() const noexcept { return TD_UNLIKELY(wants_search()) ? hot_.get() : nullptr; }
  // The host answers the key from now on. l: its live item. False: it stays cold. REQUIRES: the caller is in an epoch
  // and holds the key's stripe.
  bool promote(Fingerprint f, Location l) noexcept;
  // Has all hot keys turn cold but those of which stays(Fingerprint) says otherwise. False: an overlay has no room now,
  // or the index has come back to the host. REQUIRES: as retire(); the caller reclaims its lane.
  template <class F>
  bool clean(F stays) noexcept {
    if (hot_ == nullptr) return true;
    const std::lock_guard lock(hot_mutex_);
    return for_each_hot(0, hot_->buckets(),
                        [&](Fingerprint f, const HotTable::Cell&) { return stays(f) ? Hot::stays : Hot::turns_cold; });
  }

  // --- moving

  // Moves the index to the devices and frees the host's table. cells: of all devices together. REQUIRES: the index is
  // an OffloadIndex; hot may be nullptr; the devices have all keys but the clashes() of the table; nothing else uses
  // the index yet, and no replica follows it. Throws std::bad_alloc, and nothing has changed.
  void move_to_devices(std::vector<std::unique_ptr<Overlay>> overlays, std::uint64_t cells,
                       std::unique_ptr<HotTable> hot);
  // Called when a device is lost. From now on a thread that begins an epoch waits until bring_back() is done.
  void leave() noexcept;
  // Rebuilds the host's table (OffloadIndex::rebuild). REQUIRES: is_closed(); the caller is in no epoch; one caller.
  void bring_back(Heap::Cache& cache, unsigned threads) noexcept;
  // Called by the schedulers from time to time to check the load.
  void watch_load() noexcept;

  std::uint64_t bytes() const noexcept;  // of the budget, to the end: records of pending writes, and hot keys
  // nullptr until move_to_devices().
  Overlay* overlay(std::uint32_t shard) const noexcept {
    return shard < overlays_.size() ? overlays_[shard].get() : nullptr;
  }

  // --- of Elsewhere
  std::uint64_t cells() const noexcept override { return cells_; }
  bool has_room_for_key() const noexcept override { return !is_full(); }
  bool takes_changes(Fingerprint f) noexcept override {
    return overlay_of(f).has_room() && (hot_ == nullptr || hot_->has_room());
  }
  void prefetch(Fingerprint f) const noexcept override { overlay_of(f).prefetch(f); }
  Item* find(Fingerprint f, std::string_view key, ItemVersion& seen) const noexcept override;
  Found find_locked(Fingerprint f, std::string_view key) const noexcept override;
  RecordId find_locked(Fingerprint f, Location l) const noexcept override { return overlay_of(f).find_locked(f, l); }
  RecordId put(Fingerprint f, Location from, Location to, RecordId old, bool clash) noexcept override;
  void erase(Fingerprint f, Location from, RecordId old) noexcept override;

 private:
  // On the host; on devices; or being rebuilt on the host since a device was lost.
  enum class Place : std::uint8_t { host, device, leaving };

  TD_INLINE bool is_here() const noexcept { return TD_LIKELY(place_.load(std::memory_order_relaxed) == Place::host); }
  Overlay& overlay_of(Fingerprint f) const noexcept { return *overlays_[Shard::number_of(f, index_->shard_bits())]; }
  // What becomes of a hot key: stays as it is; its change is queued; that, and it is hot no more.
  enum class Hot : std::uint8_t { stays, is_replayed, turns_cold };
  template <class F>
  bool for_each_hot(std::uint32_t first, std::uint32_t count, F decide) noexcept;
  bool settle_hot(HotTable::Cell& cell, std::uint64_t key, Hot how) noexcept;
  void replay_some() noexcept;

  OffloadIndex* const index_;  // nullptr: the placement stays `host`
  Heap& heap_;
  std::atomic<Place> place_{Place::host};
  std::atomic<bool> device_full_{false};
  std::uint64_t cells_ = 0;
  std::unique_ptr<HotTable> hot_;                   // kept to the end, as overlays
  std::mutex hot_mutex_;                            // of a walk over its cells; bring_back() waits for one
  std::uint32_t hot_next_ = 0;                      // bucket of the next replay_some()
  std::vector<std::unique_ptr<Overlay>> overlays_;  // kept to the end: a scheduler blocked in the driver may use them
};

// Calls decide(Fingerprint, cell) for the hot keys of so many buckets, and does what it says under the key's stripe.
template <class F>
bool IndexPlacement::for_each_hot(std::uint32_t first, std::uint32_t count, F decide) noexcept {
  bool all = true;
  const auto each = [&](HotTable::Cell& cell) {
    const std::uint64_t key = cell.key.load(std::memory_order_acquire);
    const Hot how = decide(HotTable::Cell::of(key), cell);
    if (how != Hot::stays) all = settle_hot(cell, key, how) && all;
  };
  for (std::uint32_t i = 0; i < count && can_search(); ++i) hot_->for_each_of((first + i) % hot_->buckets(), each);
  return all && can_search();
}

}  // namespace tandem
