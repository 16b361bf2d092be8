// A batch that devices search while its worker does something else.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "index/item_images.hpp"
#include "index/shard.hpp"
#include "pipeline/waiting.hpp"
#include "query/batch.hpp"
#include "task/context.hpp"

namespace tandem {

// What one device searches of a batch: all of it, or the keys of its shard. Who owns it: the worker (`filling`, `done`,
// `refused`, `lost`) or the scheduler (`queued`, `running`).
class DevicePart {
 public:
  enum class State : std::uint8_t {
    filling,
    queued,
    running,
    done,     // the columns hold what launch `launch_` found
    refused,  // no launch took it, or one that failed and is over: the host searches
    lost,     // the device is, and may yet write to the columns
  };

  // Columns of `capacity` queries in pinned memory, and, if there is room, for images of items of up to so many
  // granules (0: none). Throws DeviceError.
  DevicePart(Device& device, std::uint32_t capacity, std::uint32_t image_granules)
      : fingerprints_(device, capacity), locations_(device, capacity) {
    if (image_granules == 0) return;
    try {
      PinnedArray<Granule> arena(device, std::uint64_t{capacity} * image_granules);
      images_ = PinnedArray<std::uint32_t>(device, capacity);
      arena_ = std::move(arena);
    } catch (const DeviceError& e) {
      if (e.status() == DeviceStatus::lost) throw;
    }
  }
  DevicePart(const DevicePart&) = delete;
  DevicePart& operator=(const DevicePart&) = delete;

  State state() const noexcept { return state_.load(std::memory_order_acquire); }
  bool is_with_scheduler() const noexcept {
    const State s = state();
    return s == State::queued || s == State::running;
  }
  bool has_queries() const noexcept { return queries_.load(std::memory_order_relaxed) != 0; }

 private:
  friend class Scheduler;
  friend class DeviceBatch;
  friend class DeviceBatches;
  friend class DeviceSearch;

  PinnedArray<Fingerprint> fingerprints_;
  PinnedArray<Location> locations_;
  PinnedArray<std::uint32_t> images_;
  PinnedArray<Granule> arena_;
  std::atomic<State> state_{State::filling};
  // What the scheduler may look at when the part was taken back, and what it says of the launch that searched.
  std::atomic<std::uint32_t> queries_{0}, launch_{0};
  std::atomic<bool> whole_{false}, with_images_{false};
  DevicePart* next_ = nullptr;             // in the scheduler's queue
  std::unique_ptr<DevicePart> next_kept_;  // of those whose worker has gone
};

// It holds an epoch from before its launches until it is answered, so that what the devices find can be followed (write
// protocol, idea 5).
//
// Thread safety: the worker's thread.
class DeviceBatch {
 public:
  // Of one device the part's columns are the batch's; of several it has its own, and theirs are gathered there. Throws
  // std::runtime_error (no place among the epochs), std::bad_alloc. REQUIRES: a power of two of parts, at most
  // shards_max.
  DeviceBatch(EpochDomain& epochs, std::vector<std::unique_ptr<DevicePart>> parts, std::uint32_t capacity);
  DeviceBatch(const DeviceBatch&) = delete;
  DeviceBatch& operator=(const DeviceBatch&) = delete;

  Batch& batch() noexcept { return batch_; }
  bool is_with_schedulers() const noexcept;

 private:
  friend class DeviceBatches;
  friend class DeviceSearch;

  // The devices have the queries up to `device_end`, whose fingerprints this makes.
  void hash(std::uint64_t hash_seed, std::uint32_t device_end) noexcept;
  // What the parts' devices are to be asked, in their columns. Who asks for an image counts as having read the item,
  // from then on. REQUIRES: !abandoned_; the queries are hashed.
  void scatter() noexcept;
  // What the parts found, in the batch's columns; or that they did not. REQUIRES: no scheduler has a part.
  void gather();
  bool is_done() const noexcept;

  std::vector<std::unique_ptr<DevicePart>> parts_;
  const std::uint32_t shard_bits_;
  Batch batch_;
  std::unique_ptr<std::uint32_t[]> images_;  // of several parts
  EpochDomain::Participant epoch_;
  bool handed_over_ = false;
  bool waited_ = false;     // for the devices, by its worker
  bool let_go_ = false;     // the epoch was left while a device had the batch
  bool abandoned_ = false;  // with a device that was lost, whose columns must not be touched any more
  Waiting waiting_;         // since it was handed over
};

}  // namespace tandem
