// Threads beside the controller: what they report, and what they are told.
#include "planner/steering.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "base/ticks.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

// Threads that all do as they are told, for so many ns a query.
class SteeringTest : public testing::Test {
 protected:
  struct Costs {
    double cpu = 100, beside = 100, gpu = 50, set_share = 0;
  };

  // Some milliseconds of this load.
  Steered run(const Costs& costs, int milliseconds) {
    Steered steered;
    for (int i = 0; i < milliseconds; ++i) {
      for (const auto& board : boards_) {
        const std::uint8_t option = steering_.option_of(board->number);
        const double ns = option == Steering::device        ? costs.gpu
                          : option == Steering::host_beside ? costs.beside
                                                            : costs.cpu;
        const double queries = 1e6 / ns;
        board->queries[option].add(static_cast<std::uint64_t>(queries));
        board->ticks[option].add(static_cast<std::uint64_t>(1e6 / ns_per_tick()));
        board->sets.add(static_cast<std::uint64_t>(queries * costs.set_share));
        board->bytes.add(static_cast<std::uint64_t>(queries * 64));
      }
      now_ += 1ms;
      steered = steering_.steer({.round_trip_ns = round_trip_ns_, .is_current = is_current_, .is_settled = true}, now_);
      is_current_ = steered.keeps_up;
    }
    return steered;
  }
  void join(unsigned threads) {
    for (unsigned i = 0; i < threads; ++i) boards_.push_back(steering_.join());
  }

  Steering steering_{UpkeepLevel::items};
  std::vector<std::shared_ptr<PlanBoard>> boards_;
  std::chrono::steady_clock::time_point now_{1s};
  bool is_current_ = true;
  double round_trip_ns_ = 0;
};

TEST_F(SteeringTest, BatchesThatTheHostEndsBeforeALaunchAreItsOwn) {
  join(4);
  const std::uint32_t unmeasured = steering_.queries_min();
  EXPECT_GT(unmeasured, 100u);
  run({}, 30);
  EXPECT_EQ(steering_.queries_min(), unmeasured) << "of a launch nothing is known";
  round_trip_ns_ = 20'000;
  run({}, 2);
  EXPECT_NEAR(steering_.queries_min(), 200, 2);
  round_trip_ns_ = 2'800'000;  // the thread that measures had lost its processor for a time slice
  run({}, 2);
  EXPECT_EQ(steering_.queries_min(), 1024u);
}

TEST_F(SteeringTest, ChoosesByWhatThreadsReport) {
  join(4);
  EXPECT_EQ(steering_.option_of(0), Steering::host_alone);
  EXPECT_TRUE(run({}, 30).keeps_up);
  EXPECT_EQ(steering_.option_of(0), Steering::device);
  EXPECT_EQ(steering_.option_of(1), Steering::device);
  EXPECT_EQ(steering_.stats().choice.reason, PlanReason::measured);
  EXPECT_FALSE(run({.beside = 230, .gpu = 300, .set_share = 0.5}, 30).keeps_up);
  EXPECT_EQ(steering_.option_of(0), Steering::host_alone);
  EXPECT_EQ(steering_.stats().choice.reason, PlanReason::rests);
  EXPECT_NEAR(steering_.stats().set_share, 0.5, 0.01);
}

TEST_F(SteeringTest, HalvesHaveAsManyThreads) {
  join(7);
  const auto odd = [&] { return std::ranges::count_if(boards_, [](const auto& b) { return b->number % 2 == 1; }); };
  EXPECT_EQ(odd(), 3);
  std::erase_if(boards_, [](const auto& b) { return b->number % 2 == 1; });
  join(4);
  EXPECT_EQ(odd(), 4);
}

TEST_F(SteeringTest, AThreadThatLeavesTakesNothingBack) {
  join(3);
  run({}, 30);
  boards_.pop_back();
  run({}, 5);
  EXPECT_EQ(steering_.option_of(0), Steering::device);
  boards_.clear();
  // Without load it is asked rarely.
  Steered steered;
  for (int i = 0; i < 300; ++i) steered = steering_.steer({.is_current = true, .is_settled = true}, now_ += 1ms);
  EXPECT_GT(steered.again_in, 1ms);
  join(1);
  run({}, 30);
  EXPECT_EQ(steering_.option_of(0), Steering::device);
}

}  // namespace
}  // namespace tandem
