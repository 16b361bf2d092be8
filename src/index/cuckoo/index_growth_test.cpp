// Growth step by step: batches that stay open hold it in each of its phases (grow.cpp), so that their operations and
// those of newer batches run exactly in that phase.
#include <gtest/gtest.h>

#include <thread>

#include "index/cuckoo/index_test_support.hpp"

namespace tandem {
namespace {

// Grows in a thread of its own.
class Grower {
 public:
  explicit Grower(TestStore& store) : worker_(store), thread_([this] { result_ = worker_.grow(); }) {}
  ~Grower() {
    if (thread_.joinable()) thread_.join();
  }
  Grower(const Grower&) = delete;
  Grower& operator=(const Grower&) = delete;
  bool join() {
    thread_.join();
    return result_;
  }

 private:
  TestWorker worker_;
  bool result_ = false;
  std::thread thread_;
};

template <class F>
void wait_until(F condition) {
  while (!condition()) std::this_thread::yield();
}

// Three workers with open batches that know the phases 1, 2 and 3 of one growth.
struct Staged {
  explicit Staged(const TestStoreOptions& options = {.cells = 512, .load_grow = 2})
      : store(options), w1(store), w2(store), w3(store) {}

  void to_phase_2() {
    cells = store.index.cell_count();
    b1.emplace(w1);
    const std::uint64_t before = store.epochs.now();
    grower.emplace(store);
    // Only once the grower has its stamp: otherwise it would wait for this batch, too.
    wait_until([&] { return store.index.growing() && store.epochs.now() != before; });
    b2.emplace(w2);
  }
  void to_phase_3() {
    const std::uint64_t before = store.epochs.now();
    b1.reset();
    wait_until([&] { return store.index.cell_count() == 2 * cells && store.epochs.now() != before; });
    b3.emplace(w3);
  }
  // The copy runs, and phase 4 waits for the batch of phase 3.
  void to_phase_4() {
    b2.reset();
    wait_until([&] { return !store.index.growing(); });
  }
  bool finish() {
    b1.reset();
    b2.reset();
    b3.reset();
    return grower->join();
  }

  TestStore store;
  TestWorker w1, w2, w3;
  std::optional<TestWorker::Batch> b1, b2, b3;
  std::optional<Grower> grower;
  std::uint64_t cells = 0;
};

using Outcome = TestWorker::Outcome;

TEST(Growth, WaitsForBatchesAndFreesTheOldTableAfterTheLast) {
  Staged s;
  const std::uint64_t small = s.store.index.table_bytes();
  s.to_phase_2();
  EXPECT_EQ(s.store.index.table_bytes(), 3 * small);
  EXPECT_EQ(s.store.index.cell_count(), s.cells) << "new keys still go into the old table";
  s.to_phase_3();
  EXPECT_TRUE(s.store.index.growing());
  s.to_phase_4();
  EXPECT_EQ(s.store.index.table_bytes(), 3 * small) << "a batch still searches the old table";
  EXPECT_TRUE(s.finish());
  EXPECT_EQ(s.store.index.table_bytes(), 2 * small);
  EXPECT_FALSE(s.store.index.growing());
}

// A worker of each phase sets, replaces and erases keys. The workers of all phases see each change at once, and it
// persists.
TEST(Growth, WorkersOfNeighbouringPhasesSeeEachOther) {
  Staged s;
  for (std::uint64_t n = 0; n < 60; ++n) ASSERT_EQ(s.w1.set(key_of(n), n), Outcome::done);
  std::map<std::string, std::uint64_t> expected;
  for (std::uint64_t n = 0; n < 60; ++n) expected[key_of(n)] = n;
  std::uint64_t next = 1000;
  const auto change = [&](TestWorker& worker, std::uint64_t from) {
    for (std::uint64_t n = from; n < from + 5; ++n) {  // replaced
      ASSERT_EQ(worker.set(key_of(n), n + 100), Outcome::done);
      expected[key_of(n)] = n + 100;
    }
    for (std::uint64_t n = from + 5; n < from + 10; ++n) {  // erased
      ASSERT_TRUE(worker.erase(key_of(n)));
      expected.erase(key_of(n));
    }
    for (std::uint64_t n = next; n < next + 5; ++n) {  // added
      ASSERT_EQ(worker.set(key_of(n), n, true), Outcome::done);
      expected[key_of(n)] = n;
    }
    next += 5;
  };
  const auto check = [&](TestWorker& worker) {
    for (const auto& [key, value] : expected) ASSERT_EQ(worker.get(key), value);
    for (std::uint64_t n = 0; n < 60; ++n) ASSERT_EQ(worker.get(key_of(n)).has_value(), expected.contains(key_of(n)));
  };
  s.to_phase_2();
  change(s.w1, 0);  // knows of no growth
  change(s.w2, 10);
  check(s.w1);
  check(s.w2);
  // A worker of phase 1 removes what a worker of phase 2 added: no dead cell may stay behind in the new table.
  ASSERT_TRUE(s.w1.erase(key_of(1005)));
  expected.erase(key_of(1005));
  s.to_phase_3();
  change(s.w2, 20);
  change(s.w3, 30);
  check(s.w2);
  check(s.w3);
  ASSERT_TRUE(s.w2.erase(key_of(1016)));  // added by the worker of phase 3
  expected.erase(key_of(1016));
  ASSERT_EQ(s.w2.set(key_of(1017), 7), Outcome::done);
  expected[key_of(1017)] = 7;
  s.to_phase_4();
  TestWorker w4(s.store);
  {
    const TestWorker::Batch batch(w4);
    change(s.w3, 40);
    change(w4, 50);
    check(s.w3);
    check(w4);
    ASSERT_TRUE(
        w4.erase(key_of(1021)));  // leaves its cell in the old table, which the worker of phase 3 still searches
    expected.erase(key_of(1021));
    ASSERT_EQ(w4.set(key_of(1022), 8), Outcome::done);
    expected[key_of(1022)] = 8;
    check(s.w3);
    ASSERT_EQ(s.w3.set(key_of(1021), 9), Outcome::done);
    expected[key_of(1021)] = 9;
    check(w4);
    check(s.w3);
  }
  EXPECT_TRUE(s.finish());
  std::string problem;
  EXPECT_EQ(s.store.scan(problem), expected);
  EXPECT_EQ(problem, "");
}

// While an old table is full, new keys still find room in the new one.
TEST(Growth, AFullOldTableStopsNobody) {
  Staged s;
  std::uint64_t n = 0;
  while (s.w1.set(key_of(n), n) == Outcome::done) ++n;
  const std::uint64_t full = n;
  s.to_phase_2();
  EXPECT_EQ(s.w2.set(key_of(full), full), TestWorker::Outcome::no_room) << "the new table takes nothing yet";
  s.to_phase_3();
  while (n < full + 300) {
    ASSERT_EQ(s.w3.set(key_of(n), n), Outcome::done);
    ++n;
  }
  for (std::uint64_t k = 0; k < n; ++k) {
    ASSERT_EQ(s.w2.get(key_of(k)), k);
    ASSERT_EQ(s.w3.get(key_of(k)), k);
  }
  EXPECT_TRUE(s.finish());
  std::string problem;
  EXPECT_EQ(s.store.scan(problem).size(), n);
  EXPECT_EQ(problem, "");
}

// Writers that outrun the copy are stopped while the new table still has room for all keys of the old one.
TEST(Growth, KeepsRoomForTheKeysNotYetCopied) {
  Staged s;
  std::uint64_t n = 0;
  while (n < 480) {
    ASSERT_EQ(s.w1.set(key_of(n), n), Outcome::done);
    ++n;
  }
  s.to_phase_2();
  s.to_phase_3();
  while (s.w3.set(key_of(n), n) == Outcome::done) ++n;
  EXPECT_GT(n, 800u);
  EXPECT_LE(n, 1024u);
  ASSERT_EQ(s.w3.set(key_of(3), 33), Outcome::done) << "a replacement needs no room";
  EXPECT_TRUE(s.w3.erase(key_of(4)));
  EXPECT_EQ(s.w3.set(key_of(4), 44), Outcome::done) << "what has gone makes room";
  EXPECT_TRUE(s.finish()) << "and the copy finds a place for every key";
  std::string problem;
  const auto all = s.store.scan(problem);
  EXPECT_EQ(problem, "");
  EXPECT_EQ(all.size(), n);
  EXPECT_EQ(all.at(key_of(3)), 33u);
  EXPECT_EQ(s.w1.set(key_of(n), n), Outcome::done);
}

// More keys than two buckets hold, all with one fingerprint: the copy cannot end. The index stays usable, and the
// growth ends when some of the keys are gone.
TEST(Growth, StaysOpenWhenKeysFindNoPlaceAndEndsLater) {
  Staged s({.cells = 512, .load_grow = 2, .fingerprint = [](std::string_view, std::uint64_t) {
              return Fingerprint{0x1234567, 0x89};
            }});
  for (std::uint64_t n = 0; n < 16; ++n) ASSERT_EQ(s.w1.set(key_of(n), n), Outcome::done);
  s.to_phase_2();
  s.to_phase_3();
  for (std::uint64_t n = 16; n < 32; ++n) ASSERT_EQ(s.w3.set(key_of(n), n), Outcome::done);
  EXPECT_FALSE(s.finish());
  EXPECT_TRUE(s.store.index.growing());
  EXPECT_TRUE(s.store.index.wants_growth());
  for (std::uint64_t n = 0; n < 32; ++n) ASSERT_EQ(s.w1.get(key_of(n)), n);
  ASSERT_EQ(s.w1.set(key_of(5), 55), Outcome::done);
  EXPECT_FALSE(s.w1.grow());
  EXPECT_EQ(s.w1.get(key_of(5)), 55u);
  for (std::uint64_t n = 8; n < 24; ++n) ASSERT_TRUE(s.w1.erase(key_of(n)));
  EXPECT_TRUE(s.w1.grow());
  EXPECT_FALSE(s.store.index.growing());
  std::string problem;
  EXPECT_EQ(s.store.scan(problem).size(), 16u);
  EXPECT_EQ(problem, "");
  EXPECT_EQ(s.w1.get(key_of(5)), 55u);
}

TEST(Growth, EvictionByLocationInEveryPhase) {
  Staged s;
  for (std::uint64_t n = 0; n < 400; ++n) ASSERT_EQ(s.w1.set(key_of(n), n), Outcome::done);
  std::uint64_t left = 400, next = 0;
  const auto evict_some = [&](TestWorker& worker) {
    for (const std::uint64_t end = next + 20; next < end; ++next) {
      const TestWorker::Batch batch(worker);
      ItemVersion seen;
      const Item* const item = s.store.index.find(s.store.fingerprint(key_of(next)), key_of(next), seen);
      ASSERT_NE(item, nullptr);
      ASSERT_EQ(worker.evict(s.store.heap.location_of(item)), key_of(next));
      --left;
    }
  };
  s.to_phase_2();
  evict_some(s.w1);
  evict_some(s.w2);
  s.to_phase_3();
  evict_some(s.w2);
  evict_some(s.w3);
  s.to_phase_4();
  evict_some(s.w3);
  TestWorker w4(s.store);
  evict_some(w4);
  EXPECT_TRUE(s.finish());
  std::string problem;
  EXPECT_EQ(s.store.scan(problem).size(), left);
  EXPECT_EQ(problem, "");
}

TEST(Growth, MovesTheBudgetFromTableToTable) {
  TestStore store({.cells = 1 << 14, .memory_bytes = std::uint64_t{16} << 20, .load_grow = 0.5});
  TestWorker worker(store);
  for (std::uint64_t n = 0; n < (1 << 13); ++n) ASSERT_EQ(worker.set(key_of(n), n), Outcome::done);
  EXPECT_FALSE(store.index.wants_growth());
  ASSERT_EQ(worker.set(key_of(1 << 13), 0), Outcome::done);
  EXPECT_TRUE(store.index.wants_growth());
  const std::uint64_t items_bytes = store.budget.used_bytes() - store.index.table_bytes();
  ASSERT_TRUE(worker.grow());
  EXPECT_EQ(store.index.cell_count(), 1u << 15);
  EXPECT_EQ(store.index.table_bytes(), std::uint64_t{8} << 15);
  EXPECT_EQ(store.budget.used_bytes(), items_bytes + store.index.table_bytes());
  EXPECT_FALSE(store.index.wants_growth());
}

}  // namespace
}  // namespace tandem
