// Replaces the GPUs in a program built without CUDA (TANDEM_CUDA).
#include "device/cuda/cuda_device.hpp"

namespace tandem {
namespace {

constexpr const char* reason = "built without CUDA";

}  // namespace

DeviceCount cuda_device_count() { return {0, reason}; }
DeviceInfo cuda_device_info(std::uint32_t) { throw DeviceError(DeviceStatus::failed, reason); }
std::unique_ptr<Device> make_cuda_device(std::uint32_t) { throw DeviceError(DeviceStatus::failed, reason); }

}  // namespace tandem
