#include "base/clock.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <limits>
#include <utility>

#include "base/platform.hpp"

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

constexpr std::int64_t ms = 1'000'000;

// System clocks that a test advances.
struct MovedTime final : TimeSource {
  MovedTime(std::int64_t monotonic_ms, std::int64_t unix_ms) : time{monotonic_ms * ms, unix_ms * ms} {}
  SystemTime now() const noexcept override { return time; }
  void pass(std::int64_t passed_ms) {
    time.monotonic_ns += passed_ms * ms;
    time.unix_ns += passed_ms * ms;
  }
  SystemTime time;
};

// A store that is reopened again and again, and the times to live of an item in it.
struct ClockPhases : testing::Test {
  static constexpr std::int64_t tick_ms = 250;
  // Lifetime of an item with a time to live of `ttl_s` when each process runs for run_ms, ends (its last save is at the
  // last tick if `killed`, else at its end), and the next one starts after away_ms.
  static std::int64_t lifetime_ms(MovedTime& system, std::int64_t ttl_s, std::int64_t run_ms, std::int64_t away_ms,
                                  bool killed) {
    std::int64_t lived_ms = 0;
    StoreTime saved = Clock(system).moment();
    std::uint32_t expiry_s = 0;
    for (;;) {
      Clock clock(system);
      clock.resume(saved);
      if (expiry_s == 0) expiry_s = clock.expiry_s(ttl_s);
      for (std::int64_t left_ms = run_ms;;) {
        clock.tick();
        saved = clock.moment();
        if (clock.now_s() >= expiry_s) return lived_ms;
        if (left_ms == 0) break;
        const std::int64_t second_ms = (clock.until_next_s().count() + ms - 1) / ms;
        const std::int64_t step_ms = std::min({tick_ms, second_ms, left_ms});
        system.pass(step_ms);
        lived_ms += step_ms;
        left_ms -= step_ms;
        if (left_ms == 0 && killed) break;
      }
      system.pass(away_ms);
      lived_ms += away_ms;
    }
  }
};

TEST_F(ClockPhases, ItemsLiveAsLongThroughAnyRestarts) {
  for (std::int64_t ttl_s : {2, 7, 30}) {
    for (std::int64_t wall_ms = 0; wall_ms < 1000; wall_ms += 90) {
      for (const auto& [run_ms, away_ms] : {std::pair{990, 20}, {20, 990}, {1, 1}, {130, 7}, {700, 1400}, {4000, 3}}) {
        for (const bool killed : {false, true}) {
          MovedTime system(5'000'000, 1'700'000'000'000 + wall_ms);
          const std::int64_t lived_ms = lifetime_ms(system, ttl_s, run_ms, away_ms, killed);
          const std::int64_t late_ms = away_ms;  // no process can be asked for it sooner
          EXPECT_GE(lived_ms, (ttl_s - 1) * 1000) << wall_ms << " " << run_ms << " " << away_ms << " " << killed;
          EXPECT_LE(lived_ms, ttl_s * 1000 + late_ms) << wall_ms << " " << run_ms << " " << away_ms << " " << killed;
        }
      }
    }
  }
}

TEST_F(ClockPhases, NothingIsGainedOrLostByRestarts) {
  MovedTime system(5'000'777, 1'700'000'000'123);
  StoreTime saved = Clock(system).moment();
  const std::int64_t begin_ns = saved.store_ns;
  for (int i = 0; i < 10'000; ++i) {
    system.pass(i % 997);
    Clock clock(system);
    clock.resume(saved);
    system.pass(i % 3);
    saved = clock.moment();
  }
  EXPECT_EQ(saved.store_ns - begin_ns, system.time.unix_ns - 1'700'000'000'123 * ms);
}

TEST_F(ClockPhases, AWallClockThatWentBackStopsNothingAndBringsNothingBack) {
  MovedTime system(5'000'000, 1'700'000'000'000);
  Clock before(system);
  system.pass(12'300);
  const StoreTime saved = before.moment();
  system.time.unix_ns -= 86'400'000 * ms;
  Clock clock(system);
  clock.resume(saved);
  EXPECT_EQ(clock.moment().store_ns, saved.store_ns);
  system.pass(2000);
  clock.tick();
  EXPECT_EQ(clock.now_s(), 2u + 14);
  EXPECT_EQ(clock.uptime_s(), 2u);
}

TEST_F(ClockPhases, WildMomentsAreBounded) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  MovedTime system(5'000'000, 1'700'000'000'000);
  for (const StoreTime& saved : {StoreTime{most, most}, {most, 0}, {0, most}, {0, 0}, {1, 1}}) {
    Clock clock(system);
    clock.resume(saved);
    EXPECT_GE(clock.now_s(), 2u);
    EXPECT_LE(clock.now_s(), std::uint32_t{1} << 31);
  }
}

TEST(Clock, SaysWhenItsSecondEnds) {
  MovedTime system(5'000'000, 1'700'000'000'000);
  Clock clock(system);
  system.pass(240);
  EXPECT_EQ(clock.until_next_s(), std::chrono::milliseconds(760));
  system.pass(760);
  EXPECT_EQ(clock.until_next_s(), std::chrono::seconds(1));
  clock.tick();
  EXPECT_EQ(clock.now_s(), 3u);
}

// System clocks that let other threads act between reading and use, as where a thread is preempted.
struct InterruptedTime final : TimeSource {
  SystemTime now() const noexcept override {
    ++readings;
    const SystemTime read{monotonic_ms * ms, 1'700'000'000'000 * ms + monotonic_ms * ms};
    if (const auto other = std::exchange(meanwhile, nullptr)) other();
    return read;
  }
  mutable std::function<void()> meanwhile;
  mutable int readings = 0;
  std::int64_t monotonic_ms = 5'000'000;
};

TEST(Clock, IsKeptByWhoeverFindsTheSecondOver) {
  InterruptedTime system;
  Clock clock(system);
  const int readings = system.readings;
  system.monotonic_ms += 7000;
  clock.keep(0);
  EXPECT_EQ(clock.now_s(), 2u);
  EXPECT_EQ(system.readings, readings) << "the second is not over by the processor's ticks";
  clock.keep(std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(clock.now_s(), 9u);
}

TEST(Clock, IsNotKeptLate) {
  Clock clock;
  while (clock.moment().store_ns < 3 * 1000 * ms) {
  }
  clock.keep(cycles_now());
  EXPECT_EQ(clock.now_s(), 3u);
}

TEST(Clock, DoesNotGoBackWhereAThreadIsLate) {
  InterruptedTime system;
  Clock clock(system);
  system.meanwhile = [&] {
    system.monotonic_ms += 3000;
    clock.tick();
  };
  clock.tick();
  EXPECT_EQ(clock.now_s(), 5u);
  const std::int64_t unix_s = clock.unix_s();
  clock.tick();
  EXPECT_EQ(clock.unix_s(), unix_s);
}

// A thread that is preempted between the two readings sees them apart.
TEST(TimeSource, ReadsTheTwoClocksAtOneMoment) {
  const auto offset = [](const SystemTime& t) { return t.unix_ns - t.monotonic_ns; };
  const std::int64_t first = offset(TimeSource::of_the_system().now());
  std::int64_t worst_ns = 0;
  for (int i = 0; i < 20'000; ++i) {
    worst_ns = std::max(worst_ns, std::abs(offset(TimeSource::of_the_system().now()) - first));
  }
  EXPECT_LT(worst_ns, 5 * ms);
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
