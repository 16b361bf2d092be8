#include "pipeline/runner.hpp"

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "device/sim/sim_device.hpp"
#include "pipeline/scheduler_fixture.hpp"

namespace tandem {
namespace {

using Queries = std::array<std::uint64_t, task_count>;

class RunnerTest : public testing::Test {
 protected:
  static constexpr std::uint32_t queries = 2 * SchedulerRig::batch_queries;

  RunnerTest() {
    rig_.wait_until_it_serves();
    for (int i = 0; i < 100; ++i) rig_.add(Opcode::store, "key" + std::to_string(i), "value");
    rig_.finish();
  }

  // Runs reads and a few writes with the plan. Returns the number of queries for which a device ran each task.
  Queries on_device(const Plan& plan) {
    rig_.plan = plan;
    const TasksRan before = ran();
    for (std::uint32_t i = 0; i < queries; ++i)
      rig_.add(i % 16 == 0 ? Opcode::store : Opcode::get, "key" + std::to_string(i % 120), "other");
    rig_.finish();
    const TasksRan after = ran();
    Queries moved{};
    for (std::size_t t = 0; t < task_count; ++t) {
      const auto task = static_cast<Task>(t);
      moved[t] = after.of(task, Processor::device) - before.of(task, Processor::device);
      EXPECT_EQ(after.of(task, Processor::cpu) - before.of(task, Processor::cpu), queries - moved[t]);
    }
    return moved;
  }
  // The same once the device takes the batch: the host answers while the device is behind with what was changed before.
  Queries on_ready_device(const Plan& plan) {
    constexpr int attempts = 100;
    Queries moved = on_device(plan);
    for (int i = 1; i < attempts && moved == Queries{}; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      moved = on_device(plan);
    }
    return moved;
  }
  TasksRan ran() const {
    TasksRan ran;
    ran.add(rig_.context.tasks);
    return ran;
  }
  static Queries only(std::initializer_list<Task> tasks, std::uint64_t count) {
    Queries all{};
    for (const Task t : tasks) all[index_of(t)] = count;
    return all;
  }

  std::unique_ptr<SimDevice> device_ = make_sim_device();
  SchedulerRig rig_{*device_,
                    SchedulerRig::patient(),
                    1 << 14,
                    std::uint64_t{32} << 20,
                    {.images = {.bytes = std::uint64_t{16} << 20}}};
};

TEST_F(RunnerTest, MovingATaskMovesItsCounterAndNoOther) {
  EXPECT_EQ(on_device(plan_cpu), Queries{});
  EXPECT_EQ(on_ready_device(plan_search), only({Task::search}, queries));
  EXPECT_EQ(on_device(plan_cpu), Queries{});
}

TEST_F(RunnerTest, AFrontOfABatchIsTheDevices) {
  for (const std::uint16_t sets : {std::uint16_t{1}, std::uint16_t{3}}) {
    const std::uint64_t front = std::uint64_t{2} * sets * Range::set;
    EXPECT_EQ(on_ready_device(plan_search.split(sets)), only({Task::search}, front));
  }
  // More than a batch has.
  EXPECT_EQ(on_ready_device(plan_search.split(100)), only({Task::search}, queries));
}

// Tasks that a device did not run count as the host's.
TEST_F(RunnerTest, ALostDeviceRunsNothing) {
  device_->lose();
  static_cast<void>(on_device(plan_search));  // some may have been refused before the loss was noticed
  EXPECT_EQ(on_device(plan_search), Queries{});
}

// Searched, then let go: the host searched again.
TEST_F(RunnerTest, WhatIsLetGoOfIsTheHosts) {
  rig_.plan = plan_search;
  const TasksRan before = ran();
  for (std::uint32_t i = 0; i < SchedulerRig::batch_queries; ++i)
    rig_.add(Opcode::get, "key" + std::to_string(i % 120));
  rig_.batches.let_go();
  rig_.finish();
  EXPECT_EQ(ran().of(Task::search, Processor::device), before.of(Task::search, Processor::device));
  EXPECT_EQ(ran().of(Task::search, Processor::cpu),
            before.of(Task::search, Processor::cpu) + SchedulerRig::batch_queries);
}

TEST(Runner, WithoutDevicesHasOneFlight) {
  const auto device = make_sim_device();
  SchedulerRig rig(*device);
  Context context(rig.shared);
  Runner runner(context, nullptr, 64);
  EXPECT_EQ(runner.count(), 1u);
  EXPECT_FALSE(runner.has_devices());
  EXPECT_FALSE(runner.can_begin(plan_search));
  runner.filling().next() = {};
  runner.filling().commit();
  runner.submit(plan_search);
  EXPECT_FALSE(runner.can_fill());
  EXPECT_EQ(runner.begin_answer().plan, plan_cpu);
  runner.end_answer();
  EXPECT_TRUE(runner.can_fill());
}

}  // namespace
}  // namespace tandem
