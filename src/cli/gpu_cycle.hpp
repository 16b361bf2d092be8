// The cycle that the server launches in, by what `tandem calibrate` found of its GPU.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "cli/options.hpp"
#include "device/device.hpp"

namespace tandem::cli {

inline constexpr std::chrono::microseconds gpu_cycle_max{5'000};

// --gpu-cycle, or the one that --gpu-latency-target asks for; `say` is told what it serves. Throws CommandError: the
// calibration cannot be used, or the GPU cannot do what is asked.
std::chrono::microseconds gpu_cycle(const Settings& settings, std::span<const std::shared_ptr<Device>> devices,
                                    const std::function<void(std::string_view)>& say);

}  // namespace tandem::cli
