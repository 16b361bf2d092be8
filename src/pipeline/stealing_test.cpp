// Coarse stealing: whatever the device's share, answers equal the host's; and the share follows the waiting side.
#include <gtest/gtest.h>

#include "device/sim/sim_device.hpp"
#include "pipeline/device_share.hpp"
#include "pipeline/scheduler_fixture.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using Rig = SchedulerRig;

TEST(DeviceShare, IsInSetsOfTheFront) {
  DeviceShare share;
  EXPECT_EQ(share.queries(1000), 1000u);
  share.answered(true, true);
  EXPECT_EQ(share.queries(1024), 960u);
  EXPECT_EQ(share.queries(1000), 896u);
  EXPECT_EQ(share.queries(70), 64u);
  EXPECT_EQ(share.queries(10), 10u);
  EXPECT_EQ(share.queries(0), 0u);
}

TEST(DeviceShare, FollowsWhoWaits) {
  DeviceShare share;
  share.answered(false, true);
  EXPECT_EQ(share.parts(), DeviceShare::whole) << "waited with nothing else to do";
  for (unsigned left = DeviceShare::whole; left-- > 0;) {
    share.answered(true, true);
    EXPECT_EQ(share.parts(), left);
  }
  share.answered(true, true);
  EXPECT_EQ(share.parts(), 0u);
  for (unsigned i = 0; i < DeviceShare::host_batches; ++i) EXPECT_EQ(share.queries(1024), 0u) << i;
  EXPECT_EQ(share.queries(1024), DeviceShare::set) << "a try";
  share.answered(true, true);
  EXPECT_EQ(share.queries(1024), 0u);
  for (unsigned i = 0; i < DeviceShare::whole * DeviceShare::quiet_answers; ++i) share.answered(true, false);
  EXPECT_EQ(share.parts(), DeviceShare::whole);
  for (unsigned i = 1; i < DeviceShare::quiet_answers; ++i) share.answered(true, false);
  share.answered(true, true);
  EXPECT_EQ(share.parts(), DeviceShare::whole - 1);
  for (unsigned i = 1; i < DeviceShare::quiet_answers; ++i) share.answered(true, false);
  EXPECT_EQ(share.parts(), DeviceShare::whole - 1) << "not four in a row yet";
}

class Stealing : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Images, Stealing, testing::Values(0, std::uint64_t{32} << 20),
                         [](const auto& bytes) { return bytes.param == 0 ? "none" : "some"; });

// A slow device gets less and less; when it is fast again it gets more.
TEST_P(Stealing, AnswersAreTheHosts) {
  for (const std::uint32_t count : {1u, 2u}) {
    SCOPED_TRACE(count);
    std::vector<std::unique_ptr<SimDevice>> devices;
    for (std::uint32_t n = 0; n < count; ++n) devices.push_back(make_sim_device({.number = n, .latency = 100us}));
    std::vector<Device*> all;
    for (const auto& d : devices) all.push_back(d.get());
    Rig rig(all, {.deadline = long_deadline, .steal = true}, 1 << 14, std::uint64_t{32} << 20,
            {.images = {.bytes = GetParam()}});
    rig.wait_until_it_serves();
    std::mt19937_64 random(9);
    // So slow that the host waits for it, even where a sanitizer or a busy machine slows the host.
    for (const auto& d : devices) d->slow(200);
    const auto stolen = [&] { return rig.context.counters.device_stolen.get(); };
    // A slower machine steals less.
    constexpr std::uint64_t enough = (is_sanitized ? 5 : 20) * Rig::batch_queries;
    for (int round = 0; round == 0 || (round < 20 && stolen() <= enough); ++round) {
      for (const unsigned writes : {0U, 5U, 50U, 5U}) rig.run(random, 20 * Rig::batch_queries, 3000, writes);
    }
    EXPECT_GT(stolen(), enough);
    EXPECT_LT(stolen(), rig.added);
    for (const auto& d : devices) d->slow(0);
    for (const unsigned writes : {5U, 0U}) rig.run(random, 200 * Rig::batch_queries, 3000, writes);
    rig.finish();
    EXPECT_GT(rig.scheduler.counters().queries.get(), 0u);
  }
}

// Absent keys are missed by host and device; a device's misses are not taken for the host's.
TEST(StealingMisses, AreMissedByBoth) {
  const auto device = make_sim_device({.latency = 200us});
  Rig rig(*device, {.deadline = long_deadline, .steal = true});
  rig.wait_until_it_serves();
  device->slow(200);  // as above: the host waits for it wherever this runs
  const auto stolen = [&] { return rig.context.counters.device_stolen.get(); };
  for (unsigned i = 0; i < 500; ++i) rig.add(Opcode::store, "key" + std::to_string(i), "value");
  for (int round = 0; round == 0 || (round < 20 && stolen() == 0); ++round) {
    for (unsigned i = 0; i < 60 * Rig::batch_queries; ++i) rig.add(Opcode::get, "key" + std::to_string(i % 1500));
  }
  device->slow(0);
  rig.finish();
  EXPECT_GT(stolen(), 0u);
  EXPECT_GT(rig.context.counters.get_misses.get(), 30u * Rig::batch_queries);
}

TEST(StealingMisses, NothingIsStolenUnlessAskedFor) {
  const auto device = make_sim_device({.latency = 1ms});
  Rig rig(*device);
  rig.wait_until_it_serves();
  std::mt19937_64 random(10);
  rig.run(random, 20 * Rig::batch_queries, 500, 20);
  rig.finish();
  EXPECT_EQ(rig.context.counters.device_stolen.get(), 0u);
}

}  // namespace
}  // namespace tandem
