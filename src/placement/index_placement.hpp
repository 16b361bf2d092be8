// Where the index lies: in the host's memory, mirrored on devices (mirrored/), or in devices' memory alone
// (on_device/). What the tasks, the executor and the engine ask of it; nobody else knows the difference.
//
// With the index on the host, mirrored or not, each answer costs one load. On devices: the table is theirs, one shard
// each (docs/decisions/0020-index-on-a-device.md), and an overlay for each holds what writers changed. It comes back
// from the heap if a device is lost: leave() closes the door, bring_back() waits for all batches that came in before.
// Those still work over the overlays, and what they write is in the heap. Behind the door nobody reads or writes, so
// what the heap's live items say is the index.
//
// Thread safety: any thread, but for what a call says.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "heap/cache.hpp"
#include "heap/heap.hpp"
#include "placement/offload_index.hpp"
#include "placement/on_device/overlay.hpp"

namespace tandem {

class IndexPlacement final : public Elsewhere {
 public:
  // On the host. Both outlive it.
  IndexPlacement(Index& index, Heap& heap) noexcept : index_(offload_index_of(index)), heap_(heap) {}

  // --- reading

  // Nobody may begin an epoch: the index is on its way back.
  TD_INLINE bool is_closed() const noexcept { return place_.load(std::memory_order_seq_cst) == Place::leaving; }
  // Whether a batch has to be searched on devices before it is executed (RemoteSearch).
  TD_INLINE bool wants_search() const noexcept { return TD_UNLIKELY(!is_here()); }
  // Whether devices can search: false from the moment when one was lost.
  bool can_search() const noexcept { return place_.load(std::memory_order_seq_cst) == Place::device; }
  // Whether a miss of a device's search can be final (final_miss()): not where unfinished writes lie here.
  TD_INLINE bool has_final_misses() const noexcept { return is_here(); }

  // --- writing

  // Whether a change of `f` can be made now; asked under no stripe, once before each.
  TD_INLINE bool can_change(Fingerprint f) noexcept { return is_here() || overlay_of(f).has_room(); }
  // Whether the slots of replaced and erased items are retired here, once the devices have taken the change. Else the
  // writer retires them.
  TD_INLINE bool retires_displaced() const noexcept { return TD_UNLIKELY(!is_here()); }
  // Retires them, unless that is done here. REQUIRES: no stripe and not the cache's lock is held.
  void retire(Heap::Cache& cache, std::span<const Location> displaced) noexcept;
  // Whether the devices' tables are full, so that something has to go before a key can come.
  bool is_full() const noexcept { return device_full_.load(std::memory_order_relaxed); }
  // Retires slots whose changes the devices have; of this thread's changes, or all. REQUIRES: as retire().
  void settle_changes(Heap::Cache& cache, Overlay::Settle whose = Overlay::Settle::mine) noexcept;
  // Whether slots wait for devices, so that who runs out of them should wait, too.
  bool has_unretired() const noexcept;
  // Calls f(location) for each of them, as it was at some moment of the call.
  template <class F>
  void for_each_unretired(F f) const {
    for (const auto& overlay : overlays_) overlay->for_each_displaced(f);
  }

  // --- moving

  // From now on the devices have all keys, and the host's table is given up. cells: of all devices together.
  // REQUIRES: the index is an OffloadIndex; they do, but for the clashes() of the table; nobody else uses the index
  // yet, and no replica follows it. Throws std::bad_alloc, and nothing has changed.
  void move_to_devices(std::vector<std::unique_ptr<Overlay>> overlays, std::uint64_t cells);
  // A device is lost. Whoever begins an epoch from now on waits until bring_back() is done.
  void leave() noexcept;
  // Makes the host's table again (OffloadIndex::rebuild). REQUIRES: is_closed(); the caller is in no epoch; one caller.
  void bring_back(Heap::Cache& cache, unsigned threads) noexcept;
  // The schedulers look at the load now and then.
  void watch_load() noexcept;

  std::uint64_t bytes() const noexcept;  // of the budget, to the end: records of unfinished writes
  // nullptr until move_to_devices().
  Overlay* overlay(std::uint32_t shard) const noexcept {
    return shard < overlays_.size() ? overlays_[shard].get() : nullptr;
  }

  // --- of Elsewhere
  std::uint64_t cells() const noexcept override { return cells_; }
  bool has_room_for_key() const noexcept override { return !is_full(); }
  bool takes_changes(Fingerprint f) noexcept override { return overlay_of(f).has_room(); }
  void prefetch(Fingerprint f) const noexcept override { overlay_of(f).prefetch(f); }
  Item* find(Fingerprint f, std::string_view key, ItemVersion& seen) const noexcept override {
    return overlay_of(f).find(f, key, heap_, seen);
  }
  Found find_locked(Fingerprint f, std::string_view key) const noexcept override {
    return overlay_of(f).find_locked(f, key, heap_);
  }
  RecordId find_locked(Fingerprint f, Location l) const noexcept override { return overlay_of(f).find_locked(f, l); }
  RecordId put(Fingerprint f, Location from, Location to, RecordId old, bool clash) noexcept override {
    return overlay_of(f).put(f, from, to, old, clash);
  }
  void erase(Fingerprint f, Location from, RecordId old) noexcept override { overlay_of(f).erase(f, from, old); }

 private:
  // On devices; on its way back, from the moment when one was lost; or here.
  enum class Place : std::uint8_t { host, device, leaving };

  TD_INLINE bool is_here() const noexcept { return TD_LIKELY(place_.load(std::memory_order_relaxed) == Place::host); }
  Overlay& overlay_of(Fingerprint f) const noexcept { return *overlays_[Shard::number_of(f, index_->shard_bits())]; }

  OffloadIndex* const index_;  // nullptr: the placement is `host` for good
  Heap& heap_;
  std::atomic<Place> place_{Place::host};
  std::atomic<bool> device_full_{false};
  std::uint64_t cells_ = 0;
  std::vector<std::unique_ptr<Overlay>> overlays_;  // kept to the end: who is stuck in a driver may come back
};

}  // namespace tandem
