// Ranks with probability proportional to (rank + 1)^-theta.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/workload/random.hpp"

namespace tandem::workload {

// Draws ranks 0 .. n-1 exactly, in constant time. The first ranks, which are drawn most, come from Walker's alias table
// (exact up to the 2^-32 steps of its thresholds); the rest by rejection-inversion (Hoermann and Derflinger,
// "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS 1996), which costs a
// logarithm and an exponential. For a million ranks both take a third of the time of the second alone. theta >= 0, 1
// included; 0 is uniform. Memory: 512 KiB at most, shared by all with the same n and theta. Thread safety: immutable;
// the caller owns the Random.
class Zipf {
 public:
  Zipf(std::uint64_t n, double theta);
  std::uint64_t draw(Random& random) const noexcept {
    if (head_ == nullptr) return random.below(n_);
    const std::uint64_t bits = random.next();
    if (bits > head_limit_) return draw_tail(random);
    // The lower half is still uniform if the whole is below a limit.
    const auto slot = static_cast<std::uint32_t>((bits & 0xffffffffU) * head_size_ >> 32);
    const Slot& one = (*head_)[slot];
    return static_cast<std::uint32_t>(random.next()) < one.threshold ? slot : one.alias;
  }
  std::uint64_t size() const noexcept { return n_; }

 private:
  struct Slot {
    std::uint32_t threshold, alias;
  };
  using Table = std::vector<Slot>;
  static Table make_table(std::uint64_t size, double theta);
  static std::shared_ptr<const Table> shared_table(std::uint64_t size, double theta);

  std::uint64_t draw_tail(Random& random) const noexcept;
  double integral(double x) const noexcept;  // of h from 1 to x
  double integral_inverse(double y) const noexcept;
  double height(double x) const noexcept;  // x^-theta

  std::uint64_t n_;
  double theta_;
  std::shared_ptr<const Table> head_;  // null: uniform
  std::uint64_t head_size_ = 0;
  std::uint64_t head_limit_ = 0;  // of 64 random bits: up to it the head
  double integral_low_ = 0, integral_high_ = 0, accept_ = 0;
};

}  // namespace tandem::workload
