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

// By the share of reads that are cached, between those of the uniform and the zipf points of this size.
std::optional<Between> find_skew(const Coefficients& c, const Coefficients::Size& size, double cached) noexcept {
  Profile measured{.keys = size.keys, .store_bytes = size.store_bytes};
  const double uniform = cached_share(measured, c.cache_bytes);
  measured.theta = c.zipf_theta;
  const double zipf = cached_share(measured, c.cache_bytes);
  if (!(cached >= uniform - cached_slack && cached <= zipf + cached_slack)) return std::nullopt;
  return Between{0, zipf > uniform ? std::clamp((cached - uniform) / (zipf - uniform), 0.0, 1.0) : 0.0};
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
  const double cached = cached_share(profile, c.cache_bytes);
  const auto of_size = [&](std::size_t i) -> std::optional<Demand> {
    const auto skew = find_skew(c, c.sizes[i], cached);
    if (!skew) return std::nullopt;
    const auto of_share = [&](std::size_t s) {
      return between(*skew, costs->points[c.point_of(i, s, 0)], costs->points[c.point_of(i, s, 1)]);
    };
    return between(*share, of_share(share->first), of_share(share->first + 1));
  };
  if (size->weight == 0) return of_size(size->first);
  const auto low = of_size(size->first), high = of_size(size->first + 1);
  if (!low || !high) return std::nullopt;
  return between(*size, *low, *high);
}

double rate(const Demand& demand, const Machine& machine) noexcept {
  double ns = 0;  // a query takes of the resource of which there is the least
  for (std::size_t r = 0; r < resource_count; ++r) {
    if (demand[r] > 0) ns = std::max(ns, demand[r] / machine.capacity[r]);
  }
  return 1 / ns;
}

}  // namespace tandem
