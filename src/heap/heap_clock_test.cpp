#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "heap/heap_fixture.hpp"

namespace tandem {
namespace {

struct ClockSweepTest : testing::Test {
  explicit ClockSweepTest(std::uint64_t bytes = 5000, std::uint64_t pages = 3)
      : item_bytes(bytes),
        t(pages * PagePool::page_cost_bytes, {.item_bytes_max = 8 * mib}),
        w(t),
        c(t.heap.size_class(bytes)) {}

  // Fills the class until memory is used up.
  std::vector<Location> fill() {
    std::vector<Location> all;
    for (Location l = w.make(item_bytes); l != no_location; l = w.make(item_bytes)) all.push_back(l);
    return all;
  }
  std::vector<Location> sweep(std::size_t victims_max, std::size_t slots_max = SIZE_MAX,
                              Heap::IsGarbage garbage = nullptr, const void* context = nullptr) {
    std::vector<Location> victims(victims_max);
    w.epoch.enter();
    victims.resize(t.heap.sweep(c, victims, slots_max, garbage, context).found);
    w.epoch.exit();
    return victims;
  }

  std::uint64_t item_bytes;
  TestHeap t;
  TestWorker w;
  SizeClass c;
};

TEST_F(ClockSweepTest, NothingInAnEmptyClass) { EXPECT_TRUE(sweep(10).empty()); }

TEST_F(ClockSweepTest, NewItemsAreVictimsInTurn) {
  const std::vector<Location> all = fill();
  std::set<Location> seen;
  for (std::size_t i = 0; i + 10 <= all.size(); i += 10) {
    for (const Location l : sweep(10)) EXPECT_TRUE(seen.insert(l).second) << "again before its turn";
  }
  EXPECT_GE(seen.size() + 10, all.size());
}

TEST_F(ClockSweepTest, OneCallNamesEachOnce) {
  const std::vector<Location> all = fill();
  const std::vector<Location> victims = sweep(2 * all.size());
  EXPECT_EQ(victims.size(), all.size());
  EXPECT_EQ(std::set<Location>(victims.begin(), victims.end()).size(), all.size());
}

TEST_F(ClockSweepTest, AccessedItemsGetASecondChance) {
  const std::vector<Location> all = fill();
  for (const Location l : all) TestWorker::set_accessed(t.heap, l);
  // The first turn clears the bits and finds nothing, the second finds the items.
  EXPECT_TRUE(sweep(10, all.size()).empty());
  for (const Location l : all) EXPECT_FALSE(TestWorker::is_accessed(t.heap, l));
  EXPECT_EQ(sweep(10).size(), 10u);
}

TEST_F(ClockSweepTest, AllAccessedStillYieldsVictimsInOneCall) {
  for (const Location l : fill()) TestWorker::set_accessed(t.heap, l);
  EXPECT_EQ(sweep(10).size(), 10u);
}

TEST_F(ClockSweepTest, ItemsInUseSurviveAScan) {
  // A working set is read again and again, while a scan writes ten times the memory in items that are never read. No
  // item in use may be evicted.
  std::vector<Location> all = fill();
  const std::vector<Location> working_set(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
  for (std::size_t written = 0; written < 10 * all.size();) {
    for (const Location l : working_set) TestWorker::set_accessed(t.heap, l);
    const std::vector<Location> victims = sweep(16);
    ASSERT_FALSE(victims.empty());
    for (const Location l : victims) {
      ASSERT_EQ(std::find(working_set.begin(), working_set.end(), l), working_set.end());
      w.retire(l);
    }
    w.flush();
    for (std::size_t i = 0; i < victims.size(); ++i, ++written) ASSERT_NE(w.make(item_bytes), no_location);
  }
}

TEST_F(ClockSweepTest, GarbageGoesHoweverOftenItIsRead) {
  const std::vector<Location> all = fill();
  for (const Location l : all) TestWorker::set_accessed(t.heap, l);
  const std::set<const Item*> garbage{t.heap.at(all[3]), t.heap.at(all[all.size() - 1])};
  const std::vector<Location> victims = sweep(
      all.size(), all.size(),
      [](const void* context, const Item* item, std::uint64_t) {
        return static_cast<const std::set<const Item*>*>(context)->contains(item);
      },
      &garbage);
  EXPECT_EQ(std::set<Location>(victims.begin(), victims.end()), (std::set<Location>{all[3], all.back()}));
}

TEST_F(ClockSweepTest, OnlyLiveItemsAreNamed) {
  std::vector<Location> all = fill();
  w.retire(all[0]);
  w.release(all[1]);
  TestWorker::set_state(t.heap, all[2], ItemState::filling);
  const std::vector<Location> victims = sweep(all.size());
  EXPECT_EQ(std::set<Location>(victims.begin(), victims.end()), std::set<Location>(all.begin() + 3, all.end()));
}

TEST_F(ClockSweepTest, LooksAtNoMoreThanItMay) {
  const std::vector<Location> all = fill();
  for (const Location l : all) TestWorker::set_accessed(t.heap, l);
  EXPECT_TRUE(sweep(10, 100).empty());
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [&](Location l) { return TestWorker::is_accessed(t.heap, l); }),
            static_cast<std::ptrdiff_t>(all.size() - 100));
}

TEST_F(ClockSweepTest, SmallHelpingsPassNobodyOver) {
  // Taking one victim at a time must visit every slot as often as any other.
  const std::vector<Location> all = fill();
  std::set<Location> seen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<Location> one = sweep(1);
    ASSERT_EQ(one.size(), 1u);
    EXPECT_TRUE(seen.insert(one[0]).second);
  }
  EXPECT_EQ(seen.size(), all.size());
}

TEST_F(ClockSweepTest, ClosedPagesAreLeftAlone) {
  const std::vector<Location> all = fill();
  ASSERT_TRUE(t.heap.close_page(page_of(all[0])));
  for (const Location l : sweep(all.size())) EXPECT_NE(page_of(l), page_of(all[0]));
  t.heap.reopen_page(page_of(all[0]));
  EXPECT_EQ(sweep(all.size()).size(), all.size());
}

TEST_F(ClockSweepTest, SweepersDoNotMeet) {
  const std::vector<Location> all = fill();
  constexpr unsigned thread_count = 4;
  std::vector<std::vector<Location>> found(thread_count);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < thread_count; ++i) {
    threads.emplace_back([&, i] {
      EpochDomain::Participant epoch(t.epochs);
      std::vector<Location> some(8);
      epoch.enter();
      // All threads together make at most one turn: a quarter of the slots each.
      for (std::size_t n = 0; n + some.size() <= all.size() / thread_count; n += some.size()) {
        some.resize(t.heap.sweep(c, some, some.size(), nullptr, nullptr).found);
        found[i].insert(found[i].end(), some.begin(), some.end());
        some.resize(8);
      }
      epoch.exit();
    });
  }
  for (auto& thread : threads) thread.join();
  std::set<Location> seen;
  std::size_t total = 0;
  for (const auto& some : found) {
    seen.insert(some.begin(), some.end());
    total += some.size();
  }
  EXPECT_EQ(seen.size(), total);
  EXPECT_GT(total, 0u);
}

struct TinyClassTest : ClockSweepTest {
  TinyClassTest() : ClockSweepTest(500'000, 1) {}  // two slots in all
};

TEST_F(TinyClassTest, TwoSlotsTakeTurns) {
  const std::vector<Location> all = fill();
  ASSERT_EQ(all.size(), 2u);
  const Location first = sweep(1)[0];
  const Location second = sweep(1)[0];
  EXPECT_NE(first, second);
  EXPECT_EQ(sweep(1)[0], first);
  TestWorker::set_accessed(t.heap, first);
  TestWorker::set_accessed(t.heap, second);
  EXPECT_EQ(sweep(5).size(), 2u);
}

struct HugeClockTest : ClockSweepTest {
  HugeClockTest() : ClockSweepTest(3 * mib - large_first_bytes, 40) {}
};

TEST_F(HugeClockTest, HugeItemsTakeTurnsAndSecondChances) {
  const std::vector<Location> all = fill();
  ASSERT_EQ(all.size(), 13u);
  const std::set<Location> everything(all.begin(), all.end());
  std::vector<Location> victims = sweep(all.size());
  EXPECT_EQ(std::set<Location>(victims.begin(), victims.end()), everything);
  TestWorker::set_accessed(t.heap, all[5]);
  victims = sweep(all.size(), all.size());
  EXPECT_EQ(victims.size(), all.size() - 1);
  EXPECT_EQ(std::find(victims.begin(), victims.end(), all[5]), victims.end());
  // The hand skips retired ones at once.
  w.retire(all[0]);
  victims = sweep(all.size());
  EXPECT_EQ(victims.size(), all.size() - 1);
  EXPECT_EQ(std::find(victims.begin(), victims.end(), all[0]), victims.end());
}

TEST_F(ClockSweepTest, EvictionsAreCounted) {
  t.heap.count_eviction(c, false);
  t.heap.count_eviction(c, false);
  t.heap.count_eviction(c, true);
  t.heap.count_out_of_memory(c);
  t.heap.count_eviction(huge_class, false);
  const ClassStats s = t.heap.class_stats(c);
  EXPECT_EQ(s.evictions, 2u);
  EXPECT_EQ(s.reclaimed_expired, 1u);
  EXPECT_EQ(s.out_of_memory, 1u);
  EXPECT_EQ(t.heap.class_stats(huge_class).evictions, 1u);
}

}  // namespace
}  // namespace tandem
