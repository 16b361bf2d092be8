// State shared by a GPU and its streams: whether it is lost, and the checks of CUDA runtime calls. Thread-safe.
#pragma once
#include <cuda_runtime_api.h>

#include <atomic>
#include <string>
#include <utility>

#include "device/device.hpp"

namespace tandem::cuda {

// Maps an error to the status of the device. Errors that leave the context intact are `failed`; after all other errors,
// known or unknown, nothing in the context is valid.
DeviceStatus status_of(cudaError_t error) noexcept;

[[noreturn]] void throw_error(std::uint32_t number, const char* what, cudaError_t error);

class Core {
 public:
  explicit Core(DeviceInfo i) : info(std::move(i)) {}

  const DeviceInfo info;

  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  void abandon() noexcept { lost_.store(true, std::memory_order_release); }
  // The last error that check() saw; cudaSuccess: none.
  cudaError_t last_error() const noexcept { return last_error_.load(std::memory_order_relaxed); }

  // The status of a call that returned `error`; `lost` on a lost device, whatever the error.
  DeviceStatus check(cudaError_t error) noexcept;
  // The same, as an exception.
  void require(cudaError_t error, const char* what);
  // Makes this the calling thread's device. REQUIRED before every call that acts on the current device.
  DeviceStatus bind() noexcept;
  void require_bound();

 private:
  std::atomic<bool> lost_{false};
  std::atomic<cudaError_t> last_error_{cudaSuccess};
};

}  // namespace tandem::cuda
