#include "pipeline/round_trip.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "device/sim/sim_device.hpp"
#include "heap/heap.hpp"
#include "placement/mirrored/replica.hpp"
#include "placement/mirrored/replica_log.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

constexpr auto in_time = 60'000ms;

struct Followed {
  explicit Followed(const SimOptions& options) : device(make_sim_device(options)) {
    replica.start();
    while (replica.step(1 << 20) == ReplicaState::uploading) std::this_thread::yield();
    // Waits until the device has done what was sent.
    for (int ms = 0; ms < 10'000 && replica.waits_for() != 0; ++ms) {
      static_cast<void>(replica.drain());
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(replica.waits_for(), 0u);
    EXPECT_EQ(replica.stats().state, ReplicaState::current);
  }

  std::unique_ptr<SimDevice> device;
  MemoryBudget budget{std::uint64_t{32} << 20};
  EpochDomain epochs{8};
  ReplicaLog log;
  Heap heap{{.huge_pages = false}, budget, epochs};
  CuckooIndex index{{.cells_initial = 1 << 14, .hash_seed = 7, .huge_pages = false, .log = &log}, budget, epochs, heap};
  Replica replica{*device, index, log, epochs};
};

TEST(RoundTrip, ThresholdIsWhereBothTakeAsLong) {
  EXPECT_EQ(RoundTrip::queries_min({20'000, 1, 21}), 1000u);
  EXPECT_EQ(RoundTrip::queries_min({20'001, 1, 21}), 1001u);
  EXPECT_EQ(RoundTrip::queries_min({0, 0, 10}), 1u);
  EXPECT_EQ(RoundTrip::queries_min({20'000, 10, 10}), RoundTrip::never);
  EXPECT_EQ(RoundTrip::queries_min({20'000, 11, 10}), RoundTrip::never);
  EXPECT_EQ(RoundTrip::queries_min({1e9, 0, 1e-9}), RoundTrip::never);
  EXPECT_EQ(RoundTrip::queries_min({0, 0, 0}), RoundTrip::never);
}

// Measures the times that the simulated device is configured to take.
TEST(RoundTrip, MeasuresTheDevice) {
  // Times so long that other load on this machine hardly changes the slope.
  Followed f({.latency = 2ms, .lanes = 1024, .lane_time = 10ms});
  RoundTrip round_trip(*f.device, f.index, f.epochs);
  const auto queries_min = round_trip.measure(f.replica, in_time);
  const RoundTrip::Costs& costs = round_trip.costs();
  EXPECT_GE(costs.device_ns + 64 * costs.device_query_ns, 12e6);  // the latency, and one round of its lanes
  EXPECT_GT(costs.device_query_ns, 0.7 * 10e6 / 1024);
  EXPECT_GT(costs.host_query_ns, 0);
  EXPECT_EQ(queries_min, RoundTrip::queries_min(costs));
  const double device_ns = costs.device_ns;
  ASSERT_TRUE(round_trip.measure(f.replica, in_time, 50ms));
  EXPECT_GT(round_trip.costs().device_ns, device_ns + 25e6) << "a batch waits for its launch";
}

TEST(RoundTrip, ADeviceThatFailsOrIsLateIsNeverWorthIt) {
  Followed f({});
  RoundTrip round_trip(*f.device, f.index, f.epochs);
  f.device->fail();
  EXPECT_EQ(round_trip.measure(f.replica, in_time), RoundTrip::never);
  EXPECT_FALSE(f.device->lost());
  f.device->hang();
  EXPECT_EQ(round_trip.measure(f.replica, 20ms), RoundTrip::never);
  EXPECT_TRUE(f.device->lost());
}

}  // namespace
}  // namespace tandem
