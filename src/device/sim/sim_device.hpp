// A device in software. Kernels run on host threads, one for each stream, over memory that the host reaches only by
// copies. For tests of behaviour under device faults, and for machines without a GPU.
//
// Time is modelled, not measured. A copy or kernel begins at the earliest `latency` after the call, when the work
// queued before it is done and its engine is free (there are three: copies to the device, copies from it, kernels). A
// copy takes its bytes / copy_bytes_per_s. A kernel takes one lane_time for every `lanes` of its queries or part of
// them. Work with a modelled time of zero takes its thread's real time.
//
// Every address is checked when work is queued and again when it begins. A range that is not inside one allocation, or
// not aligned for its type, makes the work `failed`, where a GPU would be lost.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>

#include "device/device.hpp"

namespace tandem {

namespace sim {
class Core;
}

struct SimOptions {
  std::uint32_t number = 0;  // devices with different numbers, modulo 16, have different addresses
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;
  std::chrono::nanoseconds latency{0};
  double copy_bytes_per_s = 0;  // 0: no limit
  std::uint32_t lanes = 0;      // queries in flight; 0: no limit
  std::chrono::nanoseconds lane_time{1000};
};

// Thread safety: as Device; faults may be set from any thread, at any time.
class SimDevice final : public Device {
 public:
  explicit SimDevice(const SimOptions& options);
  ~SimDevice() override;

  const DeviceInfo& info() const noexcept override;
  std::uint64_t memory_free_bytes() noexcept override;
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Stream> make_background_stream() override { return make_stream(); }
  DevicePtr<std::byte> allocate(std::uint64_t bytes) override;
  void release(DevicePtr<std::byte> at) noexcept override;
  PinnedBlock allocate_pinned(std::uint64_t bytes) override;
  void release_pinned(PinnedBlock block) noexcept override;
  bool lost() const noexcept override;
  std::string lost_reason() const override;
  void abandon() noexcept override;

  // --- faults. "Work" is a copy, a zeroing or a kernel.

  // Multiplies all modelled times of work that begins from now on; 1 restores them.
  void slow(double factor) noexcept;
  // The nth work from now on is refused: its call returns `failed`. 0 cancels.
  void refuse(std::uint64_t nth = 1) noexcept;
  // The nth work to begin from now on does nothing: the next mark behind it is `failed`. 0 cancels.
  void fail(std::uint64_t nth = 1) noexcept;
  // No work begins or ends, and no mark is done, until resume() or abandon(). A stream that is destroyed meanwhile
  // drops its queue.
  void hang() noexcept;
  void resume() noexcept;
  // Calls that allocate or release memory block until resume(), as a driver's may when its GPU does not answer.
  void block_calls() noexcept;
  // As if the device fell off the bus: the effect of abandon(), caused by the device.
  void lose() noexcept;

 private:
  std::shared_ptr<sim::Core> core_;
};

std::unique_ptr<SimDevice> make_sim_device(const SimOptions& options = {});

}  // namespace tandem
