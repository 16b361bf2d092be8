// An engine with an index in device memory alone answers as a map does, whatever the device does.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "embedded/index_on_device_fixture.hpp"
#include "embedded/restart_fixture.hpp"
#include "index/cuckoo/colliding_keys.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

TEST(IndexOnDevice, AnswersAsAMap) {
  for (const unsigned devices : {1u, 2u, 4u}) {
    SCOPED_TRACE(devices);
    StoreOnDevice store(sims(devices));
    ASSERT_TRUE(store.is_on_device());
    Caller caller(store.engine);
    std::map<std::string, std::string> map;
    std::mt19937_64 random(devices);
    act_as_a_map(caller, map, random, 300 * effort, "k");
    EXPECT_EQ(store.engine.stats().items, map.size());
    ASSERT_TRUE(soon([&] { return !store.engine.shared().placement.has_unretired(); }));
    // Also after the overlay has freed its records.
    act_as_a_map(caller, map, random, 100 * effort, "k");
    std::uint64_t changes = 0;
    for (const DeviceStats& s : store.engine.device_stats()) {
      EXPECT_TRUE(s.has_index);
      EXPECT_EQ(s.resident, 0u);
      changes += s.replica.cells;
    }
    EXPECT_GT(changes, 0u);
    EXPECT_TRUE(store.is_on_device());
  }
}

TEST(IndexOnDevice, SeveralThreadsEachAsAMap) {
  StoreOnDevice store(sims(2, {.latency = 20us}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&store, t] {
      Caller caller(store.engine);
      std::map<std::string, std::string> map;
      std::mt19937_64 random(static_cast<unsigned>(t));
      act_as_a_map(caller, map, random, 200 * effort, std::to_string(t) + ":");
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(store.is_on_device());
}

// Losing the device costs only speed.
TEST(IndexOnDevice, ComesBackWhenADeviceIsLost) {
  for (const char* fault : {"lose", "hang", "fail", "refuse"}) {
    for (const unsigned devices : {1u, 2u}) {
      SCOPED_TRACE(testing::Message() << fault << " of " << devices);
      StoreOnDevice store(sims(devices, {.latency = 100us}), 16 * test_mib, {}, 0, 2, true, 500ms);
      Caller caller(store.engine);
      std::map<std::string, std::string> map;
      std::mt19937_64 random(5);
      act_as_a_map(caller, map, random, 50 * effort, "k");
      SimDevice& device = *store.devices.back();
      std::thread other([&store] {
        Caller mine(store.engine);
        std::map<std::string, std::string> its;
        std::mt19937_64 r(6);
        act_as_a_map(mine, its, r, 100 * effort, "other");
      });
      const std::string_view f = fault;
      if (f == "lose") device.lose();
      if (f == "hang") device.hang();
      if (f == "fail") device.fail(3);
      if (f == "refuse") device.refuse(3);
      act_as_a_map(caller, map, random, 100 * effort, "k");
      other.join();
      if (f == "lose" || f == "hang") {
        ASSERT_TRUE(soon([&] { return !store.is_on_device(); }));
        EXPECT_GT(store.engine.shared().index.cell_count(), 0u);
      }
      act_as_a_map(caller, map, random, 50 * effort, "k");
      for (const auto& [key, value] : map) EXPECT_EQ(caller.get(key), value) << key;
    }
  }
}

// Keys that one signature and both buckets of the smallest table cannot distinguish.
TEST(IndexOnDevice, KeysThatCollideAreAllThere) {
  constexpr std::uint64_t seed = 1;
  // Room for a table of 64 buckets beside the buffers for changes.
  StoreOnDevice store(sims(1, {.memory_bytes = 6 << 10}), 4 * test_mib, {}, seed);
  ASSERT_TRUE(store.is_on_device());
  ASSERT_EQ(store.engine.device_stats().front().cells, 512u);
  Caller caller(store.engine);
  const std::vector<CollidingKeys> pairs = colliding_keys(seed, 3);
  std::uint64_t resident = 0;
  for (int round = 0; round < 2 * effort; ++round) {
    const std::string n = std::to_string(round);
    for (const auto& [a, b] : pairs) {
      ASSERT_TRUE(caller.set(a, "a" + n));
      // While the device has one, the other stays in the overlay.
      if (round % 2 == 0) {
        ASSERT_TRUE(soon([&] { return !store.engine.shared().placement.has_unretired(); }));
      }
      ASSERT_TRUE(caller.set(b, "b" + n));
      ASSERT_EQ(caller.get(a), "a" + n);
      ASSERT_EQ(caller.get(b), "b" + n);
    }
    resident = std::max(resident, store.engine.device_stats().front().resident);
    for (const auto& [a, b] : pairs) {
      if (round % 3 == 0) {
        ASSERT_EQ(caller.run(Opcode::remove, a), Status::removed);
      }
      ASSERT_EQ(caller.get(a), round % 3 == 0 ? "" : "a" + n);
      ASSERT_EQ(caller.get(b), "b" + n);
    }
  }
  EXPECT_GE(resident, pairs.size());
  EXPECT_TRUE(store.is_on_device());
}

// A full table: each new key evicts an item, and a key that was just set is present.
TEST(IndexOnDevice, AFullTableEvicts) {
  StoreOnDevice store(sims(1, {.memory_bytes = 6 << 10}), 4 * test_mib);
  Caller caller(store.engine);
  for (int i = 0; i < 300 * effort; ++i) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_TRUE(caller.set(key, std::to_string(i)));
    ASSERT_EQ(caller.get(key), std::to_string(i));
  }
  EXPECT_TRUE(store.is_on_device());
  EXPECT_TRUE(effort == 1 || store.engine.stats().counters.evictions > 0);
  for (int i = 0; i < 300 * effort; ++i) {
    const std::string value = caller.get("key" + std::to_string(i));
    EXPECT_TRUE(value.empty() || value == std::to_string(i));
  }
}

// Slots come back from the device as fast as they are needed.
TEST(IndexOnDevice, EvictsForMemory) {
  StoreOnDevice store(sims(1, {.latency = 50us}), 8 * test_mib);
  Caller caller(store.engine);
  const std::string large(10'000, 'v');
  for (int i = 0; i < 200 * effort; ++i) {
    const std::string key = "key" + std::to_string(i), value = large + std::to_string(i);
    ASSERT_TRUE(caller.set(key, value)) << i;
    ASSERT_EQ(caller.get(key), value);
  }
  EXPECT_TRUE(effort == 1 || store.engine.stats().counters.evictions > 0);
}

// Refused stores are answered, however often their wait discarded the device's results.
TEST(IndexOnDevice, AStoreThatIsFullRefuses) {
  StoreOnDevice store(sims(1), 8 * test_mib, {}, 0, 2, false);
  Caller caller(store.engine);
  const std::string value(10'000, 'v');
  int stored = 0;
  while (caller.set("key" + std::to_string(stored), value)) ++stored;
  ASSERT_GT(stored, 300);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(caller.run(Opcode::store, "another", value), Status::out_of_memory);
    EXPECT_EQ(caller.get("key" + std::to_string(i)), value);
  }
  EXPECT_EQ(caller.run(Opcode::remove, "key0"), Status::removed);
  EXPECT_TRUE(caller.set("another", value));
  EXPECT_TRUE(store.is_on_device());
}

// Its own pages are returned later than the next change needs some.
TEST(IndexOnDevice, AHugeItemThatGrowsIsNotEvictedForItself) {
  StoreOnDevice store(sims(1), 16 * test_mib, {}, 0, 40);
  Caller caller(store.engine);
  std::string value(700'000, 'v');
  ASSERT_TRUE(caller.set("key", value));
  ASSERT_TRUE(soon([&] { return !store.engine.shared().placement.has_unretired(); }));
  store.engine.set_cycle(1ms);  // the device gets changes every 40 ms
  for (int i = 0; i < 100; ++i, value += 'x')
    ASSERT_EQ(caller.run(Opcode::store, "key", "x", StoreMode::append), Status::stored) << i;
  EXPECT_EQ(caller.get("key"), value);
  EXPECT_EQ(store.engine.stats().counters.evictions, 0u);
}

// Nor while another worker's batch still sees the old item.
TEST(IndexOnDevice, AHugeItemThatGrowsWaitsForOthersBatches) {
  StoreOnDevice store(sims(1), 16 * test_mib, {}, 0, 40);
  Caller caller(store.engine);
  std::string value(700'000, 'v');
  ASSERT_TRUE(caller.set("key", value));
  ASSERT_TRUE(soon([&] { return !store.engine.shared().placement.has_unretired(); }));
  store.engine.set_cycle(1ms);
  std::jthread other([context = store.engine.make_context()](const std::stop_token& end) {
    while (!end.stop_requested()) {
      context->enter();
      std::this_thread::sleep_for(30ms);
      context->epoch.exit();
    }
  });
  for (int i = 0; i < 30; ++i, value += 'x')
    ASSERT_EQ(caller.run(Opcode::store, "key", "x", StoreMode::append), Status::stored) << i;
  EXPECT_EQ(caller.get("key"), value);
  EXPECT_EQ(store.engine.stats().counters.evictions, 0u);
}

// The index's memory beside its tables is not available to items.
TEST(IndexOnDevice, TheLowestLimitHasRoomForItems) {
  StoreOnDevice store(sims(1), 256 * test_mib);
  Caller caller(store.engine);
  ASSERT_TRUE(caller.set("first", "v"));
  std::uint64_t limit = test_mib;
  while (!store.engine.set_memory_limit(limit)) limit += test_mib;
  EXPECT_LT(limit, 64 * test_mib);
  EXPECT_TRUE(soon([&] { return store.engine.stats().memory_used_bytes <= limit; }));
  const std::string value(1000, 'v');
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(caller.set("key" + std::to_string(i), value)) << i;
    ASSERT_EQ(caller.get("key" + std::to_string(i)), value);
  }
}

// Dead items that the device's table still names do not count.
TEST(IndexOnDevice, WhatWasReplacedIsNotInUse) {
  StoreOnDevice store(sims(1), 16 * test_mib, {}, 0, 1'000'000);
  Caller caller(store.engine);
  ASSERT_TRUE(caller.set("first", "v"));
  ASSERT_TRUE(soon([&] { return !store.engine.shared().placement.has_unretired(); }));
  store.engine.set_cycle(1ms);  // from now on changes are delayed
  std::uint64_t used = 0;
  for (const std::size_t bytes : {1000u, 400'000u}) {  // the larger one in its own pages
    const std::string key = std::to_string(bytes), value(bytes, 'v');
    ASSERT_TRUE(caller.set(key, value));
    const EngineStats one = store.engine.stats();
    EXPECT_GE(one.item_bytes, used + bytes);
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(caller.set(key, value));
    }
    EXPECT_EQ(store.engine.stats().item_bytes, one.item_bytes);
    EXPECT_EQ(store.engine.stats().huge_items, one.huge_items);
    used = one.item_bytes;
  }
  EXPECT_TRUE(store.engine.shared().placement.has_unretired());
}

TEST(IndexOnDevice, TakesOverWhatAMemoryFileHas) {
  const TemporaryFile file;
  constexpr int keys = 500 * effort;
  for (int round = 0; round < 2; ++round) {
    StoreOnDevice store(sims(2), 16 * test_mib, file.path());
    ASSERT_TRUE(store.is_on_device());
    Caller caller(store.engine);
    for (int i = 0; i < keys; ++i) {
      const std::string key = "key" + std::to_string(i);
      if (round == 0) {
        ASSERT_TRUE(caller.set(key, std::to_string(i)));
      } else {
        ASSERT_EQ(caller.get(key), std::to_string(i));
      }
    }
    EXPECT_EQ(store.engine.stats().items, static_cast<std::uint64_t>(keys));
  }
}

// If the device has no memory for the table, the host keeps it.
TEST(IndexOnDevice, StaysHereIfThereIsNoRoom) {
  StoreOnDevice store(sims(1, {.memory_bytes = 64}), 4 * test_mib);
  EXPECT_FALSE(store.is_on_device());
  EXPECT_EQ(store.engine.schedulers(), nullptr);
  Caller caller(store.engine);
  EXPECT_TRUE(caller.set("a", "b"));
  EXPECT_EQ(caller.get("a"), "b");
}

}  // namespace
}  // namespace tandem
