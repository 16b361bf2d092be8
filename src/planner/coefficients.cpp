#include "planner/coefficients.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace tandem {
namespace {

bool are_ascending(std::span<const double> values) {
  return std::ranges::adjacent_find(values, [](double a, double b) { return !(a < b); }) == values.end();
}

// Of anything that is measured here, in its unit.
bool is_possible(double value) noexcept { return value >= 0 && value <= 1e15; }
bool is_some(double value) noexcept { return is_possible(value) && value > 0; }

}  // namespace

std::string why_impossible(const Coefficients& c) {
  constexpr std::size_t many = 64;  // of anything that is listed
  constexpr unsigned threads_max = 1 << 12;
  constexpr std::uint32_t batch_max = 1 << 20;
  if (c.threads == 0 || c.threads > threads_max || !is_some(c.cache_bytes)) return "they have no threads, or no cache";
  if (!(c.zipf_theta > 0 && c.zipf_theta < 2)) return "their popularity is no zipf's";
  if (c.set_shares.size() < 2 || c.set_shares.size() > many || c.set_shares.front() != 0 || c.set_shares.back() != 1 ||
      !are_ascending(c.set_shares))
    return "their shares of SETs do not ascend from 0 to 1";
  if (c.sizes.empty() || c.sizes.size() > many) return "they have no sizes, or too many";
  for (std::size_t i = 0; i < c.sizes.size(); ++i) {
    const Coefficients::Size& size = c.sizes[i];
    if (!(size.keys >= 1 && is_possible(size.keys)) || !is_some(size.store_bytes) ||
        size.query_bytes.size() != c.set_shares.size() || !std::ranges::all_of(size.query_bytes, is_some))
      return "a size has impossible numbers";
    for (std::size_t s = 0; i != 0 && s < size.query_bytes.size(); ++s) {
      if (!(c.sizes[i - 1].query_bytes[s] < size.query_bytes[s])) return "their sizes do not ascend";
    }
  }
  if (c.plans.empty() || c.plans.size() > many) return "they have no plans, or too many";
  for (const Coefficients::PlanCosts& plan : c.plans) {
    if (plan.candidate.plan.empty() || plan.candidate.threads == 0 || plan.candidate.threads > threads_max ||
        plan.candidate.batch == 0 || plan.candidate.batch > batch_max)
      return "a plan has no name, threads or batch";
    if (plan.points.size() != c.point_count()) return "a plan has more or fewer points than there are loads";
    for (const Demand& point : plan.points) {
      if (!is_some(point[index_of(Resource::worker)]) || !std::ranges::all_of(point, is_possible))
        return "a plan has impossible demands";
    }
  }
  if (!std::ranges::all_of(c.capacity, is_possible)) return "a resource has an impossible capacity";
  for (const Coefficients::PlanCosts& plan : c.plans) {
    for (std::size_t r = index_of(Resource::scheduler); r < resource_count; ++r) {
      if (c.capacity[r] == 0 && std::ranges::any_of(plan.points, [r](const Demand& d) { return d[r] > 0; }))
        return "a plan demands what there is nothing of";
    }
  }
  return {};
}

}  // namespace tandem
