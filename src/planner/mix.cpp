#include "planner/mix.hpp"

namespace tandem {
namespace {

Demand mix_of(const Demand& a, const Demand& b, double share) noexcept {
  Demand d;
  for (std::size_t r = 0; r < resource_count; ++r) d[r] = a[r] + (b[r] - a[r]) * share;
  return d;
}

}  // namespace

// The time of a mix is the largest of functions that are linear in the share. It is least at an end, or where two of
// them meet.
Mix best_mix(std::span<const Demand> demands, const Machine& machine) noexcept {
  Mix best;
  const auto full = [&](const Demand& d, std::size_t r) { return d[r] > 0 ? d[r] / machine.capacity[r] : 0; };
  for (std::size_t a = 0; a < demands.size(); ++a) {
    if (const double alone = rate(demands[a], machine); alone > best.rate) best = {a, a, 0, alone};
    for (std::size_t b = a + 1; b < demands.size(); ++b) {
      for (std::size_t r = 0; r < resource_count; ++r) {
        for (std::size_t q = r + 1; q < resource_count; ++q) {
          const double at_a = full(demands[a], r) - full(demands[a], q);
          const double at_b = full(demands[b], r) - full(demands[b], q);
          if (at_a * at_b >= 0) continue;
          const double share = at_a / (at_a - at_b);
          if (const double both = rate(mix_of(demands[a], demands[b], share), machine); both > best.rate)
            best = {a, b, share, both};
        }
      }
    }
  }
  return best;
}

}  // namespace tandem
