// A log-linear histogram of latencies, as HdrHistogram's.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace tandem::bench {

// Counts of 64-bit values. Values below 256 are exact, larger ones fall into 128 buckets per power of two, so what is
// read back is at most 0.8 % too high and never too low. Thread safety: none.
class Histogram {
 public:
  void add(uint64_t value, uint64_t count = 1) {
    counts_[index_of(value)] += count;
    total_ += count;
    sum_ += static_cast<double>(value) * static_cast<double>(count);
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }

  uint64_t total() const { return total_; }
  uint64_t min() const { return total_ == 0 ? 0 : min_; }
  uint64_t max() const { return max_; }
  double mean() const { return total_ == 0 ? 0.0 : sum_ / static_cast<double>(total_); }

  // The least recorded value (rounded up to its bucket's end) that `fraction` of all values do not exceed; 0 if empty.
  uint64_t quantile(double fraction) const {
    const auto wanted = static_cast<uint64_t>(std::ceil(fraction * static_cast<double>(total_)));
    uint64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= wanted && seen > 0) return std::min(last_of(i), max_);
    }
    return 0;
  }

 private:
  static constexpr unsigned sub_bits = 7;
  static constexpr size_t bucket_count = (64 - sub_bits) << sub_bits;

  static size_t index_of(uint64_t value) {
    const unsigned width = static_cast<unsigned>(std::bit_width(value));
    const unsigned shift = width > sub_bits + 1 ? width - sub_bits - 1 : 0;
    return (size_t{shift} << sub_bits) + (value >> shift);
  }

  static uint64_t last_of(size_t index) {
    const size_t octave = index >> sub_bits;
    const unsigned shift = octave > 1 ? static_cast<unsigned>(octave) - 1 : 0;
    const uint64_t mantissa = index - (size_t{shift} << sub_bits);
    return (mantissa << shift) + ((uint64_t{1} << shift) - 1);
  }

  std::array<uint64_t, bucket_count + (size_t{1} << sub_bits)> counts_{};
  uint64_t total_ = 0;
  double sum_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
};

}  // namespace tandem::bench
