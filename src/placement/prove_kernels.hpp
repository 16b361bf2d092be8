// Whether a device runs the kernels of the placements.
#pragma once
#include "device/device.hpp"

namespace tandem {

// Runs each kernel once: whether there is code for this GPU is not known before, and its loading takes milliseconds and
// may wait for what runs. Throws DeviceError, and the device is lost then. REQUIRES: nobody else uses the device yet.
void prove_kernels(Device& device);

}  // namespace tandem
