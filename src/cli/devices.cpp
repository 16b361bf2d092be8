// `tandem devices`: the accelerators of this machine.
#include <fmt/format.h>
#include <sysexits.h>

#include <CLI/CLI.hpp>

#include "cli/command.hpp"
#include "device/cuda/cuda_device.hpp"
#include "options/arguments.hpp"

namespace tandem::cli {

int run_devices(std::span<const std::string> arguments) {
  CLI::App app("Lists the accelerators that this program finds, or says why there are none.", "tandem devices");
  if (const auto done = parse_arguments(app, arguments, "devices")) return *done;
  const DeviceCount found = cuda_device_count();
  if (found.count == 0) fmt::print("cuda: none: {}\n", found.reason);
  for (std::uint32_t i = 0; i < found.count; ++i) {
    try {
      const DeviceInfo info = cuda_device_info(i);
      fmt::print("cuda {}: {}, {:.1f} GiB, {} multiprocessors\n", i, info.name,
                 static_cast<double>(info.memory_bytes) / (std::uint64_t{1} << 30), info.multiprocessors);
    } catch (const DeviceError& error) {
      fmt::print("cuda {}: {}\n", i, error.what());
    }
  }
  return EX_OK;
}

}  // namespace tandem::cli
