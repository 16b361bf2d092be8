// Ranks with probability proportional to (rank + 1)^-theta.
#pragma once
#include <cstdint>

#include "workload/random.hpp"

namespace tandem::workload {

// Draws ranks 0 .. n-1 exactly, in constant time and memory, by rejection-inversion (Hoermann and Derflinger,
// "Rejection- inversion to generate variates from monotone discrete distributions", ACM TOMACS 1996). theta >= 0, 1
// included; 0 is uniform. Thread safety: immutable; the Random is the caller's.
class Zipf {
 public:
  Zipf(std::uint64_t n, double theta);
  std::uint64_t draw(Random& random) const noexcept;
  std::uint64_t size() const noexcept { return n_; }

 private:
  double integral(double x) const noexcept;  // of h from 1 to x
  double integral_inverse(double y) const noexcept;
  double height(double x) const noexcept;  // x^-theta

  std::uint64_t n_;
  double theta_;
  double integral_low_, integral_high_, accept_;
};

}  // namespace tandem::workload
