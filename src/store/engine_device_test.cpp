// An engine beside a device: whatever that does, the store ends in order.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "device/sim/sim_device.hpp"
#include "pipeline/device_batches.hpp"
#include "store/engine.hpp"
#include "store/restart_fixture.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

template <class F>
bool soon(F is_so) {
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (!is_so() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  return is_so();
}

EngineOptions small(const std::shared_ptr<SimDevice>& device, const std::string& memory_file = {}) {
  EngineOptions o;
  o.memory_bytes = std::uint64_t{16} << 20;
  o.huge_pages = false;
  o.memory_file = memory_file;
  o.device = device;
  o.scheduler.deadline = 20ms;
  return o;
}

TEST(EngineDevice, TellsWhatItsDeviceDoes) {
  const std::shared_ptr<SimDevice> device = make_sim_device();
  Engine engine(small(device));
  ASSERT_TRUE(soon([&] { return engine.device_stats()->serves; }));
  ASSERT_TRUE(soon([&] { return engine.device_stats()->costs.host_query_ns > 0; }));
  DeviceStats s = *engine.device_stats();
  EXPECT_EQ(s.backend, "sim");
  EXPECT_EQ(s.replica.state, ReplicaState::current);
  EXPECT_EQ(s.replica.uploads, 1u);
  EXPECT_GT(s.replica.device_bytes, 0u);
  EXPECT_FALSE(s.power_mw.has_value());
  device->lose();
  ASSERT_TRUE(soon([&] { return !engine.device_stats()->serves; }));
  EXPECT_FALSE(engine.device_stats()->lost_reason.empty());
  EXPECT_TRUE(engine.close(10s));
}

// The index grows, and the call for the new replica's memory does not return.
TEST(EngineDevice, ClosesItsFileBesideAStuckDriver) {
  const TemporaryFile file;
  const std::shared_ptr<SimDevice> device = make_sim_device();
  {
    Engine engine(small(device, file.path()));
    ASSERT_TRUE(soon([&] { return engine.device_stats()->serves; }));
    {
      const Engine::ContextPtr context = engine.make_context();
      DeviceBatches batches(*context, *engine.scheduler(), 1);
      device->block_calls();
      {
        EpochDomain::Participant grower(engine.shared().epochs);
        ASSERT_TRUE(engine.shared().index.grow(grower));
      }
      // Batches have the replica look at the index; one is taken back when its worker has waited long enough.
      for (int i = 0; i < 1000 && !engine.scheduler()->is_stuck(); ++i) {
        batches.filling().next() = {};
        batches.filling().commit();
        batches.submit();
        static_cast<void>(batches.begin_answer());
        batches.end_answer();
      }
    }
    EXPECT_TRUE(engine.scheduler()->is_stuck());
    static_cast<void>(engine.replica_stats());  // returns
    EXPECT_FALSE(engine.close(100ms));
    device->resume();  // else this test could not end
  }
  const Engine next(small(nullptr, file.path()));
  ASSERT_TRUE(next.restart().has_value());
  EXPECT_FALSE(next.restart()->was_killed);
}

}  // namespace
}  // namespace tandem
