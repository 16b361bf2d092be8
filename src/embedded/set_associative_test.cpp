// The store over a set-associative index: what a full set evicts, what is counted, and what a restart finds.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "embedded/restart_fixture.hpp"
#include "engine/engine_fixture.hpp"
#include "index/set_associative/set_index.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t few_entries = 64;

class SetStore : public RestartTest {
 protected:
  // With the fewest entries that an engine makes, and far more memory than they need.
  static EngineOptions small_table() {
    EngineOptions o;
    o.memory_bytes = 16 * mib;
    o.item_bytes_expected = 1 << 20;
    o.huge_pages = false;
    o.crawl = false;
    o.index_kind = SetAssociativeIndex::kind;
    return o;
  }
  explicit SetStore(const EngineOptions& o = small_table()) : engine_(o), context_(engine_.make_context()) {
    index().stamps().give(clock_);
  }
  SetAssociativeIndex& index() { return engine_.shared().index_as<SetAssociativeIndex>(); }
  Query query(Opcode opcode, const std::string& key, const std::string& value = {}) {
    ++clock_;
    return query_of(opcode, key, value);
  }
  Status set(const std::string& key, const std::string& value) {
    return run_alone(*context_, batch_, query(Opcode::store, key, value));
  }
  Status get(const std::string& key) { return run_alone(*context_, batch_, query(Opcode::get, key)); }
  std::uint64_t evicted_by_classes() {
    std::uint64_t sum = 0;
    for (const ClassStats& c : engine_.stats().classes) sum += c.evictions;
    return sum;
  }

  std::atomic<std::uint32_t> clock_{0};
  Engine engine_;
  Engine::ContextPtr context_;
  Batch batch_{1};
};

TEST_F(SetStore, AFullSetEvictsAndNothingElseIsLost) {
  constexpr std::uint64_t keys = 5000;
  for (std::uint64_t n = 0; n < keys; ++n) ASSERT_EQ(set("key" + std::to_string(n), "value"), Status::stored);
  const EngineStats stats = engine_.stats();
  EXPECT_EQ(stats.index_cells, few_entries);
  EXPECT_EQ(stats.items, few_entries);
  EXPECT_EQ(stats.counters.evictions, keys - few_entries);
  EXPECT_EQ(stats.counters.evicted_unfetched, keys - few_entries);
  EXPECT_EQ(evicted_by_classes(), keys - few_entries);
  EXPECT_EQ(index().evictions(), keys - few_entries);
  EXPECT_EQ(stats.pages_moved, 0u);
  std::uint64_t hits = 0;
  for (std::uint64_t n = 0; n < keys; ++n) {
    if (get("key" + std::to_string(n)) == Status::hit) ++hits;
  }
  EXPECT_EQ(hits, few_entries);
  // The slots of what was evicted are used again.
  EXPECT_LT(engine_.stats().item_bytes, 2 * mib);
}

// What devices have answered with counts as used: it is not the next victim of its set.
TEST_F(SetStore, ADevicesReadsAreAccesses) {
  const auto set_of = [&](const std::string& key) {
    return index().view().index_of(fingerprint_of(key, engine_.options().hash_seed));
  };
  std::vector<std::string> keys;  // of one set
  for (std::uint64_t n = 0; keys.size() < 2 * set_cells; ++n) {
    const std::string key = "key" + std::to_string(n);
    if (set_of(key) == 0) keys.push_back(key);
  }
  for (std::uint32_t i = 0; i < set_cells; ++i) ASSERT_EQ(set(keys[i], "value"), Status::stored);
  std::vector<Location> read;
  ++clock_;
  context_->enter();
  for (std::uint32_t i = 0; i < set_cells; i += 2) {
    ItemVersion seen;
    const Item* const item = index().find(fingerprint_of(keys[i], engine_.options().hash_seed), keys[i], seen);
    read.push_back(engine_.shared().heap.location_of(item));
  }
  index().note_reads(read);
  context_->epoch.exit();
  for (std::uint32_t i = 0; i < set_cells / 2; ++i) ASSERT_EQ(set(keys[set_cells + i], "value"), Status::stored);
  for (std::uint32_t i = 0; i < set_cells; ++i)
    EXPECT_EQ(get(keys[i]), i % 2 == 0 ? Status::hit : Status::miss) << keys[i];
}

// In one batch, with strips that evict meanwhile.
TEST_F(SetStore, ABatchOfSetsEvictsInPlace) {
  constexpr std::uint32_t count = 400;
  Batch batch(count);
  std::vector<std::string> keys;
  for (std::uint32_t i = 0; i < count; ++i) keys.push_back("key" + std::to_string(i));
  const std::string value = "value";
  for (const std::string& key : keys) {
    batch.next() = query(Opcode::store, key, value);
    batch.commit();
  }
  struct Nobody final : ResultSink {
    void write(Batch&, std::uint32_t) override {}
  } nobody;
  OneByOne(*context_).run(batch, nobody);
  for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(batch.result(i).status, Status::stored);
  EXPECT_EQ(engine_.stats().items, few_entries);
  EXPECT_EQ(engine_.stats().counters.evictions, count - few_entries);
}

TEST_F(SetStore, WhatIsReadStaysAndAReadWithoutABumpDoesNotCount) {
  ASSERT_EQ(set("hot", "value"), Status::stored);
  ASSERT_EQ(set("cold", "value"), Status::stored);
  const std::string cold = "cold";
  for (std::uint64_t n = 0; n < 2000; ++n) {
    ASSERT_EQ(get("hot"), Status::hit) << n;
    Query q = query(Opcode::get, cold);
    q.options |= option::no_bump;
    (void)run_alone(*context_, batch_, q);
    ASSERT_EQ(set("key" + std::to_string(n), "value"), Status::stored);
  }
  EXPECT_EQ(get("cold"), Status::miss);
}

// A set in place counts as an access, too.
TEST_F(SetStore, WhatIsSetAgainStays) {
  for (std::uint64_t n = 0; n < 2000; ++n) {
    ASSERT_EQ(set("hot", "value"), Status::stored);
    ASSERT_EQ(set("key" + std::to_string(n), "value"), Status::stored);
    ASSERT_EQ(engine_.stats().items, std::min<std::uint64_t>(engine_.stats().items, few_entries));
  }
  // Each key is new but the hot one, so it would have been evicted 30 times.
  const std::uint64_t evictions = engine_.stats().counters.evictions;
  EXPECT_EQ(get("hot"), Status::hit);
  EXPECT_EQ(evictions, 2000 + 1 - engine_.stats().items);
}

TEST_F(SetStore, AFlushedVictimIsReclaimedNotEvicted) {
  for (std::uint64_t n = 0; n < 1000; ++n) ASSERT_EQ(set("old" + std::to_string(n), "value"), Status::stored);
  engine_.reset_stats();
  engine_.flush_all(0);
  for (std::uint64_t n = 0; n < few_entries; ++n) ASSERT_EQ(set("new" + std::to_string(n), "value"), Status::stored);
  const EngineStats stats = engine_.stats();
  // Every set had 16 flushed items; the sets that got more than 16 new keys have evicted of those.
  EXPECT_GT(stats.counters.reclaimed, 0u);
  EXPECT_EQ(stats.counters.reclaimed + stats.counters.evictions, few_entries);
  for (std::uint64_t n = 0; n < 1000; ++n) EXPECT_EQ(get("old" + std::to_string(n)), Status::miss);
}

class SetStoreThatKeeps : public SetStore {
 protected:
  static EngineOptions keeps() {
    EngineOptions o = small_table();
    o.evict = false;
    return o;
  }
  SetStoreThatKeeps() : SetStore(keeps()) {}
};

TEST_F(SetStoreThatKeeps, AFullSetRefusesNewKeysAndTakesKnownOnes) {
  std::vector<std::string> stored;
  std::uint64_t refused = 0;
  for (std::uint64_t n = 0; n < 500; ++n) {
    const std::string key = "key" + std::to_string(n);
    const Status status = set(key, "value");
    if (status == Status::stored) {
      stored.push_back(key);
    } else {
      ASSERT_EQ(status, Status::out_of_memory);
      ++refused;
    }
  }
  EXPECT_EQ(stored.size(), few_entries);
  EXPECT_EQ(refused, 500 - few_entries);
  EXPECT_EQ(engine_.stats().counters.evictions, 0u);
  for (const std::string& key : stored) {
    EXPECT_EQ(get(key), Status::hit);
    EXPECT_EQ(set(key, "a longer value"), Status::stored);
  }
}

TEST_F(SetStore, SizesItsTableByTheMemoryLimit) {
  EXPECT_FALSE(index().grows());
  EngineOptions o = small_table();
  o.item_bytes_expected = 256;
  const Engine by_items(o);
  EXPECT_EQ(by_items.stats().index_cells, (16 * mib / 256 / 3 * 4 + 15) / 16 * 16);
  o.item_bytes_expected = 32;
  const Engine smallest(o);
  EXPECT_LE(smallest.stats().index_bytes, 16 * mib / 3 + 288);
  EXPECT_GE(smallest.stats().index_bytes, 16 * mib / 3 - 288);
  o.index_power = 10;
  const Engine by_power(o);
  EXPECT_EQ(by_power.stats().index_cells, 1024u);
}

// More items than the table that a growing index would be given, and sets that are full: all of them come back.
TEST_F(SetStore, ARestartFindsAllThatWasThere) {
  EngineOptions o = small_table();
  o.item_bytes_expected = 1024;
  o.memory_file = file.path();
  std::vector<std::string> stored;
  {
    Engine engine(o);
    const auto context = engine.make_context();
    const std::string value = "value";
    for (std::uint64_t n = 0; n < 80'000; ++n) {
      const std::string key = "key" + std::to_string(n);
      ASSERT_EQ(run_alone(*context, batch_, query(Opcode::store, key, value)), Status::stored);
    }
    EXPECT_EQ(engine.stats().items, engine.stats().index_cells);
    for (std::uint64_t n = 0; n < 80'000; ++n) {
      const std::string key = "key" + std::to_string(n);
      if (run_alone(*context, batch_, query(Opcode::get, key)) == Status::hit) stored.push_back(key);
    }
  }
  Engine engine(o);
  const auto context = engine.make_context();
  EXPECT_EQ(engine.stats().items, stored.size());
  for (const std::string& key : stored) ASSERT_EQ(run_alone(*context, batch_, query(Opcode::get, key)), Status::hit);
}

// By the public interface, one key and many at once.
TEST_F(SetStore, ServesAnEmbeddingProgram) {
  Options o;
  o.memory_bytes = 16 * mib;
  o.preset = "memcachedgpu";
  Store store(o);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(store.set("key" + std::to_string(i), std::to_string(i)), Code::stored);
  for (int i = 0; i < 100; ++i) {
    Value v;
    ASSERT_EQ(store.get("key" + std::to_string(i), v), Code::hit);
    EXPECT_EQ(v.bytes, std::to_string(i));
  }
  EXPECT_EQ(store.remove("key5"), Code::removed);
  EXPECT_FALSE(store.get("key5"));
  EXPECT_EQ(store.stats().items, 99u);
}

}  // namespace
}  // namespace tandem
