// Chooses the server's launch cycle by its GPU's calibration (`tandem calibrate`).
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "device/device.hpp"
#include "options/options.hpp"

namespace tandem::cli {

inline constexpr std::chrono::microseconds gpu_cycle_max{5'000};

// --gpu-cycle, or the one that --gpu-latency-target requires; `say` receives what it serves. Throws CommandError: the
// calibration is not usable, or the GPU cannot meet the target.
std::chrono::microseconds gpu_cycle(const Settings& settings, std::span<const std::shared_ptr<Device>> devices,
                                    const std::function<void(std::string_view)>& say);

}  // namespace tandem::cli
