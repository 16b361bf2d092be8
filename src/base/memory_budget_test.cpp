#include "base/memory_budget.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <vector>

namespace tandem {
namespace {

TEST(MemoryBudget, TakesUpToTheLimitAndNoByteMore) {
  MemoryBudget budget(100);
  EXPECT_TRUE(budget.take(60));
  EXPECT_FALSE(budget.take(41));
  EXPECT_EQ(budget.used_bytes(), 60u);
  EXPECT_TRUE(budget.take(40));
  EXPECT_FALSE(budget.take(1));
  budget.give_back(100);
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST(MemoryBudget, SumsThatOverflowAreRefused) {
  MemoryBudget budget(100);
  EXPECT_TRUE(budget.take(50));
  EXPECT_FALSE(budget.take(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_FALSE(budget.take(std::numeric_limits<std::uint64_t>::max() - 49));
  EXPECT_EQ(budget.used_bytes(), 50u);
}

TEST(MemoryBudget, ClaimKeepsOthersOutUntilItIsPaid) {
  MemoryBudget budget(100);
  ASSERT_TRUE(budget.take(90));
  EXPECT_TRUE(budget.claim(40));
  EXPECT_TRUE(budget.overdrawn());
  EXPECT_FALSE(budget.take(1));
  budget.give_back(20);  // freed memory goes to the claim
  EXPECT_TRUE(budget.overdrawn());
  EXPECT_FALSE(budget.take(1));
  budget.give_back(10);
  EXPECT_FALSE(budget.overdrawn());
  EXPECT_EQ(budget.used_bytes(), 100u);
  budget.give_back(40);
  EXPECT_TRUE(budget.take(40));
}

TEST(MemoryBudget, ClaimAboveTheLimitIsRefused) {
  MemoryBudget budget(100);
  EXPECT_FALSE(budget.claim(101));
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST(MemoryBudget, ThreadsTogetherNeverPassTheLimit) {
  constexpr std::uint64_t limit = 1000;
  MemoryBudget budget(limit);
  std::atomic<std::uint64_t> held{0};
  std::atomic<bool> passed{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 20'000; ++i) {
        const std::uint64_t bytes = 100 + (t * 7919 + i * 31) % 400;
        if (!budget.take(bytes)) continue;
        if (held.fetch_add(bytes) + bytes > limit) passed = true;
        held.fetch_sub(bytes);
        budget.give_back(bytes);
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_FALSE(passed);
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST(MemoryBudget, ASmallerLimitTakesNothingAndGivesNothing) {
  MemoryBudget budget(100);
  ASSERT_TRUE(budget.take(80));
  budget.set_limit(50);
  EXPECT_TRUE(budget.overdrawn());
  EXPECT_FALSE(budget.take(0));
  budget.give_back(40);
  EXPECT_FALSE(budget.overdrawn());
  EXPECT_FALSE(budget.take(20));
  EXPECT_TRUE(budget.take(10));
  budget.set_limit(200);
  EXPECT_TRUE(budget.take(150));
  EXPECT_EQ(budget.used_bytes(), 200u);
}

// Gives back what it is asked for, as far as it has it.
struct Keeper final : KeptMemory {
  explicit Keeper(MemoryBudget& of) : budget(of) { budget.set_keeper(this); }
  std::uint64_t return_kept(std::uint64_t bytes) noexcept override {
    bytes = std::min(bytes, budget.kept_bytes());
    budget.release_kept(bytes);
    return bytes;
  }
  MemoryBudget& budget;
};

TEST(MemoryBudget, KeptMemoryIsNotUsedAndMakesRoom) {
  MemoryBudget budget(100);
  Keeper keeper(budget);
  ASSERT_TRUE(budget.take(80));
  budget.keep(50);
  EXPECT_EQ(budget.used_bytes(), 30u);
  EXPECT_FALSE(budget.take_free(30)) << "charged as before";
  EXPECT_FALSE(budget.take(71));
  EXPECT_EQ(budget.kept_bytes(), 50u) << "it would not have been enough";
  EXPECT_TRUE(budget.take(60));
  EXPECT_LE(budget.used_bytes() + budget.kept_bytes(), 100u);
}

TEST(MemoryBudget, ClaimAndLowerLimitReturnWhatIsKept) {
  MemoryBudget budget(100);
  Keeper keeper(budget);
  ASSERT_TRUE(budget.take(100));
  budget.keep(60);
  EXPECT_TRUE(budget.claim(30));
  EXPECT_FALSE(budget.overdrawn());
  EXPECT_EQ(budget.kept_bytes(), 30u);
  budget.set_limit(80);
  EXPECT_EQ(budget.kept_bytes(), 10u);
  EXPECT_FALSE(budget.overdrawn());
  EXPECT_TRUE(budget.claim(20));
  EXPECT_EQ(budget.kept_bytes(), 0u);
  EXPECT_TRUE(budget.overdrawn());
}

}  // namespace
}  // namespace tandem
