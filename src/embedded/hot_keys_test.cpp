// Keys that turn hot and cold beside an index in device memory alone: the store goes on as a map, whatever the device
// does, and nothing is lost when it is.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.hpp"
#include "embedded/index_on_device_fixture.hpp"
#include "index/cuckoo/colliding_keys.hpp"
#include "task/hot.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t hot_bytes = 64 << 10;

void with_hot_keys(EngineOptions& o) { o.hot_memory_bytes = hot_bytes; }

IndexPlacement& placement_of(Engine& engine) { return engine.shared().placement; }
HotTableStats hot_stats(Engine& engine) {
  const HotTable* const hot = placement_of(engine).hot();
  return hot != nullptr ? hot->stats() : HotTableStats{};
}
Fingerprint fingerprint(Engine& engine, const std::string& key) {
  return fingerprint_of(key, engine.shared().hash_seed);
}

// Makes the key hot. False: it has no item, or there is no cell.
bool heat(Caller& caller, Engine& engine, const std::string& key) {
  bool is_hot = false;
  run_alone(*caller.context, caller.batch, query_of(Opcode::get, key, {}), [&] {
    const Item* const item = caller.batch.result(0).item;
    if (item == nullptr || !engine.shared().placement.wants_search()) return;
    is_hot = task::promote(*caller.context, fingerprint(engine, key), key, engine.shared().heap.location_of(item));
  });
  return is_hot;
}
// Of the hot keys those turn cold of which stays() does not say otherwise.
template <class F>
void cool(Caller& caller, Engine& engine, F stays) {
  while (placement_of(engine).can_search() && !placement_of(engine).clean(stays)) {
    placement_of(engine).reclaim_changes(caller.context->cache, Overlay::Reclaim::all);
    std::this_thread::sleep_for(100us);
  }
}
void cool(Caller& caller, Engine& engine) {
  cool(caller, engine, [](Fingerprint) { return false; });
}

TEST(HotKeys, AnswerAsAMap) {
  for (const unsigned devices : {1u, 2u}) {
    SCOPED_TRACE(devices);
    StoreOnDevice store(sims(devices), with_hot_keys);
    Engine& engine = store.engine;
    Caller caller(engine);
    std::map<std::string, std::string> map;
    std::mt19937_64 random(devices);
    std::uint64_t heated = 0;
    for (int round = 0; round < 60 * effort; ++round) {
      act_as_a_map(caller, map, random, 10, "k");
      if (HasFatalFailure()) return;
      for (int i = 0; i < 5; ++i) heated += heat(caller, engine, "k" + std::to_string(random() % 50)) ? 1u : 0u;
      if (random() % 4 == 0) cool(caller, engine, [&](Fingerprint f) { return f.hash % 3 != random() % 3; });
    }
    EXPECT_GT(heated, 0u);
    EXPECT_GT(engine.counters().hot_queries, 0u);
    EXPECT_GT(hot_stats(engine).replayed, 0u);
    cool(caller, engine);
    EXPECT_EQ(hot_stats(engine).keys, 0u);
    ASSERT_TRUE(soon([&] {
      placement_of(engine).reclaim_changes(caller.context->cache, Overlay::Reclaim::all);
      return !placement_of(engine).has_unretired();
    }));
    for (const auto& [key, value] : map) EXPECT_EQ(caller.get(key), value) << key;
    EXPECT_EQ(engine.stats().items, map.size());
    for (const DeviceStats& s : engine.device_stats()) EXPECT_EQ(s.resident, 0u);
  }
}

// Callers heat keys that others write, while one thread cools them: each still sees its own keys as in a map.
TEST(HotKeys, SeveralThreadsEachAsAMap) {
  StoreOnDevice store(sims(2, {.latency = 20us}), with_hot_keys);
  Engine& engine = store.engine;
  std::atomic<bool> ends{false};
  std::atomic<std::uint64_t> heated{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Caller caller(engine);
      std::map<std::string, std::string> map;
      std::mt19937_64 random(t);
      for (int round = 0; round < 30 * effort && !testing::Test::HasFatalFailure(); ++round) {
        act_as_a_map(caller, map, random, 10, std::to_string(t) + ":");
        for (int i = 0; i < 4; ++i)
          heated += heat(caller, engine, std::to_string(random() % 3) + ":" + std::to_string(random() % 50)) ? 1u : 0u;
      }
    });
  }
  std::thread cooler([&] {
    Caller caller(engine);
    std::mt19937_64 random(9);
    while (!ends) cool(caller, engine, [&](Fingerprint) { return random() % 2 == 0; });
  });
  for (std::thread& t : threads) t.join();
  ends = true;
  cooler.join();
  EXPECT_GT(heated.load(), 0u);
  EXPECT_TRUE(store.is_on_device());
}

// Whatever was written to hot keys and never told a device is in the heap.
TEST(HotKeys, NothingIsLostWithTheDevice) {
  for (const bool hangs : {false, true}) {
    SCOPED_TRACE(hangs ? "hang" : "lose");
    StoreOnDevice store(sims(1, {.latency = 100us}), [](EngineOptions& o) {
      with_hot_keys(o);
      o.scheduler.deadline = 500ms;
    });
    Engine& engine = store.engine;
    Caller caller(engine);
    std::map<std::string, std::string> map;
    std::mt19937_64 random(5);
    act_as_a_map(caller, map, random, 50 * effort, "k");
    std::atomic<bool> ends{false};
    std::thread cooler([&] {
      Caller mine(engine);
      while (!ends) cool(mine, engine, [](Fingerprint f) { return f.hash % 2 == 0; });
    });
    for (int i = 0; i < 50; ++i) heat(caller, engine, "k" + std::to_string(i));
    act_as_a_map(caller, map, random, 10 * effort, "k");
    hangs ? store.devices.front()->hang() : store.devices.front()->lose();
    for (int i = 0; i < 5; ++i) {
      act_as_a_map(caller, map, random, 10 * effort, "k");
      heat(caller, engine, "k" + std::to_string(i));
    }
    ends = true;
    cooler.join();
    ASSERT_TRUE(soon([&] { return !store.is_on_device(); }));
    EXPECT_EQ(placement_of(engine).hot(), nullptr);
    EXPECT_FALSE(heat(caller, engine, "k1"));
    for (const auto& [key, value] : map) EXPECT_EQ(caller.get(key), value) << key;
    EXPECT_EQ(engine.stats().items, map.size());
    EXPECT_FALSE(placement_of(engine).has_unretired());
  }
}

// The device has one cell of a signature: while one key is hot, also an erased one, another stays in the overlay.
TEST(HotKeys, OfOneSignatureAreAllThere) {
  constexpr std::uint64_t seed = 1;
  StoreOnDevice store(sims(1, {.memory_bytes = 6 << 10}), [](EngineOptions& o) {
    with_hot_keys(o);
    o.memory_bytes = 4 * test_mib;
    o.item_bytes_max = test_mib;
    o.hash_seed = seed;
    o.evict = false;
  });
  Engine& engine = store.engine;
  ASSERT_TRUE(store.is_on_device());
  Caller caller(engine);
  std::map<std::string, std::string> map;
  const auto set = [&](const std::string& key, const std::string& value) {
    ASSERT_TRUE(caller.set(key, value));
    map[key] = value;
  };
  const auto remove = [&](const std::string& key) {
    ASSERT_EQ(caller.run(Opcode::remove, key), map.erase(key) != 0 ? Status::removed : Status::miss);
  };
  const std::vector<CollidingKeys> pairs = colliding_keys(seed, 3);
  std::mt19937_64 random(3);
  std::uint64_t resident = 0, heated = 0;
  for (int step = 0; step < 400 * effort; ++step) {
    const auto& [a, b] = pairs[random() % pairs.size()];
    const std::string& key = random() % 2 == 0 ? a : b;
    switch (random() % 7) {
      case 0:
      case 1:
        set(key, std::string(random() % 2 * 60, 'v') + std::to_string(step));
        break;
      case 2:
        remove(key);
        break;
      case 3:
        heated += heat(caller, engine, key) ? 1u : 0u;
        break;
      case 4:
        cool(caller, engine, [&](Fingerprint) { return random() % 2 == 0; });
        break;
      case 5:
        // The overlay drops what the device has.
        if (random() % 4 == 0) placement_of(engine).reclaim_changes(caller.context->cache, Overlay::Reclaim::all);
        break;
      default:
        for (const CollidingKeys& pair : pairs) {
          for (const std::string& k : {pair.a, pair.b}) ASSERT_EQ(caller.get(k), map.contains(k) ? map[k] : "") << k;
        }
    }
    if (HasFatalFailure()) return;
    resident = std::max(resident, engine.device_stats().front().resident);
  }
  EXPECT_GT(heated, 0u);
  EXPECT_GT(resident, 0u);
  EXPECT_TRUE(store.is_on_device());
}

// Slots that the device still names come back when memory is short, and hot keys stay hot.
TEST(HotKeys, HoldNoMemoryThatIsShort) {
  StoreOnDevice store(sims(1), [](EngineOptions& o) {
    with_hot_keys(o);
    o.memory_bytes = 8 * test_mib;
    o.item_bytes_max = test_mib;
    o.evict = false;
  });
  Engine& engine = store.engine;
  Caller caller(engine);
  const std::string large(900 << 10, 'l');
  constexpr int keys = 4;
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    for (int i = 0; i < keys; ++i) {
      const std::string key = "k" + std::to_string(i);
      // Twice the memory, as each set displaces an item that the device names.
      ASSERT_TRUE(caller.set(key, large + std::to_string(round)));
      if (round == 0) {
        ASSERT_TRUE(heat(caller, engine, key));
      }
    }
  }
  EXPECT_EQ(hot_stats(engine).keys, static_cast<std::uint64_t>(keys));
  EXPECT_GT(hot_stats(engine).replayed, 0u);
  for (int i = 0; i < keys; ++i) EXPECT_EQ(caller.get("k" + std::to_string(i)), large + "5");
}

// A table of keys without a cell for another one, and one of no device: nothing happens.
TEST(HotKeys, AreAsManyAsThereAreCells) {
  StoreOnDevice store(sims(1), [](EngineOptions& o) { o.hot_memory_bytes = HotTable::bytes_min; });
  Engine& engine = store.engine;
  Caller caller(engine);
  std::uint64_t heated = 0;
  constexpr int keys = 1000;
  for (int i = 0; i < keys; ++i) {
    ASSERT_TRUE(caller.set("k" + std::to_string(i), std::to_string(i)));
    heated += heat(caller, engine, "k" + std::to_string(i)) ? 1u : 0u;
  }
  const HotTableStats stats = hot_stats(engine);
  EXPECT_EQ(stats.keys_max, HotTable::bytes_min / HotTable::bytes_of_key);
  EXPECT_EQ(stats.keys, heated);
  EXPECT_LE(heated, stats.keys_max);
  EXPECT_GT(heated, stats.keys_max * 8 / 10);
  for (int i = 0; i < keys; ++i) EXPECT_EQ(caller.get("k" + std::to_string(i)), std::to_string(i));
  StoreOnDevice without(sims(1));
  Caller other(without.engine);
  ASSERT_TRUE(other.set("k", "v"));
  EXPECT_FALSE(heat(other, without.engine, "k"));
}

}  // namespace
}  // namespace tandem
