// A batch that a device searches while its worker does something else.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

#include "device/device.hpp"
#include "query/batch.hpp"
#include "task/context.hpp"

namespace tandem {

// Who owns it: the worker (`filling`, `done`, `refused`, `lost`) or the scheduler (`queued`, `running`). It holds an
// epoch from before its launch until it is answered, so that what the device finds can be followed (write protocol,
// idea 5).
class DeviceBatch {
 public:
  enum class State : std::uint8_t {
    filling,
    queued,
    running,
    done,     // the batch's columns hold what launch batch().launch found
    refused,  // no launch took it, or one that failed and is over: the host searches
    lost,     // the device is, and may yet write to its columns
  };

  // Columns of `capacity` queries in pinned memory. Throws DeviceError, std::runtime_error (no place among the epochs).
  DeviceBatch(EpochDomain& epochs, Device& device, std::uint32_t capacity)
      : fingerprints_(device, capacity),
        locations_(device, capacity),
        batch_(capacity, fingerprints_.data(), locations_.data()),
        epoch_(epochs) {}
  DeviceBatch(const DeviceBatch&) = delete;
  DeviceBatch& operator=(const DeviceBatch&) = delete;

  Batch& batch() noexcept { return batch_; }
  State state() const noexcept { return state_.load(std::memory_order_acquire); }

 private:
  friend class Scheduler;
  friend class DeviceBatches;

  PinnedArray<Fingerprint> fingerprints_;
  PinnedArray<Location> locations_;
  Batch batch_;
  EpochDomain::Participant epoch_;  // the worker's
  bool let_go_ = false;             // the epoch was left while the device had the batch
  std::chrono::steady_clock::time_point submitted_{};
  std::uint32_t looks_ = 0;  // in vain, since then
  std::atomic<State> state_{State::filling};
  // What the scheduler may look at when the batch was taken back, and what it says of the launch that searched.
  std::atomic<std::uint32_t> queries_{0}, launch_{0};
  std::atomic<bool> whole_{false};
  DeviceBatch* next_ = nullptr;  // in the scheduler's queue
};

}  // namespace tandem
