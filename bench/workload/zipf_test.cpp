#include "bench/workload/zipf.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace tandem::workload {
namespace {

// The sum of i^-theta for first <= i <= last: term by term, or, where that would take too long, by the integral with
// Euler and Maclaurin's correction (far out exact to many digits).
double power_sum(std::uint64_t first, std::uint64_t last, double theta) {
  constexpr std::uint64_t exact_up_to = 1'000'000;
  double sum = 0;
  const std::uint64_t stop = std::min(last, std::max(first, exact_up_to));
  for (std::uint64_t i = stop; i >= first; --i) sum += std::pow(static_cast<double>(i), -theta);
  if (stop == last) return sum;
  const auto a = static_cast<double>(stop), b = static_cast<double>(last);
  const double integral =
      theta == 1 ? std::log(b / a) : (std::pow(b, 1 - theta) - std::pow(a, 1 - theta)) / (1 - theta);
  return sum + integral + (std::pow(b, -theta) - std::pow(a, -theta)) / 2;
}

struct Fit {
  double chi_square, limit;
  int groups;
  bool is_good() const { return chi_square < limit; }
};

// Chi-square over ranks: the first 64 alone, then groups that grow by half, merged until each expects 20 draws. The
// limit is what 1 of 10^6 correct generators would exceed (Wilson and Hilferty's approximation).
template <class Draw>
Fit fit_to_exact(std::uint64_t n, double theta, Draw draw) {
  constexpr std::uint64_t draws = 200'000;
  std::vector<std::uint64_t> first_of;  // of each group, ranks from 1
  for (std::uint64_t r = 1; r <= n; r = r < 64 ? r + 1 : r + r / 2) first_of.push_back(r);
  const double total = power_sum(1, n, theta);
  std::vector<double> expected;
  for (std::size_t g = 0; g < first_of.size(); ++g) {
    const std::uint64_t last = g + 1 < first_of.size() ? first_of[g + 1] - 1 : n;
    expected.push_back(power_sum(first_of[g], last, theta) / total * static_cast<double>(draws));
  }
  std::vector<double> seen(first_of.size());
  for (std::uint64_t i = 0; i < draws; ++i) {
    const std::uint64_t rank = draw() + 1;
    if (rank > n) return {HUGE_VAL, 0, 0};
    ++seen[static_cast<std::size_t>(std::ranges::upper_bound(first_of, rank) - first_of.begin() - 1)];
  }
  double chi_square = 0, seen_together = 0, expected_together = 0;
  int groups = 0;
  for (std::size_t g = 0; g < expected.size(); ++g) {
    seen_together += seen[g];
    expected_together += expected[g];
    if (expected_together < 20 && g + 1 < expected.size()) continue;
    // The last group may expect almost nothing: one draw there is no fault.
    chi_square +=
        (seen_together - expected_together) * (seen_together - expected_together) / std::max(expected_together, 1.0);
    ++groups;
    seen_together = expected_together = 0;
  }
  const double freedom = std::max(groups - 1, 1), spread = 2 / (9 * freedom);
  return {chi_square, freedom * std::pow(1 - spread + 4.75 * std::sqrt(spread), 3), groups};
}

void expect_exact(std::uint64_t n, double theta) {
  const Zipf zipf(n, theta);
  Random random(n + static_cast<std::uint64_t>(theta * 1000));
  const Fit fit = fit_to_exact(n, theta, [&] { return zipf.draw(random); });
  EXPECT_LT(fit.chi_square, fit.limit) << "n " << n << ", theta " << theta << ", " << fit.groups << " groups";
}

TEST(Zipf, IsTheExactDistribution) {
  for (const double theta : {0.0, 0.5, 0.99, 1.0, 1.2, 2.5}) {
    for (const std::uint64_t n : {1U, 2U, 3U, 10U, 1000U, 1'000'000U}) expect_exact(n, theta);
  }
}

// The tail has its exact share, for more keys than can be summed term by term.
TEST(Zipf, IsTheExactDistributionOverManyKeys) {
  for (const double theta : {0.0, 0.5, 0.99, 1.0, 1.2}) expect_exact(std::uint64_t{1} << 40, theta);
}

// Checks that the test above can fail: theta 1.01 for 0.99, a tail cut off at nine tenths, ranks that start one late.
TEST(Zipf, SmallErrorsAreSeen) {
  Random random(1);
  constexpr std::uint64_t n = 1000;
  const Zipf steeper(n, 1.01), shorter(n * 9 / 10, 0.99), right(n, 0.99);
  EXPECT_TRUE(fit_to_exact(n, 0.99, [&] { return right.draw(random); }).is_good());
  EXPECT_FALSE(fit_to_exact(n, 0.99, [&] { return steeper.draw(random); }).is_good());
  EXPECT_FALSE(fit_to_exact(n, 0.99, [&] { return shorter.draw(random); }).is_good());
  EXPECT_FALSE(fit_to_exact(n, 0.99, [&] { return (right.draw(random) + 1) % n; }).is_good());
}

TEST(Zipf, ThetaAroundOneIsContinuous) {
  for (const double theta : {1 - 1e-12, 1.0, 1 + 1e-12, 1 + 1e-7}) {
    const Zipf zipf(100'000, theta);
    Random random(7);
    double first = 0;
    for (int i = 0; i < 100'000; ++i) first += zipf.draw(random) == 0;
    EXPECT_NEAR(first / 100'000, 1 / power_sum(1, 100'000, 1), 0.004) << theta;
  }
}

TEST(Zipf, SameSeedSameRanks) {
  const Zipf zipf(1'000'000, 0.99);
  Random a(5), b(5), c(6);
  int same = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t rank = zipf.draw(a);
    ASSERT_EQ(rank, zipf.draw(b));
    same += rank == zipf.draw(c);
  }
  EXPECT_LT(same, 200);
}

TEST(Zipf, RefusesWhatIsNoDistribution) {
  EXPECT_THROW(Zipf(0, 1), std::invalid_argument);
  EXPECT_THROW(Zipf(10, -0.5), std::invalid_argument);
  EXPECT_THROW(Zipf(10, std::nan("")), std::invalid_argument);
  EXPECT_THROW(Zipf(10, HUGE_VAL), std::invalid_argument);
}

TEST(Random, IsUniformAndInItsBounds) {
  Random random(3);
  std::vector<int> counts(10);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    ++counts[random.below(10)];
    const double u = random.unit();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
  // SplitMix64's own first numbers: the constants are the published ones.
  EXPECT_EQ(mix64(0x9e3779b97f4a7c15U), 0xe220a8397b1dcdafU);
}

}  // namespace
}  // namespace tandem::workload
