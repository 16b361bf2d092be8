// Items that are arranged by key order beside writers, in the background, and in a full store.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/shuffled.hpp"
#include "engine/engine_fixture.hpp"
#include "tandem/store.hpp"
#include "task/scan.hpp"

namespace tandem {
namespace {

std::string key_of(unsigned i) { return "key" + std::to_string(1'000'000 + i); }

class ArrangedStore : public testing::TestWithParam<const char*> {
 protected:
  static Options options(std::uint64_t memory_bytes = std::uint64_t{64} << 20) {
    Options o{.memory_bytes = memory_bytes, .huge_pages = false, .preset = "cpu"};
    if (std::string_view(GetParam()) == "ordered") {
      o.ordered = true;
    } else {
      o.preset = GetParam();
    }
    return o;
  }
};

// Each writer has keys of its own and knows what they have to be.
TEST_P(ArrangedStore, WritersLoseNothing) {
  constexpr unsigned writers = 2, keys_of_each = 3000, enough = (is_sanitized ? 10 : 100) * keys_of_each;
  Store store(options());
  std::map<std::string, std::string> models[writers];
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < writers; ++t) {
    threads.emplace_back([&, t] {
      Session session = store.session();
      std::mt19937 random(t);
      for (std::uint64_t n = 0; !is_over; ++n) {
        const std::string key = key_of(static_cast<unsigned>(random()) % keys_of_each * writers + t);
        if (random() % 3 == 0) {
          session.remove(key);
          models[t].erase(key);
        } else {
          std::string value = key + " " + std::to_string(n);
          value.resize(value.size() + random() % 60, '.');
          EXPECT_EQ(session.set(key, value), Code::stored);
          models[t].insert_or_assign(key, value);
        }
      }
    });
  }
  std::atomic<std::uint64_t> moved{0}, scanned{0};
  threads.emplace_back([&] {
    Session session = store.session();
    while (!is_over) moved += session.arrange();
  });
  threads.emplace_back([&] {
    Session session = store.session();
    std::string last;
    while (!is_over) {
      last.clear();
      session.scan_all({}, [&](const ScannedItem& item) {
        EXPECT_LT(last, item.key);
        EXPECT_EQ(item.value.substr(0, item.key.size()), item.key);
        last = item.key;
        ++scanned;
      });
    }
  });
  EXPECT_TRUE(soon([&] { return moved > enough && scanned > enough; }));
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  Session session = store.session();
  std::map<std::string, std::string> all = models[0], got;
  all.insert(models[1].begin(), models[1].end());
  session.scan_all({}, [&](const ScannedItem& item) { got.emplace(item.key, item.value); });
  EXPECT_EQ(got, all);
  for (const auto& [key, value] : all) EXPECT_EQ(session.get(key), value);
}

// Pages are emptied for rows, and the items on them that are rewritten just then are not evicted: there is memory.
TEST_P(ArrangedStore, WhatIsRewrittenAllTheTimeStays) {
  constexpr unsigned count = is_sanitized ? 60'000 : 400'000, rounds = is_sanitized ? 1 : 3;
  Store store(options(std::uint64_t{256} << 20));
  Session session = store.session();
  const std::string value(96, 'v');
  const std::vector<unsigned> order = shuffled(count);
  for (const unsigned i : order) ASSERT_EQ(session.set(key_of(i), value), Code::stored);
  std::atomic<bool> is_over{false};
  std::thread writer([&] {
    Session writes = store.session();
    for (unsigned i = 0; !is_over; ++i) writes.set(key_of(i % 64 * (count / 64)), value);
  });
  // Each time another third of the keys leaves its slots and gets other ones.
  std::uint64_t moved = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    moved += session.arrange();
    for (const unsigned i : order) {
      if (i % 3 == round && i % (count / 64) != 0) session.remove(key_of(i));
    }
    moved += session.arrange();
    for (const unsigned i : order) {
      if (i % 3 == round) {
        ASSERT_EQ(session.set(key_of(i), value), Code::stored);
      }
    }
  }
  is_over = true;
  writer.join();
  EXPECT_GT(moved, count);
  EXPECT_EQ(store.stats().evictions, 0u);
  EXPECT_EQ(store.stats().items, count);
}

#if !defined(TANDEM_SANITIZED)  // so many items take minutes there
// 64 pages and more of one class: it evicts a page's worth of items, and what moves makes the room for what follows.
TEST_P(ArrangedStore, AFullStoreEvictsLittle) {
  constexpr std::uint64_t slots_per_page = 8192;  // of 128 bytes
  Store store(options(std::uint64_t{112} << 20));
  Session session = store.session();
  const std::string value(96, 'v');
  for (const unsigned i : shuffled(1'200'000u)) ASSERT_EQ(session.set(key_of(i), value), Code::stored);
  const Stats before = store.stats();
  ASSERT_GT(before.evictions, 100'000u);
  ASSERT_GT(before.items, 66 * slots_per_page);
  const std::uint64_t moved = session.arrange();
  EXPECT_GT(moved, before.items / 2);
  EXPECT_LT(store.stats().evictions - before.evictions, 3 * slots_per_page);
  EXPECT_GT(store.stats().items, before.items - 3 * slots_per_page);
  EXPECT_LE(store.stats().memory_used_bytes, before.memory_limit_bytes);
}
#endif

INSTANTIATE_TEST_SUITE_P(Kinds, ArrangedStore, testing::Values("ordered", "heterokv"),
                         [](const auto& kind) { return kind.param; });

struct CountingSink final : ItemSink {
  void restart() override {}
  bool item(const Item&, const ItemVersion&, std::uint64_t) override { return true; }
};

// What is scanned is rewritten in the background, if it may be.
TEST(Arranger, RewritesWhatIsScanned) {
  constexpr unsigned count = 6000;
  for (const bool arrange : {true, false}) {
    EngineOptions options;
    options.ordered = true;
    options.arrange = arrange;
    options.scans_per_look = 1;
    options.huge_pages = false;
    Engine engine(options);
    const Engine::ContextPtr context = engine.make_context();
    Batch batch(1);
    for (const unsigned i : shuffled(count)) {
      const std::string key = key_of(i);
      ASSERT_EQ(run_alone(*context, batch, query_of(Opcode::store, key, "value")), Status::stored);
    }
    const auto scan_half = [&] {
      CountingSink sink;
      for (unsigned i = 0; i < count / 2; i += 100)
        EXPECT_EQ(task::scan(*context, {.begin = key_of(i)}, 100, sink).count, 100u);
    };
    const auto arranged = [&] { return engine.stats().counters.items_arranged; };
    if (!arrange) {
      for (int i = 0; i < 20; ++i) scan_half();
      EXPECT_EQ(arranged(), 0u);
      continue;
    }
    EXPECT_TRUE(soon([&] {
      scan_half();
      return arranged() > count / 2 - 200;
    }));
    // Nothing else is moved, and what is in order is left alone: but for the ends of ranges.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    scan_half();
    EXPECT_LT(arranged(), count / 2 + 1000);
    EXPECT_EQ(engine.stats().items, count);
  }
}

}  // namespace
}  // namespace tandem
