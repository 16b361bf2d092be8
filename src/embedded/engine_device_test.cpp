// An engine with a device: whatever the device does, the store closes in order.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "device/sim/sim_device.hpp"
#include "embedded/restart_fixture.hpp"
#include "engine/engine_fixture.hpp"
#include "pipeline/runner.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

EngineOptions small(const std::shared_ptr<SimDevice>& device, const std::string& memory_file = {},
                    std::chrono::milliseconds deadline = 60'000ms) {
  EngineOptions o;
  o.memory_bytes = std::uint64_t{16} << 20;
  o.huge_pages = false;
  o.memory_file = memory_file;
  if (device != nullptr) o.devices = {device};
  o.scheduler.deadline = deadline;
  return o;
}

TEST(EngineDevice, TellsWhatItsDeviceDoes) {
  const std::shared_ptr<SimDevice> device = make_sim_device();
  Engine engine(small(device));
  ASSERT_TRUE(soon([&] { return engine.device_stats().front().serves; }));
  ASSERT_TRUE(soon([&] { return engine.device_stats().front().costs.host_query_ns > 0; }));
  DeviceStats s = engine.device_stats().front();
  EXPECT_EQ(s.backend, "sim");
  EXPECT_EQ(s.replica.state, ReplicaState::current);
  EXPECT_EQ(s.replica.uploads, 1u);
  EXPECT_GT(s.replica.device_bytes, 0u);
  EXPECT_FALSE(s.power_mw.has_value());
  device->lose();
  ASSERT_TRUE(soon([&] { return !engine.device_stats().front().serves; }));
  EXPECT_FALSE(engine.device_stats().front().lost_reason.empty());
  EXPECT_TRUE(engine.close(10s));
}

// A shard without a device: no device is used, and no key is missed.
TEST(EngineDevice, OneOfTwoCannotBeUsed) {
  EngineOptions o = small(make_sim_device());
  const std::shared_ptr<SimDevice> lost = make_sim_device();
  lost->lose();
  o.devices.push_back(lost);
  std::string said;
  o.warn = [&said](std::string_view line) { said += line; };
  Engine engine(o);
  EXPECT_EQ(engine.schedulers(), nullptr);
  EXPECT_TRUE(engine.device_stats().empty());
  EXPECT_NE(said.find("is not used"), std::string::npos) << said;
  EXPECT_TRUE(engine.close(10s));
}

TEST(EngineDevice, ThreeCannotShareTheIndex) {
  EngineOptions o = small(make_sim_device());
  o.devices.resize(3, o.devices.front());
  EXPECT_THROW(Engine{o}, std::invalid_argument);
  o.devices = {nullptr};
  EXPECT_THROW(Engine{o}, std::invalid_argument);
}

// A set's number is no bits of the hash, so sets have no shards; and its host is needed for what it evicts.
TEST(EngineDevice, SetsHaveOneDevice) {
  EngineOptions o = small(make_sim_device());
  o.index_kind = "set_associative";
  {
    Engine engine(o);
    ASSERT_TRUE(soon([&] { return engine.schedulers()->serves(); }));
    EXPECT_EQ(engine.device_stats().front().replica.state, ReplicaState::current);
    EXPECT_TRUE(engine.close(10s));
  }
  o.index_on_device = true;
  EXPECT_THROW(Engine{o}, std::invalid_argument);
  o.index_on_device = false;
  o.devices.push_back(make_sim_device());
  EXPECT_THROW(Engine{o}, std::invalid_argument);
  o.devices.pop_back();
  o.index_kind = "hash_tree";
  EXPECT_THROW(Engine{o}, std::invalid_argument);
}

// The remaining device does not maintain a replica that is not used.
TEST(EngineDevice, WithoutOneOfTwoTheOtherGivesItsReplicaUp) {
  EngineOptions o = small(make_sim_device());
  const std::shared_ptr<SimDevice> second = make_sim_device();
  o.devices.push_back(second);
  Engine engine(o);
  ASSERT_TRUE(soon([&] { return engine.schedulers()->serves(); }));
  EXPECT_GT(engine.device_stats().front().replica.device_bytes, 0u);
  second->lose();
  ASSERT_TRUE(soon([&] { return engine.device_stats().front().replica.state == ReplicaState::absent; }));
  EXPECT_TRUE(soon([&] { return engine.device_stats().front().replica.device_bytes == 0; }));
  EXPECT_EQ(engine.device_stats().front().lost_reason, "");
  EXPECT_FALSE(engine.schedulers()->serves());
}

// The index grows, and the call for the new replica's memory does not return.
TEST(EngineDevice, ClosesItsFileBesideAStuckDriver) {
  const TemporaryFile file;
  const std::shared_ptr<SimDevice> device = make_sim_device();
  {
    // Long enough for the threads of a busy machine: otherwise the device would be lost; the test waits four of them.
    Engine engine(small(device, file.path(), 500ms));
    ASSERT_TRUE(soon([&] { return engine.device_stats().front().serves; }));
    {
      const Engine::ContextPtr context = engine.make_context();
      Runner batches(*context, engine.schedulers(), 1);
      device->block_calls();
      {
        EpochDomain::Participant grower(engine.shared().epochs);
        ASSERT_TRUE(engine.shared().index.grow(grower));
      }
      // Batches make the replica check the index; one is taken back when its worker has waited long enough.
      for (int i = 0; i < 1000 && !engine.schedulers()->is_stuck(); ++i) {
        batches.filling().next() = {};
        batches.filling().commit();
        batches.submit(plan_search);
        static_cast<void>(batches.begin_answer());
        batches.end_answer();
      }
    }
    EXPECT_TRUE(engine.schedulers()->is_stuck());
    static_cast<void>(engine.device_stats());  // returns
    EXPECT_FALSE(engine.close(100ms));
    device->resume();  // else this test could not end
  }
  const Engine next(small(nullptr, file.path()));
  ASSERT_TRUE(next.restart().has_value());
  EXPECT_FALSE(next.restart()->was_killed);
}

}  // namespace
}  // namespace tandem
