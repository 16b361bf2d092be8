#include "device/cuda/cuda_core.hpp"

#include <string>

namespace tandem::cuda {

DeviceStatus status_of(cudaError_t error) noexcept {
  switch (error) {
    case cudaSuccess:
      return DeviceStatus::ok;
    case cudaErrorNotReady:
      return DeviceStatus::pending;
    case cudaErrorMemoryAllocation:
      return DeviceStatus::out_of_memory;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidHostPointer:
    case cudaErrorInvalidDevicePointer:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorMissingConfiguration:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidKernelImage:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorInsufficientDriver:
    case cudaErrorDevicesUnavailable:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorSymbolNotFound:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorOperatingSystem:
    case cudaErrorNotPermitted:
    case cudaErrorNotSupported:
      return DeviceStatus::failed;
    default:
      return DeviceStatus::lost;
  }
}

void throw_error(std::uint32_t number, const char* what, cudaError_t error) {
  DeviceStatus status = status_of(error);
  if (status == DeviceStatus::ok || status == DeviceStatus::pending) status = DeviceStatus::failed;
  throw DeviceError(status, "GPU " + std::to_string(number) + ": " + what + ": " + cudaGetErrorString(error));
}

DeviceStatus Core::check(cudaError_t error) noexcept {
  const DeviceStatus status = status_of(error);
  if (status != DeviceStatus::ok && status != DeviceStatus::pending) {
    (void)cudaGetLastError();  // clear it, or this thread's next launch would report it
    if (!lost()) last_error_.store(error, std::memory_order_relaxed);
    if (status == DeviceStatus::lost) abandon();
  }
  return lost() ? DeviceStatus::lost : status;
}

void Core::require(cudaError_t error, const char* what) {
  const DeviceStatus status = check(error);
  if (status == DeviceStatus::ok) return;
  if (error != cudaSuccess) throw_error(info.number, what, error);
  throw DeviceError(status, "GPU " + std::to_string(info.number) + ": " + what + ": the device is lost");
}

DeviceStatus Core::bind() noexcept {
  if (lost()) return DeviceStatus::lost;
  // The runtime keeps a current device for each thread; no other code in this program sets it.
  thread_local std::uint32_t bound = UINT32_MAX;
  if (bound == info.number) return DeviceStatus::ok;
  const DeviceStatus status = check(cudaSetDevice(static_cast<int>(info.number)));
  if (status == DeviceStatus::ok) bound = info.number;
  return status;
}

void Core::require_bound() {
  const DeviceStatus status = bind();
  if (status == DeviceStatus::ok) return;
  const cudaError_t error = last_error();
  const std::string why = error != cudaSuccess ? cudaGetErrorString(error) : "the device is lost";
  throw DeviceError(status, "GPU " + std::to_string(info.number) + ": " + why);
}

}  // namespace tandem::cuda
