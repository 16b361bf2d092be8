// Checks that a device runs the placements' kernels.
#pragma once
#include "device/device.hpp"

namespace tandem {

// Runs each kernel once. Only that shows whether there is code for this GPU; loading takes milliseconds and may wait
// for running work. Throws DeviceError, and the device is lost then. REQUIRES: nothing else uses the device yet.
void prove_kernels(Device& device);

}  // namespace tandem
