#include "planner/profiler.hpp"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

double pairs_in(std::span<std::uint32_t> sampled) noexcept {
  std::ranges::sort(sampled);
  double pairs = 0;
  for (std::size_t i = 0, run = 0; i < sampled.size(); ++i) {
    run = i != 0 && sampled[i] == sampled[i - 1] ? run + 1 : 0;
    pairs += static_cast<double>(run);
  }
  return pairs;
}

}  // namespace

// The first terms as they are; of the rest the integral, with half of its first and last term (Euler, Maclaurin).
double harmonic(double n, double theta) noexcept {
  constexpr double exact = 64;
  const double first = std::min(n, exact);
  double sum = 0;
  for (double i = 1; i <= first; ++i) sum += std::pow(i, -theta);
  if (n <= exact) return sum;
  const double integral = std::abs(1 - theta) < 1e-9
                              ? std::log(n / exact)
                              : (std::pow(n, 1 - theta) - std::pow(exact, 1 - theta)) / (1 - theta);
  return sum + integral + (std::pow(n, -theta) - std::pow(exact, -theta)) / 2;
}

// Two draws are of one key with probability H(2 theta) / H(theta)^2, which grows with theta.
double theta_of(double pairs, double sampled, double keys) noexcept {
  if (sampled < 2 || keys < 1) return 0;
  const double share = pairs / (sampled * (sampled - 1) / 2);
  double low = 0, high = theta_max;
  for (int i = 0; i < 40; ++i) {
    const double theta = (low + high) / 2, h = harmonic(keys, theta);
    // 2 theta may be beyond what harmonic() promises, where its terms vanish quickly.
    (harmonic(keys, 2 * theta) < share * h * h ? low : high) = theta;
  }
  return low;
}

Profile profile_of(const LoadCounts& before, const LoadCounts& after, std::span<std::uint32_t> sampled, double keys,
                   double store_bytes) noexcept {
  Profile profile{.keys = keys, .store_bytes = store_bytes};
  profile.theta = theta_of(pairs_in(sampled), static_cast<double>(sampled.size()), keys);
  const auto queries = static_cast<double>(after.gets - before.gets + after.sets - before.sets);
  if (queries == 0) return profile;
  profile.set_share = static_cast<double>(after.sets - before.sets) / queries;
  profile.query_bytes = static_cast<double>(after.bytes - before.bytes) / queries;
  return profile;
}

double cached_share(const Profile& profile, double cache_bytes) noexcept {
  if (profile.keys < 1 || cache_bytes >= profile.store_bytes) return 1;
  const double cached = std::max(profile.keys * cache_bytes / profile.store_bytes, 1.0);
  return std::min(harmonic(cached, profile.theta) / harmonic(profile.keys, profile.theta), 1.0);
}

}  // namespace tandem
