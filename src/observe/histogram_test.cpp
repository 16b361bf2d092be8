#include "observe/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace tandem {
namespace {

HistogramTotals totals_of(const Histogram& h) {
  HistogramTotals t;
  t.add(h);
  return t;
}

// The value at the rank that `share` of all values gives, as HistogramTotals::quantile() defines it.
std::uint64_t exact_quantile(std::vector<std::uint64_t> values, double share) {
  std::ranges::sort(values);
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

TEST(Histogram, BucketsFollowEachOtherWithoutGaps) {
  for (std::uint32_t b = 0; b < histogram::bucket_count; ++b) {
    const std::uint64_t low = histogram::lower_bound(b), high = histogram::lower_bound(b + 1) - 1;
    EXPECT_EQ(histogram::bucket_of(low), b);
    EXPECT_EQ(histogram::bucket_of(high), b);
    EXPECT_LE(histogram::middle(b) - static_cast<double>(low), histogram::error_max * static_cast<double>(low)) << b;
  }
  EXPECT_EQ(histogram::bucket_of(~std::uint64_t{0}), histogram::bucket_count - 1);
}

TEST(Histogram, QuantilesAreWithinTheErrorOfExactOnes) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> usual(9, 1.5);
  std::uniform_int_distribution<std::uint64_t> flat(0, 1 << 20);
  std::geometric_distribution<std::uint64_t> small(0.2);
  for (int kind = 0; kind < 4; ++kind) {
    const auto h = std::make_unique<Histogram>();
    std::vector<std::uint64_t> values(50'000);
    std::uint64_t sum = 0;
    for (std::uint64_t& v : values) {
      v = kind == 0   ? static_cast<std::uint64_t>(usual(random))
          : kind == 1 ? flat(random)
          : kind == 2 ? small(random)
                      : std::uint64_t{1} << flat(random) % 40;  // orders of magnitude
      h->record(v);
      sum += v;
    }
    const HistogramTotals t = totals_of(*h);
    EXPECT_EQ(t.count(), values.size());
    EXPECT_EQ(t.sum(), sum);
    EXPECT_EQ(t.max(), *std::ranges::max_element(values));
    for (const double share : {0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
      const auto exact = static_cast<double>(exact_quantile(values, share));
      EXPECT_NEAR(t.quantile(share), exact, histogram::error_max * exact) << kind << ' ' << share;
    }
  }
}

TEST(Histogram, AWeightCountsAsSoManyValues) {
  const auto one = std::make_unique<Histogram>();
  const auto many = std::make_unique<Histogram>();
  for (std::uint64_t v : {3u, 300u, 30'000u}) {
    one->record(v, 16);
    for (int i = 0; i < 16; ++i) many->record(v);
  }
  const HistogramTotals a = totals_of(*one), b = totals_of(*many);
  EXPECT_EQ(a.count(), b.count());
  EXPECT_EQ(a.sum(), b.sum());
  for (const double share : {0.1, 0.5, 0.9}) EXPECT_EQ(a.quantile(share), b.quantile(share));
}

TEST(Histogram, AnEmptyOneHasOnlyZeros) {
  const HistogramTotals t;
  EXPECT_EQ(t.count(), 0u);
  EXPECT_EQ(t.quantile(0.5), 0);
  EXPECT_EQ(t.max(), 0u);
  EXPECT_EQ(t.count_up_to(1e12), 0u);
}

TEST(Histogram, AResetForgetsWhatWasBefore) {
  const auto h = std::make_unique<Histogram>();
  h->record(1'000'000);
  const HistogramTotals before = totals_of(*h);
  HistogramTotals since = before;
  since.subtract(before);
  EXPECT_EQ(since.count(), 0u);
  EXPECT_EQ(since.max(), 0u);
  h->record(100, 3);
  since = totals_of(*h);
  since.subtract(before);
  EXPECT_EQ(since.count(), 3u);
  EXPECT_EQ(since.sum(), 300u);
  EXPECT_NEAR(since.quantile(0.99), 100, 100 * histogram::error_max);
  EXPECT_GE(since.max(), 100u);
  EXPECT_LE(since.max(), 100 * (1 + 2 * histogram::error_max));
}

TEST(Histogram, SumsOverWorkersAreTheValuesTogether) {
  const auto a = std::make_unique<Histogram>();
  const auto b = std::make_unique<Histogram>();
  const auto both = std::make_unique<Histogram>();
  for (std::uint64_t v = 1; v < 10'000; v += 7) {
    (v % 2 != 0 ? a : b)->record(v * v);
    both->record(v * v);
  }
  HistogramTotals t = totals_of(*a);
  t.add(*b);
  EXPECT_EQ(t.count(), totals_of(*both).count());
  EXPECT_EQ(t.max(), totals_of(*both).max());
  for (const double share : {0.1, 0.5, 0.99}) EXPECT_EQ(t.quantile(share), totals_of(*both).quantile(share));
}

TEST(Histogram, CountsUpToAValue) {
  const auto h = std::make_unique<Histogram>();
  for (std::uint64_t v = 1; v <= 1000; ++v) h->record(v);
  const HistogramTotals t = totals_of(*h);
  std::uint64_t last = 0;
  for (const double limit : {1.0, 10.0, 100.0, 500.0, 2000.0}) {
    const std::uint64_t count = t.count_up_to(limit);
    EXPECT_NEAR(static_cast<double>(count), std::min(limit, 1000.0), limit * 2 * histogram::error_max);
    EXPECT_GE(count, last);
    last = count;
  }
  EXPECT_EQ(last, 1000u);
}

TEST(Histogram, ReadersMeetNoTornCounts) {
  const auto h = std::make_unique<Histogram>();
  std::thread writer([&] {
    for (std::uint64_t i = 0; i < 200'000; ++i) h->record(i % 4096);
  });
  std::uint64_t last = 0;
  for (int i = 0; i < 50; ++i) {
    const std::uint64_t count = totals_of(*h).count();
    EXPECT_GE(count, last);
    last = count;
  }
  writer.join();
  EXPECT_EQ(totals_of(*h).count(), 200'000u);
}

}  // namespace
}  // namespace tandem
