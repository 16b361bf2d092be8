// The results of `tandem calibrate` for a GPU, as a file by which the server chooses its cycle.
#pragma once
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "device/device.hpp"
#include "planner/calibration.hpp"

namespace tandem::cli {

inline constexpr std::string_view calibration_format = "tandem-calibration/1";

struct CalibrationRecord {
  std::string backend, device, pci_bus_id;  // as in DeviceInfo
  std::string version, date;                // of the measuring program, and of the measurement
  std::uint64_t cells = 0, keys = 0;
  LaunchFit search, change;
};

class CalibrationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

nlohmann::ordered_json calibration_json(const DeviceInfo& device, const Calibration& calibration);
// Throws CalibrationError that begins with `path`: not a calibration, or not one of this format.
CalibrationRecord parse_calibration(std::string_view text, std::string_view path);
// Throws CalibrationError.
CalibrationRecord read_calibration(const std::string& path);
// The text of a calibration's file. Throws CalibrationError: it cannot be read, or is far too large.
std::string read_calibration_text(const std::string& path);
// A document as its file has it, without the last line's end.
std::string calibration_text(const nlohmann::ordered_json& document);
// Atomic; creates the file's folder. Throws CalibrationError.
void write_calibration(const nlohmann::ordered_json& document, const std::string& path);
// The same for `tandem calibrate`, which says where it is kept; not if `quiet`. Throws CommandError.
void keep_calibration(const nlohmann::ordered_json& document, const std::string& path, bool quiet);
// $XDG_STATE_HOME/tandem/calibration.json, or below ~/.local/state. Empty: neither that nor a home is known.
std::string calibration_path();

// Throws CalibrationError: it was measured on another device.
void check_device(const CalibrationRecord& record, const DeviceInfo& device, std::string_view path);

}  // namespace tandem::cli
