#include "heap/probation.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "heap/heap_fixture.hpp"

namespace tandem {
namespace {

constexpr SizeClass c = 3;
constexpr std::uint64_t slots = 1000;  // so 100 places
Fingerprint key(std::uint32_t i) { return {i * 2654435761u | 1, i * 40503u}; }

class ProbationTest : public testing::Test {
 protected:
  MemoryBudget budget_{std::uint64_t{16} << 20};
  Probation probation_{budget_, 64, 8};
};

TEST_F(ProbationTest, OldestFirstAndOnlyAboveTheShare) {
  for (Location l = 1; l <= 103; ++l) probation_.admit(c, l, key(l), slots);
  for (Location l = 1; l <= 103; ++l) EXPECT_TRUE(probation_.is_on(l));
  EXPECT_FALSE(probation_.is_on(104));
  EXPECT_EQ(probation_.take_oldest(c, slots), 1u);
  EXPECT_FALSE(probation_.is_on(1)) << "it ends when it is looked at";
  EXPECT_EQ(probation_.take_oldest(c, slots), 2u);
  EXPECT_EQ(probation_.take_oldest(c, slots), 3u);
  EXPECT_EQ(probation_.take_oldest(c, slots), no_location) << "a tenth may stay";
  EXPECT_EQ(probation_.take_oldest(c + 1, slots), no_location) << "another class";
  EXPECT_EQ(probation_.take_oldest(c, slots / 2), 4u) << "the class has become smaller";
}

TEST_F(ProbationTest, WhoWasReleasedIsPassedOver) {
  for (Location l = 1; l <= 102; ++l) probation_.admit(c, l, key(l), slots);
  probation_.release(1);
  EXPECT_FALSE(probation_.is_on(1));
  EXPECT_EQ(probation_.take_oldest(c, slots), 2u);
}

TEST_F(ProbationTest, RememberedKeysAreNotOnProbation) {
  probation_.remember(key(7));
  probation_.admit(c, 7, key(7), slots);
  EXPECT_FALSE(probation_.is_on(7));
  EXPECT_EQ(probation_.queued(c), 0u);
  probation_.admit(c, 8, key(7), slots);
  EXPECT_TRUE(probation_.is_on(8)) << "it is remembered once";
}

TEST_F(ProbationTest, ASlotHasOneEntry) {
  for (int i = 0; i < 1000; ++i) probation_.admit(c, 5, key(5), slots);  // stored, deleted, stored, ...
  EXPECT_EQ(probation_.queued(c), 1u);
}

// Without eviction, entries must not accumulate without bound.
TEST_F(ProbationTest, TheQueueIsBounded) {
  for (Location l = 1; l < 100'000; ++l) probation_.admit(c, l, key(l), slots);
  EXPECT_EQ(probation_.queued(c), 2 * slots / Probation::slots_per_place);
  std::uint64_t on = 0;
  for (Location l = 1; l < 100'000; ++l) on += probation_.is_on(l) ? 1u : 0u;
  EXPECT_EQ(on, probation_.queued(c)) << "who has no entry is not on probation";
}

TEST_F(ProbationTest, EveryBitHasAnEntryWhateverThreadsDo) {
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (std::uint32_t i = 0; i < 20'000; ++i) {
        const Location l = 1 + (i * 7 + t * 13) % 3000;
        probation_.admit(c, l, key(l), slots);
        if (i % 3 == 0) probation_.release(1 + (i * 11 + t) % 3000);
        if (i % 2 == 0) probation_.take_oldest(c, slots);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  while (probation_.take_oldest(c, 0) != no_location) {
  }
  for (Location l = 1; l <= 3000; ++l) EXPECT_FALSE(probation_.is_on(l)) << l;
}

TEST(ProbationBudgetTest, GhostsAreChargedAndGivenBack) {
  MemoryBudget budget(std::uint64_t{16} << 20);
  {
    const Probation probation(budget, 64, 8);
    EXPECT_EQ(budget.used_bytes(), (std::uint64_t{16} << 20) / 64);
  }
  EXPECT_EQ(budget.used_bytes(), 0u);
}

}  // namespace
}  // namespace tandem
