#include "placement/on_device/hot_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "base/yield.hpp"
#include "index/cuckoo/index_test_support.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t rig_bytes = 64 << 10;

struct HotRig {
  MemoryBudget budget{std::uint64_t{1} << 20};
  HotTable table{rig_bytes, 4, budget};
  std::set<Location> unretired() const {
    std::set<Location> all;
    table.for_each_unretired([&](Location l) { all.insert(l); });
    return all;
  }
};

constexpr Fingerprint one_key{7, 70}, twin_key{7, 71}, other_key{8, 70};

TEST(HotTable, IsWithinItsMemory) {
  HotRig rig;
  EXPECT_EQ(rig.table.bytes(), rig_bytes);
  EXPECT_EQ(rig.budget.used_bytes(), rig_bytes);
  EXPECT_EQ(rig.table.keys_max(), rig_bytes / HotTable::bytes_of_key);
  EXPECT_THROW(HotTable(HotTable::bytes_min - 1, 4, rig.budget), std::invalid_argument);
  EXPECT_THROW(HotTable(std::uint64_t{2} << 20, 4, rig.budget), std::bad_alloc);
  EXPECT_EQ(rig.budget.used_bytes(), rig_bytes);
}

TEST(HotTable, HasHalfOfItsCells) {
  HotRig rig;
  for (std::uint32_t signature = 1; signature < 100'000; ++signature) rig.table.promote({signature, 1}, signature);
  EXPECT_EQ(rig.table.keys(), rig.table.keys_max()) << "with more there is no bucket with a free cell for most keys";
}

TEST(HotTable, HasAWholeFingerprintOfOneSignature) {
  HotRig rig;
  EXPECT_FALSE(rig.table.find(one_key).is_hot);
  ASSERT_TRUE(rig.table.promote(one_key, 100));
  EXPECT_FALSE(rig.table.promote(one_key, 100));
  EXPECT_FALSE(rig.table.promote(twin_key, 200));
  EXPECT_TRUE(rig.table.promote(other_key, 300));
  EXPECT_TRUE(rig.table.find(one_key).is_hot);
  EXPECT_EQ(rig.table.find(one_key).location, 100u);
  EXPECT_FALSE(rig.table.find(twin_key).is_hot);
  EXPECT_EQ(rig.table.find(other_key).location, 300u);
  EXPECT_EQ(rig.table.keys(), 2u);
}

// The first displaced slot is held, as the device names it; later ones are not.
TEST(HotTable, HoldsWhatTheDeviceNames) {
  HotRig rig;
  ASSERT_TRUE(rig.table.promote(one_key, 100));
  EXPECT_FALSE(rig.table.has_unretired());
  EXPECT_FALSE(rig.table.put(one_key, 99, 101)) << "another item of its fingerprint";
  EXPECT_FALSE(rig.table.put(twin_key, 100, 101));
  ASSERT_TRUE(rig.table.put(one_key, 100, 101));
  EXPECT_EQ(rig.unretired(), (std::set<Location>{100}));
  ASSERT_TRUE(rig.table.put(one_key, 101, 102));
  EXPECT_EQ(rig.unretired(), (std::set<Location>{100, 101}));
  ASSERT_TRUE(rig.table.erase(one_key, 102));
  EXPECT_TRUE(rig.table.find(one_key).is_hot);
  EXPECT_EQ(rig.table.find(one_key).location, no_location);
  ASSERT_TRUE(rig.table.put(one_key, no_location, 103));
  EXPECT_EQ(rig.table.find(one_key).location, 103u);
  EXPECT_EQ(rig.unretired(), (std::set<Location>{100, 101, 102}));
  HotTable::Cell& cell = *rig.table.cell_of(one_key.signature);
  EXPECT_TRUE(cell.is_dirty());
  EXPECT_EQ(rig.table.stats().held, 1u);
  rig.table.replayed(cell);
  EXPECT_FALSE(cell.is_dirty());
  EXPECT_EQ(rig.table.stats().held, 0u);
  EXPECT_EQ(rig.unretired(), (std::set<Location>{101, 102}));
  rig.table.forget(cell);
  EXPECT_FALSE(rig.table.find(one_key).is_hot);
  EXPECT_EQ(rig.table.keys(), 0u);
  EXPECT_TRUE(rig.table.promote(twin_key, 5));
}

TEST(HotTable, RetiresOrForgetsAll) {
  TestStore store;
  TestWorker worker(store);
  HotRig rig;
  std::vector<Location> items;
  for (const char* key : {"a", "b", "c"}) {
    ASSERT_EQ(worker.set(key, 1), TestWorker::Outcome::done);
    const TestWorker::Batch batch(worker);
    ItemVersion seen;
    items.push_back(store.heap.location_of(store.index.find(store.fingerprint(key), key, seen)));
  }
  const Location a = items[0], b = items[1], c = items[2];
  for (const Location displaced : {a, b})
    store.heap.at(displaced)->state_word.store(static_cast<std::uint64_t>(ItemState::dead), std::memory_order_relaxed);
  ASSERT_TRUE(rig.table.promote(one_key, a));
  ASSERT_TRUE(rig.table.put(one_key, a, b));
  ASSERT_TRUE(rig.table.put(one_key, b, c));
  rig.table.retire(store.heap, worker.cache, false);
  EXPECT_EQ(rig.unretired(), (std::set<Location>{a}));
  rig.table.clear(store.heap, worker.cache);
  EXPECT_FALSE(rig.table.has_unretired());
  EXPECT_EQ(rig.unretired(), std::set<Location>{});
  EXPECT_FALSE(rig.table.find(one_key).is_hot);
  EXPECT_EQ(rig.table.keys(), 0u);
  std::size_t freed = 0;
  for (int time = 0; time < 4; ++time) {
    const Heap::Cache::Lock lock(worker.cache);
    freed += store.heap.reclaim_all(worker.cache);
  }
  EXPECT_EQ(freed, 2u) << "a, which the lost device named, and b";
}

// A reader that meets a cell while it changes hands never has another key's location.
TEST(HotTable, ReadersNeverTakeAnothersLocation) {
  MemoryBudget budget(std::uint64_t{1} << 20);
  HotTable table(HotTable::bytes_min, 4, budget);
  Stripes stripes;
  std::atomic<bool> ends{false};
  std::atomic<std::uint64_t> seen{0};
  std::vector<std::thread> writers;
  // The locations of a key end in its number.
  constexpr std::uint32_t keys = 256, rounds = is_sanitized ? 50 : 300;
  for (std::uint32_t w = 0; w < 2; ++w) {
    writers.emplace_back([&, w] {
      for (std::uint32_t round = 1; round < rounds || (seen == 0 && round < 1000 * rounds); ++round) {
        for (std::uint32_t k = 1 + w; k < keys; k += 2) {
          const Fingerprint mine{k, k};
          StripeLock lock(stripes.of(k));
          if (table.promote(mine, round * keys + k)) {
            HotTable::Cell& cell = *table.cell_of(k);
            if (k % 32 == w) yield_processor();  // so that readers meet it on one processor, too
            if (round % 3 == 0 && !table.put(mine, round * keys + k, (round + 1) * keys + k)) ADD_FAILURE();
            table.replayed(cell);
            table.forget(cell);
          }
          lock.unlock_changed(0);
        }
      }
      ends = true;
    });
  }
  while (!ends) {
    for (std::uint32_t k = 1; k < keys; ++k) {
      const HotTable::Seen s = table.find({k, k});
      if (!s.is_hot) continue;
      ++seen;
      ASSERT_EQ(s.location % keys, k);
    }
  }
  for (std::thread& t : writers) t.join();
  EXPECT_EQ(table.keys(), 0u);
  EXPECT_GT(seen.load(), 0u);
}

}  // namespace
}  // namespace tandem
