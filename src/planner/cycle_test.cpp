#include "planner/cycle.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

namespace tandem {
namespace {

using std::chrono::microseconds;

// Mega-KV 5.2: one Tesla K40c with 95 % GET.
constexpr CycleModel k40c = {.search = {5.9, 22'100}, .change = {6.2, 144'500}, .get_share = 0.95, .change_cycles = 2};

CycleModel with_cycles(unsigned n) {
  CycleModel model = k40c;
  model.change_cycles = n;
  return model;
}

constexpr double us = 1e3;

std::string why_not(const CycleModel& model, double rate, microseconds latency, microseconds cycle_max) {
  try {
    static_cast<void>(choose_cycle(model, rate, latency, cycle_max));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

// Section 8.2, text: 94.4 us with the delayed scheduling, 166.6 us without.
TEST(Cycle, HasThePapersLowerBounds) {
  EXPECT_NEAR(cycle_min_ns(k40c, 0).value() / us, 94.4, 0.06);
  EXPECT_NEAR(cycle_min_ns(with_cycles(1), 0).value() / us, 166.6, 0.01);
  EXPECT_EQ(rate_max(k40c, 94.3 * us), 0);
  EXPECT_GT(rate_max(k40c, 94.4 * us), 0);
  EXPECT_EQ(rate_max(with_cycles(1), 166.5 * us), 0);
  EXPECT_GT(rate_max(with_cycles(1), 166.7 * us), 0);
}

// Section 5.2: "reduced by an average of 43.4 %".
TEST(Cycle, IsShorterByThePapersShareWhenChangesAreDelayed) {
  double sum = 0;
  unsigned count = 0;
  for (double rate = 0; rate < 0.165; rate += 0.005, ++count)
    sum += 1 - cycle_min_ns(k40c, rate).value() / cycle_min_ns(with_cycles(1), rate).value();
  EXPECT_NEAR(sum / count, 0.434, 0.0005);
}

// Section 5.2: "we get the minimum C with n = 2".
TEST(Cycle, IsLeastWithChangesEverySecondOne) {
  for (double rate = 0.01; rate < 0.16; rate += 0.01) {
    const double least = cycle_min_ns(with_cycles(2), rate).value();
    EXPECT_GT(cycle_min_ns(with_cycles(1), rate).value(), least) << rate;
    for (unsigned n = 3; n < 12; ++n) {
      const auto longer = cycle_min_ns(with_cycles(n), rate), shorter = cycle_min_ns(with_cycles(n - 1), rate);
      if (longer) {
        EXPECT_GT(*longer, shorter.value()) << rate << " " << n;
      }
    }
  }
}

// Section 8.2: better "by 17.8-68.4 %", the gains at the two ends of a range of C. The gain is larger for shorter C.
TEST(Cycle, ServesMoreWhenChangesAreDelayed) {
  const auto gain = [](double cycle_us) {
    return rate_max(k40c, cycle_us * us) / rate_max(with_cycles(1), cycle_us * us) - 1;
  };
  EXPECT_NEAR(gain(272.3), 0.684, 0.002);
  EXPECT_NEAR(gain(573), 0.178, 0.002);
  for (double c = 180; c < 1000; c += 20) EXPECT_GT(gain(c), gain(c + 20));
}

TEST(Cycle, BoundAndRateAreEachOthersInverse) {
  for (const unsigned n : {1u, 2u, 3u, 8u}) {
    const CycleModel model = with_cycles(n);
    double before = 0;
    for (double cycle = 200 * us; cycle < 5000 * us; cycle *= 1.3) {
      const double rate = rate_max(model, cycle);
      EXPECT_GT(rate, before);
      EXPECT_NEAR(cycle_min_ns(model, rate).value(), cycle, cycle * 1e-9);
      before = rate;
    }
  }
}

// Inequality 1, and C >= T_max for n = 1, computed from the lines themselves.
TEST(Cycle, BoundIsWhereAllThatIsBatchedIsJustDone) {
  for (const unsigned n : {1u, 2u, 5u}) {
    const CycleModel m = with_cycles(n);
    for (const double rate : {0.01, 0.05, 0.1}) {
      const double c = cycle_min_ns(m, rate).value();
      const double search = m.search.of(m.get_share * rate * c), change = m.change.of((1 - m.get_share) * rate * c * n);
      EXPECT_NEAR(n == 1 ? search + change : 2 * search + change, n == 1 ? c : 2 * c, c * 1e-9);
    }
  }
}

TEST(Cycle, NoneServesMoreThanTheGpuCan) {
  const double most = rate_max(k40c, 1e18);
  EXPECT_NEAR(most, 1 / (5.9 * 0.95 + 6.2 * 0.05), 1e-9);
  EXPECT_TRUE(cycle_min_ns(k40c, most * 0.999).has_value());
  EXPECT_FALSE(cycle_min_ns(k40c, most * 1.001).has_value());
  EXPECT_TRUE(std::isinf(rate_max({.search = {0, 10}, .change = {0, 10}}, 1000)));
}

TEST(Cycle, IsAThirdOfTheLatency) {
  EXPECT_EQ(choose_cycle(k40c, 0, microseconds(600), microseconds(5000)), microseconds(200));
  EXPECT_EQ(choose_cycle(k40c, 0.05, microseconds(602), microseconds(5000)), microseconds(200));
  EXPECT_EQ(choose_cycle(k40c, 0, microseconds(285), microseconds(5000)), microseconds(95));
  EXPECT_EQ(choose_cycle(k40c, 0, microseconds(100'000), microseconds(5000)), microseconds(5000));
}

TEST(Cycle, SaysWhatTheGpuNeeds) {
  const std::string idle = why_not(k40c, 0, microseconds(284), microseconds(5000));
  EXPECT_NE(idle.find("at least 95 us at any rate (95 % GET)"), std::string::npos) << idle;
  EXPECT_NE(idle.find("within 285 us"), std::string::npos) << idle;
  const double bound = std::ceil(cycle_min_ns(k40c, 0.1).value() / us);
  const std::string busy = why_not(k40c, 0.1, microseconds(600), microseconds(5000));
  EXPECT_NE(busy.find("at least " + std::to_string(static_cast<int>(bound)) + " us at 100 million"), std::string::npos)
      << busy;
  EXPECT_EQ(choose_cycle(k40c, 0.1, microseconds(3 * static_cast<int>(bound)), microseconds(5000)).count(), bound);
  const std::string never = why_not(k40c, 0.2, microseconds(600), microseconds(5000));
  EXPECT_NE(never.find("cannot serve 200 million"), std::string::npos) << never;
  EXPECT_NE(never.find("less than 169.1 million"), std::string::npos) << never;
  const std::string longer = why_not(k40c, 0.168, microseconds(60'000), microseconds(5000));
  EXPECT_NE(longer.find("at most 5000 us"), std::string::npos) << longer;
  EXPECT_NE(why_not({.search = {0, 0}, .change = {0, 0}}, 0, microseconds(2), microseconds(5000)), "");
}

TEST(Line, GoesThroughWhatIsOne) {
  std::array<LaunchSample, 5> samples{};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto x = static_cast<double>(100 * (i + 1));
    samples[i] = {x, k40c.search.of(x)};
  }
  const LaunchFit fit = fit_line(samples);
  EXPECT_NEAR(fit.line.query_ns, 5.9, 1e-9);
  EXPECT_NEAR(fit.line.launch_ns, 22'100, 1e-6);
  EXPECT_NEAR(fit.r2, 1, 1e-12);
}

TEST(Line, HasTheLeastSquares) {
  const std::array<LaunchSample, 4> samples = {{{1, 12}, {2, 11}, {3, 16}, {4, 17}}};
  const LaunchFit fit = fit_line(samples);
  EXPECT_NEAR(fit.line.query_ns, 2, 1e-12);
  EXPECT_NEAR(fit.line.launch_ns, 9, 1e-12);
  EXPECT_NEAR(fit.r2, 1 - 6.0 / 26, 1e-12);
}

TEST(Line, DoesNotFallAndDoesNotBeginBelowNothing) {
  const LaunchFit falling = fit_line(std::array<LaunchSample, 2>{{{1, 10}, {2, 8}}});
  EXPECT_EQ(falling.line.query_ns, 0);
  EXPECT_EQ(falling.line.launch_ns, 9);
  const LaunchFit below = fit_line(std::array<LaunchSample, 2>{{{1, 1}, {2, 10}}});
  EXPECT_EQ(below.line.query_ns, 9);
  EXPECT_EQ(below.line.launch_ns, 0);
}

}  // namespace
}  // namespace tandem
