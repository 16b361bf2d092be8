#include "bench/compare/rate_search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bench/workload/random.hpp"

namespace tandem::bench {
namespace {

// A server that is within the limit up to `capacity`.
Trial step(double rate, double capacity) { return {rate, rate <= capacity ? 500.0 : 50'000.0, ""}; }

RateSearchOptions options_for_test() {
  RateSearchOptions options;
  options.tolerance = 0.02;
  return options;
}

TEST(RateSearch, FindsTheCapacityFromAnyStart) {
  for (const double capacity : {11.0, 1'000.0, 77'777.0, 5'000'000.0}) {
    for (const double start : {1.0, 10.0, 900.0, 70'000.0, 2e9}) {
      RateSearchOptions options = options_for_test();
      options.start_rate = start;
      const RateSearchResult result = find_highest_rate(options, [&](double rate) { return step(rate, capacity); });
      EXPECT_EQ(result.end, SearchEnd::found);
      EXPECT_LE(result.highest_rate, capacity);
      EXPECT_GT(result.lowest_failed, capacity);
      EXPECT_LE(result.lowest_failed, result.highest_rate * 1.02 + 1e-9);
      // It was confirmed: the last decision was about it.
      EXPECT_EQ(result.trials.back().rate, result.highest_rate);
    }
  }
}

TEST(RateSearch, SaysWhenNothingPasses) {
  const RateSearchResult result = find_highest_rate(options_for_test(), [](double rate) { return step(rate, 5); });
  EXPECT_EQ(result.end, SearchEnd::none_passed);
  EXPECT_EQ(result.highest_rate, 0);
  EXPECT_EQ(result.lowest_failed, 10);
}

TEST(RateSearch, SaysWhenEverythingPasses) {
  RateSearchOptions options = options_for_test();
  options.rate_max = 123'456;
  const RateSearchResult result = find_highest_rate(options, [](double rate) { return step(rate, 1e12); });
  EXPECT_EQ(result.end, SearchEnd::rate_max);
  EXPECT_EQ(result.highest_rate, 123'456);
  EXPECT_EQ(result.lowest_failed, 0);
}

TEST(RateSearch, OneBadRunOfThreeDoesNotDecide) {
  int runs = 0;
  const auto measure = [&](double rate) {
    Trial trial = step(rate, 40'000);
    if (++runs % 3 == 1) trial.latency_us = 1e6;  // the machine was interrupted
    return trial;
  };
  const RateSearchResult result = find_highest_rate(options_for_test(), measure);
  EXPECT_EQ(result.end, SearchEnd::found);
  EXPECT_NEAR(result.highest_rate, 40'000, 0.02 * 40'000);
}

TEST(RateSearch, OneLuckyDecisionIsTakenBack) {
  // The first two runs above the capacity pass by luck, whatever the rate.
  int lucky = 2;
  const auto measure = [&](double rate) {
    Trial trial = step(rate, 40'000);
    if (trial.latency_us > 1000 && lucky > 0) {
      --lucky;
      trial.latency_us = 10;
    }
    return trial;
  };
  const RateSearchResult result = find_highest_rate(options_for_test(), measure);
  EXPECT_EQ(result.end, SearchEnd::found);
  EXPECT_LE(result.highest_rate, 40'000);
  EXPECT_GE(result.highest_rate, 40'000 / 1.05);
}

TEST(RateSearch, HoldsAgainstNoise) {
  // Runs fail at random: certainly far above the capacity, rarely far below it.
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    workload::Random random(seed);
    const auto measure = [&](double rate) {
      const double odds = 1 / (1 + std::exp(-40 * std::log(rate / 30'000)));
      return Trial{rate, random.unit() < odds ? 5000.0 : 100.0, ""};
    };
    const RateSearchResult result = find_highest_rate(options_for_test(), measure);
    EXPECT_EQ(result.end, SearchEnd::found) << seed;
    EXPECT_NEAR(result.highest_rate, 30'000, 0.2 * 30'000) << seed;
    EXPECT_LT(result.trials.size(), 150U) << seed;
  }
}

TEST(RateSearch, VoidRunsAreRepeated) {
  int runs = 0;
  const auto measure = [&](double rate) {
    Trial trial = step(rate, 40'000);
    if (++runs % 2 == 0) trial = {rate, 0, "late"};
    return trial;
  };
  const RateSearchResult result = find_highest_rate(options_for_test(), measure);
  EXPECT_EQ(result.end, SearchEnd::found);
  EXPECT_NEAR(result.highest_rate, 40'000, 0.02 * 40'000);
  EXPECT_TRUE(std::ranges::any_of(result.trials, [](const Trial& trial) { return trial.void_reason == "late"; }));
}

TEST(RateSearch, AGeneratorTooSlowIsNotTheServersLimit) {
  const auto measure = [&](double rate) { return rate > 25'000 ? Trial{rate, 10, "late"} : Trial{rate, 100, ""}; };
  const RateSearchResult result = find_highest_rate(options_for_test(), measure);
  EXPECT_EQ(result.end, SearchEnd::generator);
  EXPECT_NEAR(result.highest_rate, 25'000, 0.02 * 25'000);
}

TEST(RateSearch, RefusesSenselessOptions) {
  const auto measure = [](double rate) { return step(rate, 100); };
  RateSearchOptions options;
  options.trials = 2;
  EXPECT_THROW(find_highest_rate(options, measure), std::invalid_argument);
  options = {};
  options.tolerance = 0;
  EXPECT_THROW(find_highest_rate(options, measure), std::invalid_argument);
  options = {};
  options.rate_max = 1;
  EXPECT_THROW(find_highest_rate(options, measure), std::invalid_argument);
}

}  // namespace
}  // namespace tandem::bench
