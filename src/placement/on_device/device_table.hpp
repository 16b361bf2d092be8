// The index's table, or one shard of it, in device memory only (placement `device`; Mega-KV 3.2, 4). The scheduler
// launches searches. Changes wait in an overlay on the host (placement/on_device/overlay.hpp) and go to the device in
// groups, at most one per `change_cycle` (periodic delayed scheduling, Mega-KV 5.1).
//
// Departures from the paper. A SET is answered when the host has it, not when its Insert is done, since every reader
// checks the overlay for keys that the device did not have. A key that clashes with another's fingerprint in the table
// stays in the overlay instead of displacing the other (4.2).
//
// If a change on the device fails, the content of its table is unknown. The device then counts as lost, and the host
// rebuilds the index (IndexPlacement::bring_back).
//
// Thread safety: as DeviceSide.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "heap/cache.hpp"
#include "placement/device_side.hpp"
#include "placement/index_placement.hpp"
#include "placement/offload_index.hpp"

namespace tandem {

struct DeviceTableOptions {
  std::uint64_t cells = 1 << 16;        // of this shard; rounded down to a power of two that fits the device's memory
  std::uint32_t changes_max = 1 << 18;  // of one launch; pinned memory of 17 bytes each
  std::uint32_t shard = 0;              // its number (OffloadIndex::shard_bits())
  // Minimum time between two groups. Search's own cycle is the scheduler's.
  std::chrono::microseconds change_cycle{0};
  std::chrono::milliseconds end_wait{2000};  // how long the destructor waits for the device before it abandons it
};

class DeviceTable final : public DeviceSide {
 public:
  // All of them outlive it. Throws DeviceError, std::bad_alloc.
  DeviceTable(Device& device, OffloadIndex& index, IndexPlacement& placement, EpochDomain& epochs, Heap& heap,
              const DeviceTableOptions& options);
  ~DeviceTable() override;

  std::uint64_t cells() const noexcept { return buckets_.count() * bucket_cells; }
  // Copies the host's index of this shard to the device, and waits for completion. Throws DeviceError. REQUIRES:
  // nothing else uses the index yet; start() was not called.
  void load(std::chrono::milliseconds patience);
  // Takes effect with the next group. Thread safety: any thread.
  void set_change_cycle(std::chrono::microseconds cycle) noexcept {
    change_cycle_us_.store(cycle.count(), std::memory_order_relaxed);
  }

  ReplicaState start() noexcept override;
  void stop(ReplicaAbsence why) noexcept override;
  const Shard& shard() const noexcept override { return shard_; }
  ReplicaState step(std::uint64_t budget_bytes) noexcept override;
  bool is_busy() const noexcept override;
  ReplicaLaunch drain() noexcept override;
  bool wants_drain() const noexcept override;
  DeviceStatus poll(const ReplicaLaunch&) noexcept override;
  Stream& stream() noexcept override { return *stream_; }
  DeviceMark waits_for() noexcept override { return in_flight_; }
  std::uint32_t image_granules() const noexcept override { return 0; }
  bool wants_relief() const noexcept override { return false; }
  void relieve() noexcept override {}
  ReplicaStats stats() noexcept override;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  Overlay& overlay() const noexcept { return *placement_.overlay(shard_.number); }
  DeviceStatus send_changes(std::uint32_t count) noexcept;
  void launch_changes() noexcept;
  void land_changes() noexcept;
  void age() noexcept;
  void give_up() noexcept;
  DeviceIndex view() const noexcept {
    return {buckets_.at(), {.mask = static_cast<std::uint32_t>(buckets_.count() - 1)}};
  }

  Device& device_;
  OffloadIndex& index_;
  IndexPlacement& placement_;
  EpochDomain& epochs_;
  Heap& heap_;
  const DeviceTableOptions options_;
  const Shard shard_;
  Heap::Cache cache_;  // for slots that the scheduler retires on behalf of workers
  PinnedArray<CellChange> changes_;
  DeviceArray<std::uint8_t> done_there_;  // the kernels read it again
  PinnedArray<std::uint8_t> done_;
  DeviceArray<Bucket> buckets_;  // allocated last: takes all remaining device memory
  std::unique_ptr<Overlay::Taken[]> taken_;
  std::unique_ptr<Stream> stream_;

  std::atomic<ReplicaState> state_{ReplicaState::absent};
  std::atomic<std::int64_t> change_cycle_us_;
  DeviceMark in_flight_ = 0;  // of changes; 0: none
  std::uint32_t in_flight_count_ = 0;
  bool group_is_open_ = false;  // some of its changes are not taken yet
  TimePoint last_group_{}, last_look_{};
  std::deque<std::uint64_t> completed_;  // stamps of groups that are not safe yet
  std::atomic<std::uint64_t> launches_{0}, changed_{0}, refused_{0};
};

}  // namespace tandem
