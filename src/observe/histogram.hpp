// A histogram of durations in ticks: log-linear, eight buckets to each power of two, so that a value read from it
// differs from the recorded one by at most 1/16. HdrHistogram's layout; written here because it is on the data path,
// has one writer, and may be read at any time without stopping it.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/platform.hpp"
#include "observe/counters.hpp"

namespace tandem {

namespace histogram {
inline constexpr unsigned steps_log2 = 3;
inline constexpr unsigned exponent_max = 40;  // longer durations (minutes) count as 2^40 ticks
inline constexpr std::uint32_t bucket_count = (exponent_max - steps_log2 + 1) << steps_log2;
inline constexpr double error_max = 1.0 / (2 << steps_log2);

// Values below 16 have a bucket each.
TD_INLINE std::uint32_t bucket_of(std::uint64_t value) noexcept {
  if (value < 1u << steps_log2) return static_cast<std::uint32_t>(value);
  const unsigned exponent = static_cast<unsigned>(std::bit_width(value)) - 1;
  if (TD_UNLIKELY(exponent >= exponent_max)) return bucket_count - 1;
  const unsigned shift = exponent - steps_log2;
  return (shift << steps_log2) + static_cast<std::uint32_t>(value >> shift);
}
// The values of bucket b are lower_bound(b) .. lower_bound(b + 1) - 1.
constexpr std::uint64_t lower_bound(std::uint32_t b) noexcept {
  if (b < 2u << steps_log2) return b;
  const unsigned shift = (b >> steps_log2) - 1;
  return std::uint64_t{(b & ((1u << steps_log2) - 1)) + (1u << steps_log2)} << shift;
}
// The value that stands for bucket b.
constexpr double middle(std::uint32_t b) noexcept {
  return (static_cast<double>(lower_bound(b)) + static_cast<double>(lower_bound(b + 1) - 1)) / 2;
}
}  // namespace histogram

// Thread safety: one writer; HistogramTotals reads it from any thread.
class Histogram {
 public:
  // Records `value` `times` times (a sample stands for several).
  TD_INLINE void record(std::uint64_t value, std::uint64_t times = 1) noexcept {
    counts_[histogram::bucket_of(value)].add(times);
    sum_.add(value * times);
    if (TD_UNLIKELY(value > max_.get())) max_.set(value);
  }

 private:
  friend class HistogramTotals;
  std::array<Counter, histogram::bucket_count> counts_;
  Counter sum_, max_;
};
static_assert(sizeof(Histogram) == 8 * (histogram::bucket_count + 2));

// The same as plain numbers: a sum over workers, minus the values before a reset.
class HistogramTotals {
 public:
  void add(const Histogram& h) noexcept;
  void add(const HistogramTotals& t) noexcept;
  // `t`: an earlier sum of the same histograms (of a later one, nothing is left). The largest value becomes that of the
  // highest bucket left.
  void subtract(const HistogramTotals& t) noexcept;

  // Calls to(ticks, count) for each bucket that is not empty, the smallest first; ticks: the value that stands for the
  // bucket.
  template <class F>
  void visit(F to) const {
    for (std::uint32_t b = 0; b < counts_.size(); ++b)
      if (counts_[b] != 0) to(histogram::middle(b), counts_[b]);
  }

  std::uint64_t count() const noexcept;
  std::uint64_t sum() const noexcept { return sum_; }
  std::uint64_t max() const noexcept { return max_; }  // exact, but after subtract() perhaps its bucket's largest value
  // The smallest recorded value that `share` (0 .. 1) of all do not exceed, within histogram::error_max; 0 when there
  // are none.
  double quantile(double share) const noexcept;
  // Number of values that do not exceed `value`; those in its bucket count if the bucket's middle does not exceed it.
  std::uint64_t count_up_to(double value) const noexcept;

 private:
  // Not an array: threads with small stacks pass these by value.
  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(histogram::bucket_count);
  std::uint64_t sum_ = 0, max_ = 0;
};

}  // namespace tandem
