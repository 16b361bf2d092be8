// Measures on a device the two lines by which a cycle is chosen (cycle.hpp): the time of a launch of Searches by their
// number, and that of a launch of changes by the number of SETs. As in the server: columns in pinned memory, which the
// kernels read and write, timed from the call until the host sees the result.
//
// A SET is measured at its most expensive: a new key while memory is full, which is an Insert and the Delete of the
// evicted key.
//
// Source: Mega-KV 5.2, figure 10. Departure: Search has its own numbers of queries, not 19 times those of Insert.
//
// Thread safety: one thread at a time.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "device/device.hpp"
#include "planner/cycle.hpp"

namespace tandem {

struct CalibrationOptions {
  std::uint64_t cells = std::uint64_t{1} << 27;  // of the table, 8 bytes each; rounded down to a power of two
  double load = 0.8;                             // share of the cells that has a key
  std::uint32_t searches_max = 1 << 16, sets_max = 1 << 14;  // of the largest launch
  unsigned steps = 16;                                       // numbers of queries, evenly spaced up to the largest
  unsigned rounds = 15;                                      // launches of each; the median counts
  std::uint64_t seed = 1;
  std::chrono::milliseconds deadline{10'000};  // a launch that takes longer makes the device lost
  std::function<void(std::string_view)> progress = {};
};

inline constexpr std::uint64_t calibration_cells_min = 1 << 10, calibration_cells_max = std::uint64_t{1} << 31;
inline constexpr std::uint32_t calibration_queries_max = 1 << 20;
inline constexpr double calibration_load_max = 0.95;

struct CalibrationSample {
  std::uint32_t queries = 0;
  double median_ns = 0, low_ns = 0, high_ns = 0;
};

struct CalibrationLine {
  std::vector<CalibrationSample> samples;
  LaunchFit fit;
};

struct Calibration {
  std::uint64_t cells = 0, keys = 0;
  CalibrationLine search, change;

  CycleModel model(double get_share, unsigned change_cycles) const noexcept {
    return {search.fit.line, change.fit.line, get_share, change_cycles};
  }
};

// Every answer is checked. Throws std::invalid_argument (bad options), DeviceError, std::runtime_error (a wrong answer
// of the device, or the table has no room).
Calibration calibrate(Device& device, const CalibrationOptions& options);

}  // namespace tandem
