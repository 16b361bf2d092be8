// Popularity by a histogram: whole bins of keys are hot, from a share of the requests on. It learns steep loads whose
// hottest keys outweigh a bin, and nothing of flat ones: at theta 0.5 the hottest of 10 M keys has 1.6 bins' requests.
//
// Source: KVCG 7, 8.4 (10,000 bins). Departures: keys' bins are by their hash, as keys of real loads are no ranks;
// counts are halved each window of samples.
#pragma once
#include <memory>

#include "router/popularity.hpp"

namespace tandem {

struct HistogramOptions {
  std::uint32_t bins = 10'000;  // 1 at least, HotModel::class_count at most
  std::uint32_t window = 8 << 20;
  double mean_times = 4;  // of the mean bin, that a hot one must have
};

class HistogramPopularity final : public Popularity {
 public:
  explicit HistogramPopularity(const HistogramOptions& options) noexcept;
  bool is_valid() const noexcept { return counts_ != nullptr; }  // false: no memory
  static std::uint64_t bytes_for(const HistogramOptions& options) noexcept;

  void train(std::span<const Sample> samples) noexcept override;
  Shadow shadow(const HotRule& rule) noexcept override;
  std::unique_ptr<HotModel> model() noexcept override;
  void adopt() noexcept override;
  double hot_share() const noexcept override;

 private:
  static constexpr std::uint32_t looked_at = 16 * 1024;  // samples that the hot share is of, at least

  const HistogramOptions options_;
  std::unique_ptr<std::uint32_t[]> counts_;
  std::unique_ptr<std::uint8_t[]> hot_, chosen_;  // of the adopted model, of the shadow
  std::uint64_t counted_ = 0, since_fade_ = 0;
  std::uint64_t looked_ = 0, looked_hot_ = 0;
  double threshold_ = 0;
};

}  // namespace tandem
