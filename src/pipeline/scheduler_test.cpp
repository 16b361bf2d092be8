// Batches with a device: every batch comes back and is answered as by the host alone, whatever the device does. The
// device is a simulated one; on a machine with a GPU the same tests run there, too.
#include "pipeline/scheduler.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "device/cuda/cuda_device.hpp"
#include "device/sim/sim_device.hpp"
#include "pipeline/scheduler_fixture.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

using Rig = SchedulerRig;

TEST(Scheduler, AnswersAsTheHostWould) {
  const auto device = make_sim_device();
  Rig rig(*device);
  rig.wait_until_it_serves();
  std::mt19937_64 random(1);
  for (const unsigned writes : {0U, 5U, 50U, 100U, 5U}) rig.run(random, 40 * Rig::batch_queries, 3000, writes);
  rig.finish();
  // The device searched most: the replica was current from the beginning.
  EXPECT_GT(rig.scheduler.counters().queries.get(), rig.added / 2);
  EXPECT_GT(rig.scheduler.counters().launches.get(), 10U);
}

// Equal keys in one batch: a get sees an earlier store, and not a later one.
TEST(Scheduler, ABatchKeepsItsOrder) {
  const auto device = make_sim_device();
  Rig rig(*device);
  rig.wait_until_it_serves();
  for (unsigned round = 0; round < 2000; ++round) {
    const std::string key = "key" + std::to_string(round % 7), value = std::to_string(round);
    rig.add(Opcode::get, key);
    rig.add(Opcode::store, key, value);
    rig.add(Opcode::get, key);
    if (round % 3 == 0) rig.add(Opcode::remove, key);
    if (round % 50 == 0) rig.add(Opcode::control, "");
    if (round % 11 == 0) rig.add(Opcode::nothing, "");
    rig.add(Opcode::get, key);
    if (round % 5 == 0) rig.submit();
    if (!rig.batches.can_fill()) rig.answer();
  }
}

// A full store: a worker that waits for memory leaves the epochs of its batches in flight.
TEST(Scheduler, EvictionDoesNotWaitForItself) {
  const auto device = make_sim_device({.latency = 200us});
  Rig rig(*device, Rig::patient(), 1 << 14, std::uint64_t{8} << 20);
  rig.wait_until_it_serves();
  const std::string value(3000, 'x');
  Rig& r = rig;
  std::mt19937_64 random(3);
  for (unsigned i = 0; i < 12'000; ++i) {
    // The model does not know about evictions: only stores, and gets of keys that never exist.
    if (i % 3 != 0) {
      r.add(Opcode::store, "key" + std::to_string(random() % 100'000), value);
    } else {
      r.add(Opcode::get, "absent" + std::to_string(i));
    }
  }
  r.finish();
  EXPECT_GT(r.context.counters.evictions.get(), 1000U);
  EXPECT_EQ(r.context.counters.store_no_memory.get(), 0U) << "an allocation reached its deadline";
}

// A batch that was let go is searched again, whatever the device has done with it by then.
TEST(Scheduler, WhatIsLetGoOfIsSearchedAgain) {
  constexpr unsigned key_count = 100;
  const auto device = make_sim_device({.latency = 1ms});
  Rig rig(*device);
  rig.wait_until_it_serves();
  Context other(rig.shared);
  OneByOne other_worker(other);
  Batch stores(key_count);
  for (unsigned round = 0; round < 40; ++round) {
    for (unsigned i = 0; i < key_count; ++i) rig.add(Opcode::store, "key" + std::to_string(i), std::to_string(round));
    rig.finish();
    for (unsigned i = 0; i < Rig::batch_queries; ++i) rig.add(Opcode::get, "key" + std::to_string(i % key_count));
    while (round % 2 == 0 && !rig.batches.oldest_is_done()) std::this_thread::yield();
    rig.batches.let_go();
    // The candidates' items are replaced, and their memory reused, several times.
    std::vector<std::string> keys(key_count);
    std::string value;
    for (unsigned again = 0; again < 5; ++again) {
      value = "other" + std::to_string(round) + std::string(again * 40, '.');
      for (unsigned i = 0; i < key_count; ++i) {
        keys[i] = "key" + std::to_string(i);
        stores.next() = query_of(Opcode::store, keys[i], value);
        stores.commit();
      }
      const std::vector<Expected> stored(key_count, {Status::stored, {}});
      Comparing writer;
      writer.expected = &stored;
      other_worker.run(stores, writer);
      stores.clear();
    }
    for (Expected& e : rig.expected[rig.batches.oldest()]) e.value = value;
    for (auto& [key, now] : rig.model) now = value;
    rig.finish();
  }
}

TEST(Scheduler, AFailedLaunchIsAnsweredByTheHost) {
  const auto device = make_sim_device();
  Rig rig(*device, Rig::patient(), 1 << 14, std::uint64_t{32} << 20, {.failures_max = 1'000'000});
  rig.wait_until_it_serves();
  std::mt19937_64 random(4);
  for (unsigned i = 0; i < 30; ++i) {
    rig.run(random, 3 * Rig::batch_queries, 500, 20);
    if (i % 2 == 0) {
      device->fail(1 + random() % 3);
    } else {
      device->refuse(1 + random() % 3);
    }
  }
  rig.finish();
  EXPECT_FALSE(device->lost());
  const SchedulerCounters& counters = rig.scheduler.counters();
  EXPECT_GT(counters.failed_batches.get() + counters.refused_batches.get(), 0U);
  device->fail(0);
  device->refuse(0);
  rig.wait_until_it_serves();
  const std::uint64_t before = counters.queries.get();
  for (int i = 0; i < 1000 && counters.queries.get() == before; ++i) {
    rig.run(random, 2 * Rig::batch_queries, 500, 5);
    rig.finish();
  }
  EXPECT_GT(counters.queries.get(), before);
}

TEST(Scheduler, AHungDeviceIsGivenUp) {
  const auto device = make_sim_device();
  Rig rig(*device, {.deadline = short_deadline});
  rig.wait_until_it_serves();
  std::mt19937_64 random(5);
  rig.run(random, 10 * Rig::batch_queries, 500, 20);
  device->hang();
  rig.run(random, 10 * Rig::batch_queries, 500, 20);
  rig.finish();
  EXPECT_TRUE(device->lost());
  EXPECT_FALSE(rig.scheduler.serves());
  const std::uint64_t before = rig.scheduler.counters().queries.get();
  rig.run(random, 10 * Rig::batch_queries, 500, 20);
  rig.finish();
  EXPECT_EQ(rig.scheduler.counters().queries.get(), before);
  EXPECT_GT(rig.scheduler.counters().failed_batches.get(), 0U);
}

TEST(Scheduler, ALostDeviceCostsNoAnswer) {
  for (unsigned when = 0; when < 20; ++when) {
    const auto device = make_sim_device({.latency = 20us});
    Rig rig(*device);
    rig.wait_until_it_serves();
    std::mt19937_64 random(when);
    rig.run(random, (1 + when % 5) * Rig::batch_queries + when * 11, 500, 20);
    device->lose();
    rig.run(random, 5 * Rig::batch_queries, 500, 20);
  }
}

TEST(Scheduler, ASlowDeviceSlowsButAnswers) {
  const auto device = make_sim_device({.latency = 100us});
  Rig rig(*device, {.cycle = 300us, .deadline = long_deadline});
  rig.wait_until_it_serves();
  device->slow(20);
  std::mt19937_64 random(6);
  rig.run(random, 30 * Rig::batch_queries, 500, 20);
}

// All answers are right while the replica rests and comes back, and it does so as it is told. Sets in
// place are announced while there is a replica with copies of the values, and marked while it rests.
void rest_and_come_back(const ReplicaOptions& replicas) {
  const auto device = make_sim_device({.latency = 10us});
  std::atomic<bool> keeps_up{true};
  SchedulerOptions options = Rig::patient();
  options.steer = [&](const DeviceWork& work, std::chrono::steady_clock::time_point) {
    EXPECT_TRUE(work.is_settled || !work.is_current);
    return Steered{.keeps_up = keeps_up, .again_in = 1ms};
  };
  Rig rig(*device, options, 1 << 14, std::uint64_t{32} << 20, replicas);
  std::mt19937_64 random(8);
  const auto rewrite_all = [&] {
    for (int i = 0; i < 500; ++i)
      rig.add(Opcode::store, "key" + std::to_string(i), std::to_string(1000 + random() % 9000));
  };
  const auto run_until = [&](bool serves, unsigned write_share) {
    const auto end = std::chrono::steady_clock::now() + long_deadline;
    keeps_up = serves;
    while (rig.scheduler.serves() != serves && std::chrono::steady_clock::now() < end) {
      rig.run(random, Rig::batch_queries, 500, write_share);
      if (write_share != 0) rewrite_all();
    }
    EXPECT_EQ(rig.scheduler.serves(), serves);
  };
  for (std::uint64_t rests = 0; rests < 3; ++rests) {
    run_until(true, 0);
    EXPECT_EQ(rig.scheduler.counters().rests.get(), rests);
    run_until(false, 60);
    EXPECT_EQ(rig.scheduler.counters().rests.get(), rests + 1);
    const bool has_values = replicas.images.bytes != 0;
    const auto rests_now = [&] {
      return rig.replica.stats().state == ReplicaState::resting &&
             rig.shared.rewrites == (has_values ? Rewrites::marked : Rewrites::unseen);
    };
    for (const auto end = std::chrono::steady_clock::now() + long_deadline;
         !rests_now() && std::chrono::steady_clock::now() < end;)
      rewrite_all();
    EXPECT_TRUE(rests_now());
    rewrite_all();
  }
  run_until(true, 0);
  EXPECT_EQ(rig.shared.rewrites == Rewrites::announced, replicas.images.bytes != 0);
  EXPECT_EQ(rig.replica.stats().overflows, 0u);
}
TEST(Scheduler, AReplicaRestsWhenItIsTold) { rest_and_come_back({}); }
TEST(Scheduler, AReplicaWithValuesRestsWhenItIsTold) {
  rest_and_come_back({.images = {.bytes = std::uint64_t{32} << 20}});
}

// Several workers, each with its own keys, so that each knows the values to read.
TEST(Scheduler, WorkersShareADevice) {
  const auto device = make_sim_device({.latency = 10us});
  Rig rig(*device);
  rig.wait_until_it_serves();
  std::vector<std::thread> workers;
  std::atomic<std::uint64_t> wrong{0};
  for (unsigned t = 0; t < 4; ++t) {
    workers.emplace_back([&, t] {
      Context context(rig.shared);
      Runner batches(context, &rig.schedulers, 64);
      struct Writer final : ResultSink {
        void write(Batch& batch, std::uint32_t i) override {
          const Query& q = batch.query(i);
          const Result& r = batch.result(i);
          if (q.opcode == Opcode::store) {
            wrong += r.status != Status::stored;
          } else {
            // A key is stored in the batch before the one that reads it.
            wrong += r.status != Status::hit || r.value_bytes != 8 || std::memcmp(r.item->value(), &q.delta, 8) != 0;
          }
        }
        std::uint64_t wrong = 0;
      } writer;
      OneByOne worker(context);
      const auto answer = [&] {
        worker.run(batches.begin_answer(), writer);
        batches.end_answer();
      };
      std::vector<std::array<std::uint64_t, 2>> keys(64 * batches.count());
      std::vector<std::uint64_t> values(200);
      for (unsigned round = 0; round < 400; ++round) {
        while (!batches.can_fill()) answer();
        const unsigned n = batches.next();
        Batch& batch = batches.filling();
        for (unsigned i = 0; i < 64; ++i) {
          const std::uint64_t id = (round * 64 + i) / 2 % 200;
          auto& key = keys[n * 64 + i];
          key = {t, id};
          Query& q = batch.next();
          q = {};
          q.key = reinterpret_cast<const char*>(key.data());
          q.key_bytes = 16;
          if (i % 2 == 0) {
            values[id] = std::uint64_t{round} << 32 | id;
            q.opcode = Opcode::store;
            q.delta = values[id];
            q.value = reinterpret_cast<const char*>(&q.delta);
            q.value_bytes = 8;
          } else {
            q.opcode = Opcode::get;
            q.delta = values[id];
          }
          batch.commit();
        }
        batches.submit(rig.plan);
      }
      while (batches.in_flight() != 0) answer();
      wrong += writer.wrong;
    });
  }
  for (std::thread& w : workers) w.join();
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_GT(rig.scheduler.counters().queries.get(), 0U);
}

// The same on every GPU that this machine has.
TEST(Scheduler, OnRealDevices) {
  const DeviceCount found = cuda_device_count();
  if (found.count == 0) GTEST_SKIP() << found.reason;
  for (std::uint32_t n = 0; n < found.count; ++n) {
    const auto device = make_cuda_device(n);
    Rig rig(*device);
    rig.wait_until_it_serves();
    std::mt19937_64 random(n);
    for (const unsigned writes : {0U, 5U, 50U, 100U, 5U}) rig.run(random, 200 * Rig::batch_queries, 3000, writes);
    rig.finish();
    EXPECT_GT(rig.scheduler.counters().queries.get(), rig.added / 2);
    device->abandon();
    rig.run(random, 20 * Rig::batch_queries, 3000, 20);
  }
}

// The index grows, and the call for the new replica's memory does not return: the scheduler's thread is stuck.
TEST(Scheduler, WorkersTakeTheirBatchesBackFromAStuckThread) {
  const auto device = make_sim_device();
  Rig rig(*device, {.deadline = short_deadline}, 1 << 10);
  rig.wait_until_it_serves();
  std::mt19937_64 random(5);
  rig.run(random, 4 * Rig::batch_queries, 500, 50);
  rig.finish();
  device->block_calls();
  {
    EpochDomain::Participant grower(rig.epochs);
    ASSERT_TRUE(rig.index.grow(grower));
  }
  for (int i = 0; i < 100 && !rig.scheduler.is_stuck(); ++i) rig.run(random, 2 * Rig::batch_queries, 500, 20);
  EXPECT_TRUE(rig.scheduler.is_stuck());
  EXPECT_FALSE(rig.scheduler.serves());
  EXPECT_TRUE(device->lost());
  rig.run(random, 8 * Rig::batch_queries, 500, 50);
  rig.finish();
  EXPECT_NO_FATAL_FAILURE(static_cast<void>(rig.replica.stats()));  // returns
  device->resume();
}

}  // namespace
}  // namespace tandem
