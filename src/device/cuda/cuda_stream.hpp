// A non-blocking CUDA stream and its marks: events in a ring, reused when their marks are done.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "device/cuda/cuda_core.hpp"
#include "device/device.hpp"

namespace tandem::cuda {

enum class StreamPriority : std::uint8_t { least, greatest };  // of those that the GPU has

class CudaStream final : public Stream {
 public:
  CudaStream(std::shared_ptr<Core> core, StreamPriority priority);  // throws DeviceError
  ~CudaStream() override;

  DeviceStatus copy_to_device(DevicePtr<std::byte> to, const void* from, std::uint64_t bytes) noexcept override;
  DeviceStatus copy_to_host(void* to, DevicePtr<const std::byte> from, std::uint64_t bytes) noexcept override;
  DeviceStatus zero(DevicePtr<std::byte> at, std::uint64_t bytes) noexcept override;
  DeviceMark mark() noexcept override;
  DeviceStatus poll(DeviceMark mark) noexcept override;
  DeviceStatus wait(DeviceMark mark, std::chrono::nanoseconds limit) noexcept override;
  DeviceStatus after(Stream& other, DeviceMark mark) noexcept override;
  std::uint64_t elapsed_ns(DeviceMark from, DeviceMark to) noexcept override;

 private:
  DeviceStatus launch(const KernelLaunch& launch) noexcept override;

  static constexpr std::size_t events_first = 64;

  cudaEvent_t& event_of(DeviceMark mark) noexcept { return events_[mark & (events_.size() - 1)]; }
  DeviceStatus poll_locked(DeviceMark mark) noexcept;
  DeviceStatus record(DeviceMark mark) noexcept;
  DeviceStatus grow() noexcept;
  void destroy() noexcept;

  const std::shared_ptr<Core> core_;
  cudaStream_t stream_ = nullptr;
  std::mutex mutex_;                 // guards all below: after() of other streams looks up events
  std::vector<cudaEvent_t> events_;  // of the last marks; a power of two of them
  DeviceMark last_ = 0;
  DeviceMark done_ = 0;  // this mark and all before it are known to be done
};

}  // namespace tandem::cuda
