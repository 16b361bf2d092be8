// A log-linear histogram of latencies, like HdrHistogram. (The server's own, observe/histogram.hpp, has eight times
// coarser buckets: it must be small and readable while it is written.)
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace tandem::load {

// Counts of 64-bit values. Values below 256 are exact, larger ones fall into 128 buckets per power of two, so a value
// read back is at most 0.8 % too high and never too low. Thread safety: none.
class Histogram {
 public:
  static constexpr unsigned sub_bits = 7;
  static constexpr std::size_t bucket_count = (std::size_t{64 - sub_bits} << sub_bits) + (std::size_t{1} << sub_bits);

  void add(std::uint64_t value, std::uint64_t count = 1) noexcept {
    counts_[index_of(value)] += count;
    total_ += count;
    sum_ += static_cast<double>(value) * static_cast<double>(count);
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }

  void merge(const Histogram& other) noexcept {
    for (std::size_t i = 0; i < bucket_count; ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
    sum_ += other.sum_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }

  std::uint64_t total() const noexcept { return total_; }
  std::uint64_t min() const noexcept { return total_ == 0 ? 0 : min_; }
  std::uint64_t max() const noexcept { return max_; }
  double mean() const noexcept { return total_ == 0 ? 0.0 : sum_ / static_cast<double>(total_); }
  std::uint64_t count_of(std::size_t bucket) const noexcept { return counts_[bucket]; }

  // The smallest recorded value (rounded up to its bucket's end) that `fraction` of all values do not exceed; 0 if
  // empty.
  std::uint64_t quantile(double fraction) const noexcept {
    const auto wanted = static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(total_)));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < bucket_count; ++i) {
      seen += counts_[i];
      if (seen >= wanted && seen > 0) return std::min(last_of(i), max_);
    }
    return 0;
  }

  // The bucket of a value, and the largest value of a bucket.
  static std::size_t index_of(std::uint64_t value) noexcept {
    const auto width = static_cast<unsigned>(std::bit_width(value));
    const unsigned shift = width > sub_bits + 1 ? width - sub_bits - 1 : 0;
    return (std::size_t{shift} << sub_bits) + static_cast<std::size_t>(value >> shift);
  }
  static std::uint64_t last_of(std::size_t index) noexcept {
    const std::size_t octave = index >> sub_bits;
    const unsigned shift = octave > 1 ? static_cast<unsigned>(octave) - 1 : 0;
    const std::uint64_t mantissa = index - (std::size_t{shift} << sub_bits);
    return (mantissa << shift) + ((std::uint64_t{1} << shift) - 1);
  }

 private:
  std::array<std::uint64_t, bucket_count> counts_{};
  std::uint64_t total_ = 0;
  double sum_ = 0;
  std::uint64_t min_ = UINT64_MAX;
  std::uint64_t max_ = 0;
};

}  // namespace tandem::load
