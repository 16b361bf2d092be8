// What a GPU and its streams share: whether it is lost, and how calls of the CUDA runtime are checked. Thread-safe.
#pragma once
#include <cuda_runtime_api.h>

#include <atomic>
#include <string>
#include <utility>

#include "device/device.hpp"

namespace tandem::cuda {

// What this error means to whoever goes on. Those that leave the context as it was are `failed`; after all others,
// known or new, nothing of it can be trusted.
DeviceStatus status_of(cudaError_t error) noexcept;

[[noreturn]] void throw_error(std::uint32_t number, const char* what, cudaError_t error);

class Core {
 public:
  explicit Core(DeviceInfo i) : info(std::move(i)) {}

  const DeviceInfo info;

  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  void abandon() noexcept { lost_.store(true, std::memory_order_release); }
  // The last that check() saw; cudaSuccess: none.
  cudaError_t last_error() const noexcept { return last_error_.load(std::memory_order_relaxed); }

  // Of the call that returned `error`. Whatever it was, `lost` on a lost device.
  DeviceStatus check(cudaError_t error) noexcept;
  // The same, as an exception.
  void require(cudaError_t error, const char* what);
  // Before every call that acts on the calling thread's device.
  DeviceStatus bind() noexcept;
  void require_bound();

 private:
  std::atomic<bool> lost_{false};
  std::atomic<cudaError_t> last_error_{cudaSuccess};
};

}  // namespace tandem::cuda
