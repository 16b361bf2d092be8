#include "observe/sampler.hpp"

#include <gtest/gtest.h>

#include <array>

namespace tandem {
namespace {

TEST(Sampler, TakesOneInMeanWhateverThePeriodOfTheTraffic) {
  Sampler sampler(7);
  // Events of a traffic that repeats every `period` events: each position in it is sampled equally often.
  for (const std::uint32_t period : {1u, 2u, 8u, 16u, 31u, 32u}) {
    std::array<std::uint32_t, 32> taken{};
    const std::uint32_t rounds = 200'000;
    for (std::uint32_t i = 0; i < rounds * period; ++i) taken[i % period] += sampler.next() ? 1u : 0u;
    for (std::uint32_t place = 0; place < period; ++place) {
      EXPECT_NEAR(static_cast<double>(taken[place]) * Sampler::mean / rounds, 1, 0.05) << period << ' ' << place;
    }
  }
}

TEST(Sampler, WhereItBeginsIsRandom) {
  std::array<std::uint32_t, Sampler::mean> first{};
  for (std::uint32_t seed = 0; seed < 16'000; ++seed) {
    Sampler sampler(seed * 2654435761u);
    std::uint32_t gap = 0;
    while (!sampler.next()) ++gap;
    ASSERT_LT(gap, Sampler::mean);
    ++first[gap];
  }
  for (const std::uint32_t count : first) EXPECT_NEAR(count, 1000, 250);
}

}  // namespace
}  // namespace tandem
