#include "bench/workload/zipf.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace tandem::workload {
namespace {

constexpr std::uint64_t head_ranks_max = 65'536;

// log(1 + x) / x and (exp(x) - 1) / x, continuous at 0: they extend the integral to theta = 1.
double log1p_over(double x) { return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x * (0.5 - x / 3); }
double expm1_over(double x) { return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x * (0.5 + x / 6); }

}  // namespace

Zipf::Zipf(std::uint64_t n, double theta) : n_(n), theta_(theta) {
  if (n == 0) throw std::invalid_argument("zipf: there must be at least one key");
  if (!(theta >= 0) || !std::isfinite(theta)) throw std::invalid_argument("zipf: theta must be 0 or more");
  if (theta == 0) return;
  head_size_ = std::min(n, head_ranks_max);
  head_ = shared_table(head_size_, theta);
  head_limit_ = ~std::uint64_t{0};
  if (head_size_ == n) return;
  const double first = static_cast<double>(head_size_) + 0.5, last = static_cast<double>(n) + 0.5;
  integral_low_ = integral(first);
  integral_high_ = integral(last);
  const double least = static_cast<double>(head_size_) + 1;
  accept_ = least - integral_inverse(integral(least + 0.5) - height(least));
  double head = 0;
  for (std::uint64_t rank = head_size_; rank-- > 0;) head += height(static_cast<double>(rank) + 1);
  // Euler and Maclaurin's sum at the middles of the steps; the next term is below 2^-60 of it.
  const auto slope = [&](double x) { return -theta * height(x) / x; };
  const double tail = integral_high_ - integral_low_ - (slope(last) - slope(first)) / 24;
  head_limit_ = static_cast<std::uint64_t>(head / (head + tail) * 0x1p64);
}

std::shared_ptr<const Zipf::Table> Zipf::shared_table(std::uint64_t size, double theta) {
  static std::mutex mutex;
  static std::map<std::pair<std::uint64_t, double>, std::weak_ptr<const Table>> tables;
  const std::scoped_lock lock(mutex);
  std::weak_ptr<const Table>& known = tables[{size, theta}];
  std::shared_ptr<const Table> table = known.lock();
  if (!table) known = table = std::make_shared<const Table>(make_table(size, theta));
  return table;
}

// Walker's method in Vose's form: slots with too little weight are filled from those with too much.
Zipf::Table Zipf::make_table(std::uint64_t size, double theta) {
  std::vector<double> weight(size);
  for (std::uint64_t i = 0; i < size; ++i) weight[i] = std::pow(static_cast<double>(i) + 1, -theta);
  const double scale = static_cast<double>(size) / std::accumulate(weight.rbegin(), weight.rend(), 0.0);
  Table table(size);
  std::vector<std::uint32_t> light, heavy;
  for (std::uint32_t i = 0; i < size; ++i) {
    weight[i] *= scale;
    (weight[i] < 1 ? light : heavy).push_back(i);
  }
  while (!light.empty() && !heavy.empty()) {
    const std::uint32_t small = light.back(), large = heavy.back();
    light.pop_back();
    table[small] = {static_cast<std::uint32_t>(weight[small] * 0x1p32), large};
    weight[large] -= 1 - weight[small];
    if (weight[large] < 1) {
      heavy.pop_back();
      light.push_back(large);
    }
  }
  // The remaining slots have exactly their share, up to rounding.
  for (const auto* rest : {&heavy, &light})
    for (const std::uint32_t i : *rest) table[i] = {UINT32_MAX, i};
  return table;
}

// The paper's section 5, from rank head_size_ on: a point below the hat function is drawn by inversion, its nearest
// integer is the rank. Nearly all points are accepted by the distance alone, at the cost of one logarithm and one
// exponential.
std::uint64_t Zipf::draw_tail(Random& random) const noexcept {
  for (;;) {
    const double y = integral_high_ + random.unit() * (integral_low_ - integral_high_);
    const double x = integral_inverse(y);
    const std::uint64_t k =
        std::clamp<std::uint64_t>(static_cast<std::uint64_t>(std::floor(x + 0.5)), head_size_ + 1, n_);
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
