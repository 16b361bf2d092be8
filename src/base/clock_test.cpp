#include "base/clock.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <limits>

namespace tandem {
namespace {

constexpr std::uint32_t now_s = 1000;

struct ClockTest : testing::Test {
  ClockTest() { clock.freeze_for_test(now_s); }
  Clock clock;
};

TEST(Clock, StartsAfterTheSpecialSeconds) {
  const Clock clock;
  EXPECT_GT(clock.now_s(), Clock::already_expired);
  EXPECT_LE(clock.uptime_s(), 1u);
}

TEST(Clock, FollowsTheSystem) {
  Clock clock;
  const std::int64_t before = std::time(nullptr);
  clock.tick();
  EXPECT_GE(clock.unix_s(), before);
  EXPECT_LE(clock.unix_s(), std::time(nullptr));
}

TEST_F(ClockTest, ZeroIsNever) { EXPECT_EQ(clock.expiry_s(0), Clock::never); }

TEST_F(ClockTest, NegativeIsAlreadyOver) {
  EXPECT_EQ(clock.expiry_s(-1), Clock::already_expired);
  EXPECT_EQ(clock.expiry_s(std::numeric_limits<std::int64_t>::min()), Clock::already_expired);
}

TEST_F(ClockTest, UpToThirtyDaysIsRelative) {
  EXPECT_EQ(clock.expiry_s(1), now_s + 1);
  EXPECT_EQ(clock.expiry_s(Clock::relative_max_s), now_s + Clock::relative_max_s);
}

TEST_F(ClockTest, AboveThirtyDaysIsUnixTime) {
  EXPECT_EQ(clock.expiry_s(Clock::relative_max_s + 1), Clock::already_expired);  // in 1970
  EXPECT_EQ(clock.expiry_s(clock.unix_s() + 5), now_s + 5);
  EXPECT_EQ(clock.expiry_s(clock.unix_s()), now_s);
  EXPECT_EQ(clock.expiry_s(clock.unix_s() - 5), now_s - 5);
  EXPECT_EQ(clock.expiry_s(clock.unix_s() - 5000), Clock::already_expired);  // before the store was opened
}

TEST_F(ClockTest, FarFutureSaturates) {
  EXPECT_EQ(clock.expiry_s(std::numeric_limits<std::int64_t>::max()), std::numeric_limits<std::uint32_t>::max());
}

TEST_F(ClockTest, FrozenClockIgnoresTicks) {
  clock.tick();
  EXPECT_EQ(clock.now_s(), now_s);
}

TEST(Clock, StandsAndIsMovedForDebugging) {
  Clock clock;
  const std::uint32_t start_s = clock.now_s();
  clock.advance(1000);
  EXPECT_GE(clock.now_s(), start_s + 1000);
  clock.pause();
  const std::uint32_t paused_s = clock.now_s();
  clock.tick();
  EXPECT_EQ(clock.now_s(), paused_s);
  clock.advance(-500);
  EXPECT_EQ(clock.now_s(), paused_s - 500);
  clock.advance(-1'000'000);
  EXPECT_EQ(clock.now_s(), 2u) << "no time before the start";
  clock.resume();
  clock.advance(1'000'000);
  EXPECT_GE(clock.now_s(), start_s + 500);
  EXPECT_LT(clock.now_s(), start_s + 600);
}

}  // namespace
}  // namespace tandem
