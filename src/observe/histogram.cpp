#include "observe/histogram.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tandem {

void HistogramTotals::add(const Histogram& h) noexcept {
  for (std::size_t b = 0; b < counts_.size(); ++b) counts_[b] += h.counts_[b].get();
  sum_ += h.sum_.get();
  max_ = std::max(max_, h.max_.get());
}

void HistogramTotals::add(const HistogramTotals& t) noexcept {
  for (std::size_t b = 0; b < counts_.size(); ++b) counts_[b] += t.counts_[b];
  sum_ += t.sum_;
  max_ = std::max(max_, t.max_);
}

void HistogramTotals::subtract(const HistogramTotals& t) noexcept {
  std::uint32_t highest = 0;
  bool any = false;
  for (std::uint32_t b = 0; b < counts_.size(); ++b) {
    counts_[b] -= std::min(counts_[b], t.counts_[b]);
    if (counts_[b] != 0) highest = b, any = true;
  }
  sum_ -= std::min(sum_, t.sum_);
  // The recorded maximum may be of before the reset.
  if (!any) {
    max_ = 0;
  } else if (highest + 1 < histogram::bucket_count) {
    max_ = std::min(max_, histogram::lower_bound(highest + 1) - 1);
  }
}

std::uint64_t HistogramTotals::count() const noexcept {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

double HistogramTotals::quantile(double share) const noexcept {
  const std::uint64_t all = count();
  if (all == 0) return 0;
  const auto rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(all))));
  std::uint64_t seen = 0;
  for (std::uint32_t b = 0; b < counts_.size(); ++b) {
    seen += counts_[b];
    if (seen >= rank) return std::min(histogram::middle(b), static_cast<double>(max_));
  }
  return static_cast<double>(max_);
}

std::uint64_t HistogramTotals::count_up_to(double value) const noexcept {
  std::uint64_t seen = 0;
  for (std::uint32_t b = 0; b < counts_.size() && histogram::middle(b) <= value; ++b) seen += counts_[b];
  return seen;
}

}  // namespace tandem
