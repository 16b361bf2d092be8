// One device and several, each with a shard of the index: answers equal the host's, whichever device fails, and the
// work is shared.
#include <gtest/gtest.h>

#include "device/cuda/cuda_device.hpp"
#include "device/sim/sim_device.hpp"
#include "pipeline/scheduler_fixture.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using Rig = SchedulerRig;
using Devices = std::vector<std::unique_ptr<SimDevice>>;

// Their addresses differ: no device can use another's.
Devices make_devices(std::uint32_t count, SimOptions options = {}) {
  Devices devices;
  for (; options.number < count; ++options.number) devices.push_back(make_sim_device(options));
  return devices;
}
template <class D>
std::vector<Device*> pointers(const std::vector<std::unique_ptr<D>>& devices) {
  std::vector<Device*> all;
  for (const auto& d : devices) all.push_back(d.get());
  return all;
}
std::uint64_t queries_of(const Rig& rig, std::size_t shard) {
  return rig.parts[shard]->scheduler.counters().queries.get();
}

class Shards : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Of, Shards, testing::Values(1u, 2u, 4u, 8u),
                         [](const auto& of) { return std::to_string(of.param); });

TEST_P(Shards, AnswerAsTheHostWould) {
  const Devices devices = make_devices(GetParam());
  Rig rig(pointers(devices));
  rig.wait_until_it_serves();
  std::mt19937_64 random(1);
  for (const unsigned writes : {0U, 5U, 50U, 100U, 5U}) rig.run(random, 20 * Rig::batch_queries, 3000, writes);
  rig.finish();
  std::uint64_t sum = 0;
  for (unsigned s = 0; s < GetParam(); ++s) {
    EXPECT_GT(queries_of(rig, s), rig.added / GetParam() / 4) << "shard " << s;
    sum += queries_of(rig, s);
  }
  EXPECT_LE(sum, rig.added);
  // Without writers they find the keys' own items; otherwise the host would retry.
  const std::uint64_t retries = rig.context.counters.index_retries.get();
  rig.run(random, 20 * Rig::batch_queries, 3000, 0);
  rig.finish();
  EXPECT_LT(rig.context.counters.index_retries.get(), retries + 5);
  // A device has its share of the cells, and no more.
  const std::uint64_t table_bytes = rig.index.table_bytes();
  for (const auto& part : rig.parts) EXPECT_EQ(part->replica.stats().device_bytes, table_bytes / GetParam() * 3 / 2);
}

TEST_P(Shards, KeysThatAreNotThereAreMissedByTheDevices) {
  const Devices devices = make_devices(GetParam());
  Rig rig(pointers(devices));
  rig.wait_until_it_serves();
  for (unsigned i = 0; i < 500; ++i) rig.add(Opcode::store, "key" + std::to_string(i), "value");
  rig.finish();
  for (unsigned i = 0; i < 20 * Rig::batch_queries; ++i) rig.add(Opcode::get, "absent" + std::to_string(i));
  rig.finish();
  EXPECT_EQ(rig.context.counters.get_misses.get(), 20U * Rig::batch_queries);
  // Few have a stripe that was changed since the oldest of the launches.
  EXPECT_LT(rig.context.counters.device_rechecks.get(), 2U * Rig::batch_queries);
}

TEST_P(Shards, GrowthOfTheIndexIsFollowed) {
  const Devices devices = make_devices(GetParam());
  Rig rig(pointers(devices), Rig::patient(), 1 << 10);
  rig.wait_until_it_serves();
  std::mt19937_64 random(2);
  rig.run(random, 4 * Rig::batch_queries, 700, 80);
  EpochDomain::Participant self(rig.epochs);
  for (int growths = 0; growths < 3; ++growths) {
    std::thread grower([&] { EXPECT_TRUE(rig.index.grow(self)); });
    // The grower waits for the epochs of batches in flight.
    for (int i = 0; i < 20; ++i) {
      rig.run(random, 2 * Rig::batch_queries, 700, 30);
      rig.finish();
    }
    grower.join();
    rig.wait_until_it_serves();
    const std::uint64_t before = queries_of(rig, GetParam() - 1);
    rig.run(random, 4 * Rig::batch_queries, 700, 5);
    rig.finish();
    EXPECT_GT(queries_of(rig, GetParam() - 1), before);
  }
}

// One of two fails in the middle: the host answers its part, and the loss of either ends the service of both.
TEST(ShardsFail, OneDeviceOfTwo) {
  for (const char* fault : {"lose", "hang", "abandon", "fail", "refuse"}) {
    SCOPED_TRACE(fault);
    const Devices devices = make_devices(2, {.latency = 50us});
    const std::string_view f = fault;
    Rig rig(pointers(devices), {.deadline = f == "hang" ? short_deadline : long_deadline});
    rig.wait_until_it_serves();
    std::mt19937_64 random(4);
    rig.run(random, 4 * Rig::batch_queries, 700, 30);
    if (f == "lose") devices[1]->lose();
    if (f == "hang") devices[1]->hang();
    if (f == "abandon") devices[1]->abandon();
    if (f == "fail") devices[1]->fail(2);
    if (f == "refuse") devices[1]->refuse(2);
    rig.run(random, 40 * Rig::batch_queries, 700, 30);
    rig.finish();
    const bool goes_on = f == "fail" || f == "refuse";
    const SchedulerCounters& counters = rig.parts[1]->scheduler.counters();
    if (goes_on) {
      EXPECT_GT(counters.failed_batches.get() + counters.refused_batches.get() + rig.parts[1]->replica.stats().failures,
                0u);
    }
    if (goes_on) rig.wait_until_it_serves();
    EXPECT_EQ(rig.schedulers.serves(), goes_on);
    EXPECT_FALSE(devices[0]->lost());
    const std::uint64_t before = queries_of(rig, 0);
    rig.run(random, 8 * Rig::batch_queries, 700, 30);
    rig.finish();
    EXPECT_EQ(queries_of(rig, 0) > before, goes_on);
  }
}

// One device is far slower than the other: batches wait for both, and no results are mixed up.
TEST(ShardsFail, OneDeviceIsSlow) {
  std::vector<std::unique_ptr<SimDevice>> devices;
  devices.push_back(make_sim_device());
  devices.push_back(make_sim_device({.latency = 3ms}));
  Rig rig(pointers(devices));
  rig.wait_until_it_serves();
  std::mt19937_64 random(5);
  rig.run(random, 40 * Rig::batch_queries, 700, 30);
  rig.finish();
  EXPECT_GT(queries_of(rig, 0), 0u);
  EXPECT_GT(queries_of(rig, 1), 0u);
}

TEST(ShardsFail, WorkersTakeTheirBatchesBackFromOneStuckThread) {
  const Devices devices = make_devices(2);
  Rig rig(pointers(devices), {.deadline = short_deadline}, 1 << 10);
  rig.wait_until_it_serves();
  std::mt19937_64 random(6);
  rig.run(random, 4 * Rig::batch_queries, 500, 50);
  rig.finish();
  devices[1]->block_calls();
  {
    EpochDomain::Participant grower(rig.epochs);
    ASSERT_TRUE(rig.index.grow(grower));
  }
  for (int i = 0; i < 100 && !rig.schedulers.is_stuck(); ++i) rig.run(random, 2 * Rig::batch_queries, 500, 20);
  EXPECT_TRUE(rig.parts[1]->scheduler.is_stuck());
  EXPECT_FALSE(rig.parts[0]->scheduler.is_stuck());
  rig.run(random, 8 * Rig::batch_queries, 500, 50);
  rig.finish();
  devices[1]->resume();
}

// A worker ends while one of its batch's two schedulers is stuck with it.
TEST(ShardsFail, AWorkerGoesWhileOneThreadIsStuck) {
  const Devices devices = make_devices(2);
  Rig rig(pointers(devices), {.deadline = short_deadline}, 1 << 10);
  rig.wait_until_it_serves();
  {
    Context context(rig.shared);
    Runner batches(context, &rig.schedulers, 64);
    devices[1]->block_calls();
    EpochDomain::Participant grower(rig.epochs);
    ASSERT_TRUE(rig.index.grow(grower));
    const std::string key = "key";
    for (unsigned i = 0; i < batches.count(); ++i) {
      for (int n = 0; n < 64; ++n) {
        batches.filling().next() = query_of(Opcode::get, key);
        batches.filling().commit();
      }
      batches.submit(rig.plan);
    }
  }
  std::mt19937_64 random(8);
  rig.run(random, 8 * Rig::batch_queries, 500, 50);
  rig.finish();
  devices[1]->resume();
}

// The same on all GPUs of this machine, as many as can share the index.
TEST(ShardsFail, OnRealDevices) {
  const DeviceCount found = cuda_device_count();
  if (found.count < 2) GTEST_SKIP() << "there are " << found.count << " GPUs";
  std::vector<std::unique_ptr<Device>> devices;
  for (std::uint32_t n = 0; n < std::bit_floor(std::min(found.count, shards_max)); ++n)
    devices.push_back(make_cuda_device(n));
  Rig rig(pointers(devices), Rig::patient(), 1 << 14, std::uint64_t{32} << 20,
          {.images = {.bytes = std::uint64_t{32} << 20}});
  rig.wait_until_it_serves();
  std::mt19937_64 random(7);
  for (const unsigned writes : {0U, 5U, 50U, 100U, 5U}) rig.run(random, 200 * Rig::batch_queries, 3000, writes);
  rig.finish();
  EXPECT_GT(queries_of(rig, devices.size() - 1), rig.added / devices.size() / 4);
  devices.back()->abandon();
  rig.run(random, 20 * Rig::batch_queries, 3000, 20);
}

}  // namespace
}  // namespace tandem
