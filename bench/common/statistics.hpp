// Figures of several rounds: the median and the spread.
#pragma once
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

namespace tandem::bench {

struct Spread {
  double median = 0, low = 0, high = 0;
};

// For an even number the mean of the two in the middle. Throws std::invalid_argument without values.
inline Spread spread_of(std::vector<double> values) {
  if (values.empty()) throw std::invalid_argument("no values");
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

}  // namespace tandem::bench
