// A stream of a simulated device: checks calls, and leaves the work to the queue's thread.
#pragma once
#include <memory>
#include <thread>

#include "device/device.hpp"
#include "device/sim/sim_queue.hpp"

namespace tandem::sim {

class SimStream final : public Stream {
 public:
  explicit SimStream(std::shared_ptr<Core> core);
  ~SimStream() override;

  DeviceStatus copy_to_device(DevicePtr<std::byte> to, const void* from, std::uint64_t bytes) noexcept override;
  DeviceStatus copy_to_host(void* to, DevicePtr<const std::byte> from, std::uint64_t bytes) noexcept override;
  DeviceStatus zero(DevicePtr<std::byte> at, std::uint64_t bytes) noexcept override;
  DeviceMark mark() noexcept override { return queue_->mark(); }
  DeviceStatus poll(DeviceMark mark) noexcept override { return queue_->poll(mark); }
  DeviceStatus wait(DeviceMark mark, std::chrono::nanoseconds limit) noexcept override {
    return queue_->wait(mark, limit);
  }
  DeviceStatus after(Stream& other, DeviceMark mark) noexcept override;
  std::uint64_t elapsed_ns(DeviceMark from, DeviceMark to) noexcept override { return queue_->elapsed_ns(from, to); }

 private:
  DeviceStatus launch(const KernelLaunch& launch) noexcept override;
  // Checks the memory that the work names, and queues it.
  DeviceStatus submit(Work work) noexcept;
  DeviceStatus copy(Engine engine, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) noexcept;

  const std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace tandem::sim
