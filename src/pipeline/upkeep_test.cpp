#include "pipeline/upkeep.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tandem {
namespace {

using namespace std::chrono_literals;

// A load in windows of a second, and what the rule makes of it.
class UpkeepTest : public testing::Test {
 protected:
  static constexpr std::uint64_t million = 1'000'000;

  // What a second of the load has, in millions. Changes follow writes, and answers reads, while the replica is kept up.
  bool second(std::uint64_t reads, std::uint64_t writes, bool answers = true) {
    now_ += 1s;
    counts_.reads += reads * million;
    counts_.writes += writes * million;
    if (!upkeep_.rests()) {
      counts_.changes += writes * million;
      if (answers) counts_.answers += reads * million;
    }
    EXPECT_TRUE(upkeep_.is_due(now_));
    return upkeep_.judge(counts_, now_);
  }
  // Seconds until the state changes, at most `most`.
  int seconds_until_it_turns(std::uint64_t reads, std::uint64_t writes, bool answers = true, int most = 1000) {
    const bool before = !upkeep_.rests();
    for (int i = 1; i <= most; ++i) {
      if (second(reads, writes, answers) != before) return i;
    }
    return 0;
  }

  Upkeep upkeep_{{}};
  UpkeepCounts counts_;
  Upkeep::TimePoint now_{};
};

TEST_F(UpkeepTest, FollowsWhatIsReadMuch) {
  EXPECT_TRUE(second(0, 0));
  EXPECT_EQ(seconds_until_it_turns(100, 5), 0);
  EXPECT_EQ(seconds_until_it_turns(0, 0), 0) << "an idle store";
}

TEST_F(UpkeepTest, RestsWhileTooMuchIsWritten) {
  second(0, 0);
  EXPECT_EQ(seconds_until_it_turns(50, 50), 2) << "not for one window";
  EXPECT_EQ(seconds_until_it_turns(50, 50), 0);
  EXPECT_EQ(seconds_until_it_turns(50, 5), 0) << "too little is read for another trial";
  EXPECT_EQ(seconds_until_it_turns(100, 5), 2);
}

TEST_F(UpkeepTest, OneWindowDoesNotDecide) {
  second(0, 0);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(second(50, 50));
    EXPECT_TRUE(second(100, 5));
  }
}

TEST_F(UpkeepTest, FewWritesDoNotMatter) {
  second(0, 0);
  counts_.changes += 50;
  EXPECT_EQ(seconds_until_it_turns(0, 0), 0);
  seconds_until_it_turns(0, 20);
  ASSERT_TRUE(upkeep_.rests());
  EXPECT_EQ(seconds_until_it_turns(0, 0), 5) << "when nothing is written it follows again, after the pause";
}

// The device answers nothing of what is read, as batches are small or items are large.
TEST_F(UpkeepTest, TrialsThatDoNotPayBecomeRarer) {
  second(0, 0);
  std::vector<int> pauses;
  for (int i = 0; i < 10; ++i) {
    seconds_until_it_turns(100, 5, false);
    ASSERT_TRUE(upkeep_.rests());
    pauses.push_back(seconds_until_it_turns(100, 5, false));
    second(100, 5, false);  // begins to count
  }
  EXPECT_EQ(pauses, (std::vector<int>{5, 10, 20, 40, 80, 160, 300, 300, 300, 300}));
  EXPECT_EQ(seconds_until_it_turns(100, 5, true, 400), 0) << "now it answers";
  seconds_until_it_turns(100, 50);
  ASSERT_TRUE(upkeep_.rests());
  EXPECT_EQ(seconds_until_it_turns(100, 5), 5) << "after a trial that lasted";
}

TEST_F(UpkeepTest, CountersThatAreResetTellNothing) {
  second(0, 0);
  second(50, 50);
  counts_ = {};
  EXPECT_TRUE(second(0, 0));
  EXPECT_TRUE(second(50, 50));
  EXPECT_FALSE(second(50, 50));
}

// Each time before a window has ended: the replica is uploaded again, and again.
TEST_F(UpkeepTest, RestsWhereItsLogOverflows) {
  second(0, 0);
  EXPECT_TRUE(second(100, 5));
  ++counts_.overflows;
  upkeep_.forget();
  EXPECT_TRUE(second(0, 0));
  ++counts_.overflows;
  upkeep_.forget();
  EXPECT_FALSE(second(0, 0));
}

TEST_F(UpkeepTest, OneOverflowDoesNotDecide) {
  second(0, 0);
  for (int i = 0; i < 5; ++i) {
    ++counts_.overflows;
    upkeep_.forget();
    EXPECT_TRUE(second(0, 0));
    EXPECT_TRUE(second(100, 5));
  }
}

TEST_F(UpkeepTest, WhatHappensWhileItIsNotCurrentTellsNothing) {
  second(0, 0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(second(50, 50));
    upkeep_.forget();
    EXPECT_TRUE(second(50, 50));
  }
}

}  // namespace
}  // namespace tandem
