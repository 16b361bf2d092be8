#include "options/gpu_cycle.hpp"

#include <fmt/format.h>
#include <sysexits.h>

#include <stdexcept>

#include "options/calibration_file.hpp"
#include "options/value.hpp"

namespace tandem::cli {
namespace {

CalibrationRecord calibration_of(const Settings& settings, std::span<const std::shared_ptr<Device>> devices) {
  const std::string path = !settings.gpu.calibration.empty() ? settings.gpu.calibration : calibration_path();
  if (path.empty())
    throw CommandError(EX_CONFIG, "gpu-latency-target: gpu-calibration must name a file, as no home is known");
  try {
    const CalibrationRecord record = read_calibration(path);
    for (const auto& device : devices) {
      DeviceInfo info = device->info();
      if (&device != devices.data()) info.pci_bus_id = record.pci_bus_id;  // further devices must be of the same kind
      check_device(record, info, path);
    }
    return record;
  } catch (const CalibrationError& error) {
    throw CommandError(EX_CONFIG, fmt::format("gpu-calibration: {}", error.what()));
  }
}

}  // namespace

std::chrono::microseconds gpu_cycle(const Settings& settings, std::span<const std::shared_ptr<Device>> devices,
                                    const std::function<void(std::string_view)>& say) {
  const GpuOptions& gpu = settings.gpu;
  std::chrono::microseconds cycle(gpu.cycle_us);
  if (gpu.latency_target_us == 0 && gpu.calibration.empty()) return cycle;
  if (devices.empty()) {
    say("gpu-latency-target, gpu-calibration: without a GPU they have no effect");
    return cycle;
  }
  const CalibrationRecord record = calibration_of(settings, devices);
  const CycleModel model{record.search.line, record.change.line, gpu.get_percent / 100, settings.engine.change_cycles};
  const auto count = static_cast<double>(devices.size());
  if (gpu.latency_target_us != 0) {
    try {
      cycle = choose_cycle(model, gpu.rate_millions / 1e3 / count, std::chrono::microseconds(gpu.latency_target_us),
                           gpu_cycle_max);
    } catch (const std::invalid_argument& error) {
      throw CommandError(EX_CONFIG, fmt::format("gpu-latency-target: {}{}",
                                                devices.size() > 1 ? "each of the GPUs: " : "", error.what()));
    }
  }
  if (cycle.count() == 0) return cycle;
  const double most = rate_max(model, static_cast<double>(cycle.count()) * 1e3) * count;
  say(
      fmt::format("GPU: cycle {} us, which serves up to {:.4g} million queries per second ({:g} % GET) by the "
                  "calibration of {} (a table of {}, {:.3g} full)",
                  cycle.count(), most * 1e3, gpu.get_percent, in_quotes(record.date),
                  format_size_rounded(record.cells * sizeof(Cell)),
                  static_cast<double>(record.keys) / static_cast<double>(std::max<std::uint64_t>(record.cells, 1))));
  return cycle;
}

}  // namespace tandem::cli
