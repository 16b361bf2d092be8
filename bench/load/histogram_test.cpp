#include "bench/load/histogram.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "bench/workload/random.hpp"

namespace tandem::load {
namespace {

constexpr double fractions[] = {0.0001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0};

std::uint64_t exact_quantile(const std::vector<std::uint64_t>& sorted, double fraction) {
  return sorted[static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(sorted.size()))) - 1];
}

TEST(LoadHistogram, QuantilesAreAtMostOnePercentAboveTheExactOnes) {
  Histogram histogram;
  std::vector<std::uint64_t> values;
  workload::Random random(3);
  for (int i = 0; i < 100'000; ++i) {
    values.push_back(random.next() >> random.below(64));
    histogram.add(values.back());
  }
  std::sort(values.begin(), values.end());
  EXPECT_EQ(histogram.total(), values.size());
  EXPECT_EQ(histogram.min(), values.front());
  EXPECT_EQ(histogram.max(), values.back());
  for (const double fraction : fractions) {
    const std::uint64_t exact = exact_quantile(values, fraction);
    EXPECT_GE(histogram.quantile(fraction), exact) << fraction;
    EXPECT_LE(static_cast<double>(histogram.quantile(fraction)), static_cast<double>(exact) * 1.008) << fraction;
  }
}

TEST(LoadHistogram, SmallValuesAreExactAndCountsAdd) {
  Histogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), 0U);
  EXPECT_EQ(histogram.min(), 0U);
  histogram.add(3, 99);
  histogram.add(200);
  EXPECT_EQ(histogram.quantile(0.99), 3U);
  EXPECT_EQ(histogram.quantile(0.991), 200U);
  EXPECT_DOUBLE_EQ(histogram.mean(), (3 * 99 + 200) / 100.0);
}

TEST(LoadHistogram, BucketsTouchAndHoldTheirLastValue) {
  for (std::size_t i = 1; i < Histogram::bucket_count; ++i) {
    const std::uint64_t last = Histogram::last_of(i - 1);
    if (last == UINT64_MAX) break;
    ASSERT_EQ(Histogram::index_of(last), i - 1);
    ASSERT_EQ(Histogram::index_of(last + 1), i);
  }
  EXPECT_LT(Histogram::index_of(UINT64_MAX), Histogram::bucket_count);
}

TEST(LoadHistogram, MergedIsTheSameAsTogether) {
  Histogram a, b, both;
  workload::Random random(5);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t value = random.below(1'000'000'000);
    (i % 3 == 0 ? a : b).add(value, 2);
    both.add(value, 2);
  }
  a.merge(b);
  EXPECT_EQ(a.total(), both.total());
  EXPECT_EQ(a.min(), both.min());
  EXPECT_EQ(a.max(), both.max());
  for (const double fraction : fractions) EXPECT_EQ(a.quantile(fraction), both.quantile(fraction));
}

}  // namespace
}  // namespace tandem::load
