#include "workload/zipf.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tandem::workload {
namespace {

// log(1 + x) / x and (exp(x) - 1) / x, continuous at 0: they carry the integral through theta = 1.
double log1p_over(double x) { return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x * (0.5 - x / 3); }
double expm1_over(double x) { return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x * (0.5 + x / 6); }

}  // namespace

Zipf::Zipf(std::uint64_t n, double theta) : n_(n), theta_(theta) {
  if (n == 0) throw std::invalid_argument("zipf: there must be at least one key");
  if (!(theta >= 0) || !std::isfinite(theta)) throw std::invalid_argument("zipf: theta must be 0 or more");
  integral_low_ = integral(1.5) - 1;
  integral_high_ = integral(static_cast<double>(n) + 0.5);
  accept_ = 2 - integral_inverse(integral(2.5) - height(2));
}

// The paper's section 5: a point below the hat function is drawn by inversion, its nearest whole number is the rank;
// most points are accepted by the distance alone, so that one logarithm and one exponential are all.
std::uint64_t Zipf::draw(Random& random) const noexcept {
  if (theta_ == 0) return random.below(n_);
  for (;;) {
    const double y = integral_high_ + random.unit() * (integral_low_ - integral_high_);
    const double x = integral_inverse(y);
    const std::uint64_t k = x < 1 ? 1 : std::min(static_cast<std::uint64_t>(std::floor(x + 0.5)), n_);
    const auto whole = static_cast<double>(k);
    if (whole - x <= accept_ || y >= integral(whole + 0.5) - height(whole)) return k - 1;
  }
}

double Zipf::integral(double x) const noexcept {
  const double log_x = std::log(x);
  return expm1_over((1 - theta_) * log_x) * log_x;
}

double Zipf::integral_inverse(double y) const noexcept {
  return std::exp(log1p_over(std::max((1 - theta_) * y, -1.0)) * y);
}

double Zipf::height(double x) const noexcept { return std::exp(-theta_ * std::log(x)); }

}  // namespace tandem::workload
