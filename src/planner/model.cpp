#include "planner/model.hpp"

#include <algorithm>
#include <cstddef>

#include "planner/profiler.hpp"

namespace tandem {
namespace {

constexpr double slack = 0.02;         // of sizes, beyond the measured ones: loads are drawn
constexpr double cached_slack = 0.05;  // of the share that is cached

// Between two neighbours of a list: `weight` of the second one.
struct Between {
  std::size_t first = 0;
  double weight = 0;
};

double of(const Between& at, double a, double b) noexcept { return a + (b - a) * at.weight; }

// Of values that ascend: nothing beyond them, but for a share of `slack`.
template <class ValueOf>
std::optional<Between> find(double value, std::size_t count, const ValueOf& value_of) noexcept {
  if (!(value >= value_of(0) * (1 - slack) && value <= value_of(count - 1) * (1 + slack))) return std::nullopt;
  if (count == 1) return Between{};
  std::size_t first = 0;
  while (first + 2 < count && value_of(first + 1) <= value) ++first;
  const double low = value_of(first), high = value_of(first + 1);
  return Between{first, std::clamp((value - low) / (high - low), 0.0, 1.0)};
}

Demand between(const Between& at, const Demand& a, const Demand& b) noexcept {
  Demand d;
  for (std::size_t r = 0; r < resource_count; ++r) d[r] = of(at, a[r], b[r]);
  return d;
}

// With this popularity in place of the load's.
double cached_with(Profile profile, double theta, double cache_bytes) noexcept {
  profile.theta = theta;
  return cached_share(profile, cache_bytes);
}

// Between the uniform and the zipf points, by the share of reads that are cached.
std::optional<Between> find_skew(const Coefficients& c, const Profile& profile) noexcept {
  const double cached = cached_share(profile, c.cache_bytes);
  const double uniform = cached_with(profile, 0, c.cache_bytes);
  const double zipf = cached_with(profile, c.zipf_theta, c.cache_bytes);
  if (!(cached >= uniform - cached_slack && cached <= zipf + cached_slack)) return std::nullopt;
  return Between{0, zipf > uniform ? std::clamp((cached - uniform) / (zipf - uniform), 0.0, 1.0) : 0.0};
}

// Whether as much of the store is cached as was where these sizes were measured.
bool is_as_large(const Coefficients& c, const Profile& profile, const Between& size) noexcept {
  const auto cached = [&](std::size_t i) {
    return cached_with({.keys = c.sizes[i].keys, .store_bytes = c.sizes[i].store_bytes}, 0, c.cache_bytes);
  };
  const double first = cached(size.first), second = size.weight == 0 ? first : cached(size.first + 1);
  const double own = cached_with(profile, 0, c.cache_bytes);
  return own >= std::min(first, second) - cached_slack && own <= std::max(first, second) + cached_slack;
}

}  // namespace

Machine machine_of(const Coefficients& coefficients, unsigned threads) noexcept {
  Machine machine{coefficients.capacity};
  machine.capacity[index_of(Resource::worker)] = threads;
  return machine;
}

std::optional<Demand> demand(const Coefficients& c, const Profile& profile, const Candidate& candidate) {
  const auto costs =
      std::ranges::find(c.plans, candidate, [](const Coefficients::PlanCosts& p) { return p.candidate; });
  if (costs == c.plans.end()) return std::nullopt;
  const auto share = find(profile.set_share, c.set_shares.size(), [&](std::size_t i) { return c.set_shares[i]; });
  if (!share) return std::nullopt;
  const auto size = find(profile.query_bytes, c.sizes.size(), [&](std::size_t i) {
    return of(*share, c.sizes[i].query_bytes[share->first], c.sizes[i].query_bytes[share->first + 1]);
  });
  if (!size) return std::nullopt;
  const auto skew = find_skew(c, profile);
  if (!skew || !is_as_large(c, profile, *size)) return std::nullopt;
  const auto of_size = [&](std::size_t i) {
    const auto of_share = [&](std::size_t k) {
      return between(*skew, costs->points[c.point_of(i, k, 0)], costs->points[c.point_of(i, k, 1)]);
    };
    return between(*share, of_share(share->first), of_share(share->first + 1));
  };
  if (size->weight == 0) return of_size(size->first);
  return between(*size, of_size(size->first), of_size(size->first + 1));
}

double rate(const Demand& demand, const Machine& machine) noexcept {
  double ns = 0;  // a query takes of the resource of which there is the least
  for (std::size_t r = 0; r < resource_count; ++r) {
    if (demand[r] > 0) ns = std::max(ns, demand[r] / machine.capacity[r]);
  }
  return 1 / ns;
}

}  // namespace tandem
