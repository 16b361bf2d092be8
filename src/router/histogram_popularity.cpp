#include "router/histogram_popularity.hpp"

#include <algorithm>
#include <cmath>
#include <new>

namespace tandem {
namespace {

HistogramOptions bounded(HistogramOptions options) noexcept {
  options.bins = std::clamp(options.bins, 1u, HotModel::class_count);
  return options;
}

}  // namespace

std::uint64_t HistogramPopularity::bytes_for(const HistogramOptions& options) noexcept {
  return bounded(options).bins * (sizeof(std::uint32_t) + 2 * sizeof(std::uint8_t));
}

HistogramPopularity::HistogramPopularity(const HistogramOptions& options) noexcept
    : options_(bounded(options)),
      counts_(new(std::nothrow) std::uint32_t[options_.bins]()),
      hot_(new(std::nothrow) std::uint8_t[options_.bins]()),
      chosen_(new(std::nothrow) std::uint8_t[options_.bins]()) {
  if (hot_ == nullptr || chosen_ == nullptr) counts_.reset();
}

void HistogramPopularity::train(std::span<const Sample> samples) noexcept {
  for (const Sample sample : samples) {
    const std::uint32_t bin = HotModel::bin_of(HotModel::class_of(sample.fingerprint()), options_.bins);
    ++counts_[bin];
    looked_hot_ += hot_[bin];
  }
  counted_ += samples.size();
  since_fade_ += samples.size();
  looked_ += samples.size();
  if (looked_ > 2 * looked_at) {
    looked_hot_ = looked_hot_ * looked_at / looked_;
    looked_ = looked_at;
  }
  if (since_fade_ < options_.window) return;
  for (std::uint32_t b = 0; b < options_.bins; ++b) counts_[b] /= 2;
  counted_ /= 2;
  since_fade_ = 0;
}

Shadow HistogramPopularity::shadow(const HotRule& rule) noexcept {
  const double all = std::max(static_cast<double>(counted_), 1.0);
  threshold_ = rule.threshold > 0 ? rule.threshold
                                  : options_.mean_times / options_.bins * std::exp2(std::max(rule.octaves, 0.0));
  Shadow shadow{.threshold = threshold_};
  std::uint64_t moved = 0;
  for (std::uint32_t b = 0; b < options_.bins; ++b) {
    const double least = (hot_[b] != 0 ? threshold_ / 2 : threshold_) * all;
    chosen_[b] = !rule.none && counts_[b] != 0 && counts_[b] >= least ? 1 : 0;
    shadow.size += chosen_[b];
    if (chosen_[b] == hot_[b]) continue;
    moved += counts_[b];
    ++(chosen_[b] != 0 ? shadow.entered : shadow.left);
  }
  shadow.moved = static_cast<double>(moved) / all;
  return shadow;
}

std::unique_ptr<HotModel> HistogramPopularity::model() noexcept {
  return HotModel::of_bins({chosen_.get(), options_.bins}, threshold_);
}

void HistogramPopularity::adopt() noexcept {
  std::copy_n(chosen_.get(), options_.bins, hot_.get());
  looked_ = looked_hot_ = 0;
}

double HistogramPopularity::hot_share() const noexcept {
  return looked_ == 0 ? 0 : static_cast<double>(looked_hot_) / static_cast<double>(looked_);
}

}  // namespace tandem
