// For tests: an engine with its index in the memory of simulated devices alone, a caller, and a map beside it.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device/sim/sim_device.hpp"
#include "engine/engine_fixture.hpp"

namespace tandem {

inline constexpr int effort = is_sanitized ? 1 : 10;

inline constexpr std::uint64_t test_mib = std::uint64_t{1} << 20;

struct StoreOnDevice {
  explicit StoreOnDevice(std::vector<std::shared_ptr<SimDevice>> on, std::uint64_t memory_bytes = 16 * test_mib,
                         const std::string& memory_file = {}, std::uint64_t hash_seed = 0,
                         std::uint32_t change_cycles = 2, bool evict = true,
                         std::chrono::milliseconds deadline = std::chrono::milliseconds(60'000))
      : devices(std::move(on)), engine(options(memory_bytes, memory_file, hash_seed, change_cycles, evict, deadline)) {}
  EngineOptions options(std::uint64_t memory_bytes, const std::string& memory_file, std::uint64_t hash_seed,
                        std::uint32_t change_cycles, bool evict, std::chrono::milliseconds deadline) {
    EngineOptions o;
    o.evict = evict;
    o.memory_bytes = memory_bytes;
    o.item_bytes_max = std::min<std::uint64_t>(o.item_bytes_max, memory_bytes / 4);
    o.huge_pages = false;
    o.memory_file = memory_file;
    o.hash_seed = hash_seed;
    o.devices.assign(devices.begin(), devices.end());
    o.index_on_device = true;
    o.change_cycles = change_cycles;
    o.scheduler.deadline = deadline;
    return o;
  }
  // change(options): what the test wants otherwise.
  template <class F>
  StoreOnDevice(std::vector<std::shared_ptr<SimDevice>> on, F change)
      : devices(std::move(on)), engine([&] {
          EngineOptions o = options(16 * test_mib, {}, 0, 2, true, std::chrono::milliseconds(60'000));
          change(o);
          return o;
        }()) {}
  bool is_on_device() { return engine.shared().placement.wants_search(); }

  std::vector<std::shared_ptr<SimDevice>> devices;
  Engine engine;
};

// Used by one thread.
struct Caller {
  explicit Caller(Engine& engine) : context(engine.make_context()) {}
  Status run(Opcode opcode, const std::string& key, const std::string& value = {}, StoreMode mode = StoreMode::set) {
    Query q = query_of(opcode, key, value);
    q.mode = mode;
    read.clear();
    return run_alone(*context, batch, q, [&] {
      const Result& r = batch.result(0);
      if (r.status == Status::hit && r.item != nullptr) read.assign(r.item->bytes() + r.value_offset, r.value_bytes);
    });
  }
  // The value, or nothing.
  std::string get(const std::string& key) { return run(Opcode::get, key) == Status::hit ? read : std::string(); }
  bool set(const std::string& key, const std::string& value) {
    return run(Opcode::store, key, value) == Status::stored;
  }

  Engine::ContextPtr context;
  Batch batch{1};
  std::string read;
};

inline void act_as_a_map(Caller& caller, std::map<std::string, std::string>& map, std::mt19937_64& random, int count,
                         const std::string& prefix) {
  for (int i = 0; i < count; ++i) {
    const std::string key = prefix + std::to_string(random() % 50);
    const auto at = map.find(key);
    const std::string value = std::to_string(random());
    switch (random() % 6) {
      case 0:
        ASSERT_EQ(caller.run(Opcode::remove, key), at != map.end() ? Status::removed : Status::miss);
        map.erase(key);
        break;
      case 1:
        ASSERT_TRUE(caller.set(key, value));
        map[key] = value;
        break;
      case 2:
        ASSERT_EQ(caller.run(Opcode::store, key, value, StoreMode::add),
                  at == map.end() ? Status::stored : Status::not_stored);
        map.emplace(key, value);
        break;
      case 3:
        ASSERT_EQ(caller.run(Opcode::store, key, "+", StoreMode::append),
                  at != map.end() ? Status::stored : Status::not_stored);
        if (at != map.end()) at->second += '+';
        break;
      default:
        ASSERT_EQ(caller.run(Opcode::get, key), at != map.end() ? Status::hit : Status::miss) << key;
        if (at != map.end()) {
          ASSERT_EQ(caller.read, at->second) << key;
        }
    }
  }
}

inline std::vector<std::shared_ptr<SimDevice>> sims(unsigned count, const SimOptions& options = {}) {
  std::vector<std::shared_ptr<SimDevice>> devices;
  for (SimOptions o = options; o.number < count; ++o.number) devices.push_back(make_sim_device(o));
  return devices;
}

}  // namespace tandem
