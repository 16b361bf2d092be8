#include "planner/calibration.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "device/sim/sim_device.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

CalibrationOptions small() {
  CalibrationOptions options;
  options.cells = 1 << 14;
  options.searches_max = 1024;
  options.sets_max = 512;
  options.steps = 4;
  options.rounds = 3;
  return options;
}

// A launch of n takes 20 ms, and 20 ms for every 256 of them. Other load on this machine adds some milliseconds to
// each, so it hardly changes the slope.
TEST(Calibration, FindsTheLinesOfADevice) {
  SimDevice device({.latency = 20ms, .lanes = 256, .lane_time = 20ms});
  const auto is_found = [](const LaunchFit& fit, double query_ns) {
    return std::abs(fit.line.query_ns - query_ns) < 0.4 * query_ns && fit.line.launch_ns > 8e6 &&
           fit.line.launch_ns < 60e6 && fit.r2 > 0.7;
  };
  const auto are_found = [&](const Calibration& of) {
    return is_found(of.search.fit, 20e6 / 256) &&
           is_found(of.change.fit, 2 * 20e6 / 256);  // a SET is both the Insert and the Delete
  };
  CalibrationOptions options = small();
  Calibration c = calibrate(device, options);
  // If threads wait for processors, more rounds are needed for an undisturbed median.
  while (!are_found(c) && options.rounds < 50) {
    options.rounds *= 2;
    c = calibrate(device, options);
  }
  EXPECT_TRUE(are_found(c)) << c.search.fit.line.query_ns << ' ' << c.search.fit.line.launch_ns << ' '
                            << c.change.fit.line.query_ns << ' ' << c.change.fit.line.launch_ns;
  ASSERT_EQ(c.search.samples.size(), 4U);
  ASSERT_EQ(c.change.samples.size(), 4U);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(c.search.samples[i].queries, 256 * (i + 1));
    EXPECT_EQ(c.change.samples[i].queries, 128 * (i + 1));
    const CalibrationSample& s = c.search.samples[i];
    EXPECT_GE(s.low_ns, 20e6 * (i + 2));  // the model's time is the minimum
    EXPECT_LE(s.low_ns, s.median_ns);
    EXPECT_LE(s.median_ns, s.high_ns);
  }
  EXPECT_EQ(c.cells, 1U << 14);
  EXPECT_EQ(c.keys, static_cast<std::uint64_t>(0.8 * (1 << 14)));
  const CycleModel model = c.model(0.9, 3);
  EXPECT_EQ(model.search.query_ns, c.search.fit.line.query_ns);
  EXPECT_EQ(model.change.launch_ns, c.change.fit.line.launch_ns);
  EXPECT_EQ(model.get_share, 0.9);
  EXPECT_EQ(model.change_cycles, 3U);
}

// Keys are added and evicted until all locations have been used several times.
TEST(Calibration, ChecksEveryAnswerWhileKeysComeAndGo) {
  const auto device = make_sim_device();
  CalibrationOptions options = small();
  options.cells = 1 << 12;
  options.load = calibration_load_max;
  options.rounds = 25;
  EXPECT_EQ(calibrate(*device, options).keys, static_cast<std::uint64_t>(0.95 * (1 << 12)));
}

TEST(Calibration, RefusesWhatCannotBeMeasured) {
  const auto device = make_sim_device();
  const auto refused = [&](auto change) {
    CalibrationOptions options = small();
    change(options);
    EXPECT_THROW(static_cast<void>(calibrate(*device, options)), std::invalid_argument);
  };
  refused([](auto& o) { o.cells = calibration_cells_min - 1; });
  refused([](auto& o) { o.cells = calibration_cells_max + 1; });
  refused([](auto& o) { o.load = 0; });
  refused([](auto& o) { o.load = 0.96; });
  refused([](auto& o) { o.steps = 1; });
  refused([](auto& o) { o.rounds = 0; });
  refused([](auto& o) { o.searches_max = 3; });
  refused([](auto& o) { o.sets_max = calibration_queries_max + 1; });
  refused([](auto& o) { o.sets_max = 14'000; });
}

TEST(Calibration, SaysWhatTheDeviceDid) {
  const auto status_of = [](SimDevice& device, const CalibrationOptions& options) {
    try {
      static_cast<void>(calibrate(device, options));
    } catch (const DeviceError& error) {
      return error.status();
    }
    return DeviceStatus::ok;
  };
  {
    SimDevice device({.memory_bytes = 1 << 16});
    EXPECT_EQ(status_of(device, small()), DeviceStatus::out_of_memory);
  }
  {
    SimDevice device({});
    device.refuse(4);
    EXPECT_EQ(status_of(device, small()), DeviceStatus::failed);
  }
  {
    SimDevice device({});
    device.fail(4);
    EXPECT_EQ(status_of(device, small()), DeviceStatus::failed);
  }
  {
    SimDevice device({});
    device.hang();
    CalibrationOptions options = small();
    options.deadline = 50ms;
    EXPECT_EQ(status_of(device, options), DeviceStatus::lost);
    EXPECT_TRUE(device.lost());
  }
}

}  // namespace
}  // namespace tandem
