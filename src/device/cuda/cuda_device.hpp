// NVIDIA GPUs through the CUDA runtime, which is linked statically and loads the driver at its first call. A program
// built without CUDA has the same functions and finds no GPU.
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

// Never fails: without a driver the count is 0.
DeviceCount cuda_device_count();

// Properties of GPU `number`, counted from 0. Throws DeviceError.
DeviceInfo cuda_device_info(std::uint32_t number);

// Throws DeviceError. Whether the GPU has code for a kernel shows only at its launch. At most one Device per GPU at a
// time: two would share its context, and be lost together.
std::unique_ptr<Device> make_cuda_device(std::uint32_t number);

}  // namespace tandem
