#include "cli/open_gpu.hpp"

#include <fmt/format.h>

#include "cli/value.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/sim/sim_device.hpp"
#include "planner/planner.hpp"

namespace tandem::cli {

std::shared_ptr<Device> open_gpu(const Settings& settings, const std::function<void(std::string_view)>& say) {
  const std::string& which = settings.gpu.which;
  if (which == "off" || settings.server.preset == static_cast<unsigned>(Preset::cpu)) return nullptr;
  try {
    if (which == "sim") return make_sim_device();
    const DeviceCount found = cuda_device_count();
    if (found.count == 0) {
      if (which != "auto") say(fmt::format("no GPU: {}", found.reason));
      return nullptr;
    }
    const auto number = which == "auto" ? 0 : static_cast<std::uint32_t>(parse_integer(which));
    if (number >= found.count) {
      say(fmt::format("no GPU {}: there {} {}", number, found.count == 1 ? "is" : "are", found.count));
      return nullptr;
    }
    return make_cuda_device(number);
  } catch (const std::exception& error) {
    say(fmt::format("the GPU is not used: {}", error.what()));
    return nullptr;
  }
}

}  // namespace tandem::cli
