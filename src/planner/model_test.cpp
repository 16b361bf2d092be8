// The profiler, the coefficients, the model and the mix of two plans.
#include "planner/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "planner/mix.hpp"
#include "planner/profiler.hpp"

namespace tandem {
namespace {

// Three sizes and four shares; two plans, whose demands follow no line.
Coefficients measured() {
  Coefficients c;
  c.processor = "p";
  c.gpu = "g";
  c.threads = 8;
  c.cache_bytes = 1e6;
  c.set_shares = {0, 0.1, 0.5, 1};
  for (const double bytes : {40.0, 100.0, 900.0}) {
    Coefficients::Size& size = c.sizes.emplace_back();
    size.keys = 1e6;
    size.store_bytes = 1e6 * bytes;
    for (const double share : c.set_shares) size.query_bytes.push_back(bytes * (1 + share));
  }
  for (const char* const plan : {"cpu", "frames"}) {
    Coefficients::PlanCosts& costs = c.plans.emplace_back();
    costs.candidate = {plan, 8, 1024, costs.candidate.level};
    if (costs.candidate.plan == "frames") costs.candidate.level = UpkeepLevel::items;
    costs.points.resize(c.point_count());
    for (std::size_t size = 0; size < c.sizes.size(); ++size) {
      for (std::size_t share = 0; share < c.set_shares.size(); ++share) {
        for (std::size_t skew = 0; skew < Coefficients::skews; ++skew) {
          const auto k = static_cast<double>(size + 1), s = c.set_shares[share];
          costs.points[c.point_of(size, share, skew)] = {
              10 * k + 90 * s * s - (skew == 0 ? 0 : 2), s, 1 + s, 20, k, 64};
        }
      }
    }
  }
  c.capacity = {1, 1, 1, 100, 10, 1000};
  return c;
}

Profile load_of(const Coefficients& c, std::size_t size, double set_share, double theta = 0) {
  return {.set_share = set_share,
          .query_bytes = c.sizes[size].query_bytes[0] * (1 + set_share),
          .theta = theta,
          .keys = c.sizes[size].keys,
          .store_bytes = c.sizes[size].store_bytes};
}

double worker(const std::optional<Demand>& d) { return d ? (*d)[index_of(Resource::worker)] : -1; }

TEST(Model, HasThePointsThatWereMeasured) {
  const Coefficients c = measured();
  ASSERT_EQ(why_impossible(c), "");
  for (const Coefficients::PlanCosts& plan : c.plans) {
    for (std::size_t size = 0; size < c.sizes.size(); ++size) {
      for (std::size_t share = 0; share < c.set_shares.size(); ++share) {
        for (std::size_t skew = 0; skew < Coefficients::skews; ++skew) {
          const auto d = demand(c, load_of(c, size, c.set_shares[share], skew == 0 ? 0 : c.zipf_theta), plan.candidate);
          ASSERT_TRUE(d);
          for (std::size_t r = 0; r < resource_count; ++r)
            EXPECT_NEAR((*d)[r], plan.points[c.point_of(size, share, skew)][r], 1e-9);
        }
      }
    }
  }
}

TEST(Model, IsLinearBetweenThem) {
  const Coefficients c = measured();
  const Candidate cpu = c.plans[0].candidate;
  // Of shares: 90 s^2 is 0.9 at 0.1, and 22.5 at 0.5.
  EXPECT_NEAR(worker(demand(c, load_of(c, 0, 0.3), cpu)), 10 + (0.9 + 22.5) / 2, 1e-9);
  Profile between = load_of(c, 0, 0);
  between.query_bytes = 70;                             // of 40 and 100
  EXPECT_NEAR(worker(demand(c, between, cpu)), 15, 1);  // the share that is cached is its own
  // Of popularity, by the share of reads that is cached.
  Profile skewed = load_of(c, 0, 0, 0.99);
  const double most = cached_share(skewed, c.cache_bytes);
  skewed.theta = 0.6;
  const double some = cached_share(skewed, c.cache_bytes);
  skewed.theta = 0;
  const double least = cached_share(skewed, c.cache_bytes);
  ASSERT_LT(least, some);
  ASSERT_LT(some, most);
  skewed.theta = 0.6;
  EXPECT_NEAR(worker(demand(c, skewed, cpu)), 10 - 2 * (some - least) / (most - least), 1e-9);
}

TEST(Model, KnowsNothingBeyondThem) {
  const Coefficients c = measured();
  const Candidate cpu = c.plans[0].candidate, frames = c.plans[1].candidate;
  Profile load = load_of(c, 2, 0);
  load.query_bytes *= 1.5;
  EXPECT_FALSE(demand(c, load, cpu));
  load = load_of(c, 0, 0);
  load.query_bytes /= 2;
  EXPECT_FALSE(demand(c, load, cpu));
  EXPECT_FALSE(demand(c, load_of(c, 1, 0, 1.8), cpu));
  EXPECT_FALSE(demand(c, load_of(c, 1, std::numeric_limits<double>::quiet_NaN()), cpu));
  EXPECT_FALSE(demand(c, load_of(c, 1, 0, std::numeric_limits<double>::quiet_NaN()), cpu));
  Candidate other = frames;
  other.level = UpkeepLevel::none;
  EXPECT_TRUE(demand(c, load_of(c, 1, 0), frames));
  EXPECT_FALSE(demand(c, load_of(c, 1, 0), other)) << "the prices of another level";
  other = cpu;
  other.batch = 2048;
  EXPECT_FALSE(demand(c, load_of(c, 1, 0), other));
  // Whatever a load is, no demand is beyond the measured ones.
  std::mt19937 random(7);
  std::uniform_real_distribution<double> share(0, 1), bytes(20, 2000), theta(0, 1.2);
  for (int i = 0; i < 2000; ++i) {
    load = {share(random), bytes(random), theta(random), 1e6, 1e8};
    const auto d = demand(c, load, cpu);
    for (std::size_t r = 0; d && r < resource_count; ++r) {
      const auto of = [r](const Demand& p) { return p[r]; };
      const auto [low, high] = std::ranges::minmax_element(c.plans[0].points, {}, of);
      EXPECT_GE((*d)[r], (*low)[r] - 1e-9);
      EXPECT_LE((*d)[r], (*high)[r] + 1e-9);
    }
  }
}

TEST(Model, TheFullestResourceSaysTheRate) {
  const Machine machine{{16, 0.5, 1, 50, 50, 300}};
  EXPECT_DOUBLE_EQ(rate({32, 0, 0.5, 0, 0, 0}, machine), 0.5);
  EXPECT_DOUBLE_EQ(rate({32, 0, 4, 0, 0, 0}, machine), 0.25);
  EXPECT_DOUBLE_EQ(rate({32, 0, 0.5, 200, 10, 64}, machine), 0.25);
  EXPECT_DOUBLE_EQ(rate({32, 2, 0.5, 100, 10, 64}, machine), 0.25);
  Coefficients c = measured();
  EXPECT_EQ(machine_of(c, 3).capacity[index_of(Resource::worker)], 3);
  EXPECT_EQ(machine_of(c, 3).capacity[index_of(Resource::up)], 100);
}

TEST(Coefficients, ThatCannotHaveBeenMeasuredAreRefused) {
  const auto refused = [](const std::function<void(Coefficients&)>& change) {
    Coefficients c = measured();
    change(c);
    EXPECT_NE(why_impossible(c), "");
  };
  const double infinite = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  refused([](Coefficients& c) { c.threads = 0; });
  refused([](Coefficients& c) { c.threads = 1 << 20; });
  refused([](Coefficients& c) { c.cache_bytes = 0; });
  refused([](Coefficients& c) { c.zipf_theta = 2; });
  refused([](Coefficients& c) { c.set_shares[0] = 0.01; });
  refused([](Coefficients& c) { c.set_shares[3] = 0.9; });
  refused([](Coefficients& c) { std::swap(c.set_shares[1], c.set_shares[2]); });
  refused([](Coefficients& c) { c.set_shares.clear(); });
  refused([](Coefficients& c) { c.sizes.clear(); });
  refused([](Coefficients& c) { c.sizes[1].query_bytes.pop_back(); });
  refused([](Coefficients& c) { std::swap(c.sizes[0], c.sizes[1]); });
  refused([=](Coefficients& c) { c.sizes[0].keys = nan; });
  refused([](Coefficients& c) { c.sizes[0].store_bytes = -1; });
  refused([](Coefficients& c) { c.plans.clear(); });
  refused([](Coefficients& c) { c.plans[0].points.pop_back(); });
  refused([](Coefficients& c) { c.plans[1].points[3][index_of(Resource::worker)] = 0; });
  refused([=](Coefficients& c) { c.plans[1].points[3][index_of(Resource::up)] = infinite; });
  refused([=](Coefficients& c) { c.plans[1].points[3][index_of(Resource::gpu)] = nan; });
  refused([](Coefficients& c) { c.plans[1].candidate.batch = 0; });
  refused([](Coefficients& c) { c.plans[1].candidate.threads = 0; });
  refused([](Coefficients& c) { c.capacity[index_of(Resource::memory)] = 0; });
  refused([](Coefficients& c) { c.capacity[index_of(Resource::gpu)] = -1; });
}

TEST(Mix, OfTwoPlansAndTwoResourcesIsEquation3) {
  // Task set A on the GPU, or stolen by the CPU behind its own B.
  const double b = 20, a_cpu = 30, a_gpu = 100;
  const Machine machine{{1, 1, 1, 1, 1, 1}};
  const Mix mix = best_mix(std::vector<Demand>{{b, 0, a_gpu, 0, 0, 0}, {b + a_cpu, 0, 0, 0, 0, 0}}, machine);
  EXPECT_NEAR(1 / mix.rate, b + a_cpu * (a_gpu - b) / (a_cpu + a_gpu), 1e-9);
  EXPECT_EQ(mix.first, 0U);
  EXPECT_EQ(mix.second, 1U);
  EXPECT_NEAR(mix.second_share, (a_gpu - b) / (a_cpu + a_gpu), 1e-12);
}

TEST(Mix, IsTheBestOfAll) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> some(0.1, 10);
  for (unsigned i = 0; i < 200; ++i) {
    Machine machine;
    std::vector<Demand> demands(2 + i % 3);
    for (std::size_t r = 0; r < resource_count; ++r) {
      machine.capacity[r] = some(random);
      for (Demand& d : demands) d[r] = i % 5 == 0 && r == 1 ? 0 : some(random);
    }
    double best = 0;
    constexpr int steps = 200;
    for (const Demand& a : demands) {
      for (const Demand& b : demands) {
        for (int step = 0; step <= steps; ++step) {
          Demand both;
          for (std::size_t r = 0; r < resource_count; ++r) both[r] = a[r] + (b[r] - a[r]) * step / steps;
          best = std::max(best, rate(both, machine));
        }
      }
    }
    const Mix mix = best_mix(demands, machine);
    EXPECT_GE(mix.rate, best * (1 - 1e-12));
    EXPECT_LE(mix.rate, best * 1.02);
    Demand both;
    for (std::size_t r = 0; r < resource_count; ++r)
      both[r] = demands[mix.first][r] + (demands[mix.second][r] - demands[mix.first][r]) * mix.second_share;
    EXPECT_NEAR(rate(both, machine), mix.rate, mix.rate * 1e-9);
  }
}

TEST(Profiler, TakesDifferencesOfCounters) {
  const Profile p = profile_of({1000, 10, 5000}, {1750, 260, 105'000}, {}, 5e6, 1e9);
  EXPECT_DOUBLE_EQ(p.set_share, 0.25);
  EXPECT_DOUBLE_EQ(p.query_bytes, 100);
  EXPECT_EQ(p.theta, 0);
  EXPECT_EQ(p.keys, 5e6);
  EXPECT_EQ(profile_of({5, 5, 5}, {5, 5, 5}, {}, 1, 1).query_bytes, 0);
}

TEST(Profiler, SumsZipfsSeries) {
  for (const double theta : {0.0, 0.5, 0.99, 1.0, 1.5}) {
    double sum = 0;
    for (int i = 1; i <= 100'000; ++i) {
      sum += std::pow(i, -theta);
      if (i == 1 || i == 64 || i == 65 || i == 1000 || i == 100'000) {
        EXPECT_NEAR(harmonic(i, theta), sum, sum * 1e-5) << theta << " " << i;
      }
    }
  }
}

TEST(Profiler, TellsThetaFromPairsOfASample) {
  constexpr std::size_t keys = 100'000, draws = 16'384;
  for (const double theta : {0.0, 0.7, 0.99, 1.2}) {
    std::vector<double> until(keys);
    for (std::size_t i = 0; i < keys; ++i)
      until[i] = (i == 0 ? 0 : until[i - 1]) + std::pow(static_cast<double>(i + 1), -theta);
    std::mt19937 random(11);
    std::uniform_real_distribution<double> at(0, until.back());
    std::vector<std::uint32_t> sampled(draws);
    for (std::uint32_t& key : sampled)
      key = static_cast<std::uint32_t>(std::ranges::upper_bound(until, at(random)) - until.begin()) * 2654435761U;
    const Profile p = profile_of({}, {draws, 0, draws}, sampled, keys, 1e9);
    EXPECT_NEAR(p.theta, theta, theta == 0 ? 0.4 : 0.03);
  }
  EXPECT_EQ(theta_of(0, 1000, 1e6), 0);
  EXPECT_NEAR(theta_of(1e9, 1000, 1e6), theta_max, 1e-6);
}

TEST(Profiler, TheMostPopularKeysAreCached) {
  Profile p{.keys = 1e6, .store_bytes = 1e8};
  EXPECT_NEAR(cached_share(p, 1e7), 0.1, 1e-6);
  p.theta = 0.99;
  EXPECT_GT(cached_share(p, 1e7), 0.75);
  EXPECT_LT(cached_share(p, 1e7), 0.9);
  EXPECT_EQ(cached_share(p, 2e8), 1);
}

}  // namespace
}  // namespace tandem
