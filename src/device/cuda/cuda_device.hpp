// NVIDIA GPUs through the CUDA runtime, which is linked statically and looks for the driver when it is first asked. A
// program that was built without CUDA has the same functions and finds none.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "device/device.hpp"

namespace tandem {

struct DeviceCount {
  std::uint32_t count = 0;
  std::string reason;  // why there is none
};

// Never fails: where there is no driver there is no GPU.
DeviceCount cuda_device_count();

// Of GPU `number`, counted from 0. Throws DeviceError.
DeviceInfo cuda_device_info(std::uint32_t number);

// Throws DeviceError. Whether the GPU has code for a kernel only its launch tells. At most one for each GPU at a time:
// they would share its context, and be lost together.
std::unique_ptr<Device> make_cuda_device(std::uint32_t number);

}  // namespace tandem
