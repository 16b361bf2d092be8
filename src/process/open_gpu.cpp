#include "process/open_gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "device/cuda/cuda_device.hpp"
#include "device/sim/sim_device.hpp"
#include "engine/index_kinds.hpp"
#include "options/value.hpp"
#include "placement/prove_kernels.hpp"
#include "preset/preset.hpp"

namespace tandem::cli {

std::vector<std::shared_ptr<Device>> open_gpus(const Settings& settings,
                                               const std::function<void(std::string_view)>& say) {
  const std::string& which = settings.gpu.which;
  if (which == "off" || presets()[settings.server.preset].offload == Offload::never) return {};
  std::vector<std::shared_ptr<Device>> devices;
  const std::uint32_t devices_max = index_kind_named(presets()[settings.server.preset].index_kind).devices_max;
  try {
    if (which == "sim") {
      for (std::uint32_t i = 0; i < std::max(settings.gpu.count, 1u); ++i)
        devices.push_back(make_sim_device({.number = i}));
      return devices;
    }
    const bool is_asked_for =
        which != "auto" || settings.gpu.count > 1 || presets()[settings.server.preset].needs_device;
    const DeviceCount found = cuda_device_count();
    if (found.count == 0) {
      if (is_asked_for) say(fmt::format("no GPU: {}", found.reason));
      return {};
    }
    const auto first = which == "auto" ? 0 : static_cast<std::uint32_t>(parse_integer(which));
    const std::uint32_t left = found.count - std::min(first, found.count);
    const std::uint32_t count =
        settings.gpu.count != 0 ? settings.gpu.count : std::min(std::bit_floor(std::max(left, 1u)), devices_max);
    if (count > left) {
      say(fmt::format("no GPU {}: there {} {}", first + count - 1, found.count == 1 ? "is" : "are", found.count));
      return {};
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      devices.push_back(make_cuda_device(first + i));
      prove_kernels(*devices.back());
    }
    return devices;
  } catch (const std::exception& error) {
    say(fmt::format("the GPU is not used: {}", error.what()));
    return {};
  }
}

}  // namespace tandem::cli
