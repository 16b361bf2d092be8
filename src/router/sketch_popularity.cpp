#include "router/sketch_popularity.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tandem {

void SketchPopularity::Candidate::count(bool write) noexcept {
  constexpr std::uint16_t most = 0xffff;
  if (reads == most || writes == most) {  // their ratio stays
    reads /= 2;
    writes /= 2;
  }
  ++(write ? writes : reads);
}

void SketchPopularity::Candidate::halve() noexcept {
  set_estimate(estimate() / 2);
  reads /= 2;
  writes /= 2;
}

// Twice as many candidates as hot keys: with two hot keys a line on the average 3 % of them find it full.
std::uint32_t SketchPopularity::lines_for(std::uint32_t hot_keys) noexcept {
  constexpr std::uint32_t least = 64, most = 1u << 26;
  return std::bit_ceil(std::clamp(hot_keys / 2, least, most));
}

std::uint64_t SketchPopularity::bytes_for(const SketchOptions& options) noexcept {
  const std::uint64_t lines = lines_for(options.hot_keys);
  return CountMin::bytes_for(std::clamp(options.bits, CountMin::bits_min, CountMin::bits_max)) +
         lines * (sizeof(Line) + line_keys * sizeof(std::uint32_t));
}

SketchPopularity::SketchPopularity(const SketchOptions& options) noexcept
    : options_(options),
      sketch_(options.bits),
      line_count_(lines_for(options.hot_keys)),
      lines_(new(std::nothrow) Line[line_count_]()),
      scores_(new(std::nothrow) std::uint32_t[std::uint64_t{line_count_} * line_keys]),
      learning_left_(options.learning) {
  if (scores_ == nullptr) lines_.reset();
}

void SketchPopularity::train(std::span<const Sample> samples) noexcept {
  const auto fetch = [&](std::size_t i) {
    sketch_.prefetch(samples[i].key());
    prefetch_write(&line_of(samples[i].key()));
  };
  for (std::size_t i = 0; i < std::min<std::size_t>(samples.size(), ahead); ++i) fetch(i);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (i + ahead < samples.size()) fetch(i + ahead);
    train(samples[i]);
  }
}

TD_INLINE void SketchPopularity::train(Sample sample) noexcept {
  const std::uint64_t key = sample.key();
  const std::uint32_t estimate = sketch_.add(key);
  offer(line_of(key), sample, estimate);
  if (learning_left_ != 0) --learning_left_;
  ++counted_;
  if (TD_UNLIKELY(++since_fade_ >= (is_unsteady_ ? options_.window : options_.steady_window))) fade();
  if (TD_UNLIKELY(++judged_ >= options_.judged)) judge();
}

TD_INLINE void SketchPopularity::offer(Line& line, Sample sample, std::uint32_t estimate) noexcept {
  const std::uint64_t key = sample.key();
  Candidate* least = &line.keys[0];
  for (Candidate& c : line.keys) {
    if (c.key == key) {
      c.state += Candidate::one;
      c.count(sample.is_write());
      judged_hot_ += c.is_hot();
      return;
    }
    if (c.estimate() < least->estimate()) least = &c;
  }
  if (estimate <= least->estimate()) return;
  if (TD_UNLIKELY(least->is_hot())) {
    lost_ += least->estimate();
    ++lost_keys_;
  }
  *least = {.key = key, .reads = 0, .writes = 0, .state = estimate * Candidate::one};
  least->count(sample.is_write());
}

// Whether the hot keys still have the share that they had. A model's first look may find less than its estimates
// promised, since the lucky ones among the keys were taken, but not half of it.
void SketchPopularity::judge() noexcept {
  constexpr double least_share = 0.02, falls_to = 0.75, first_falls_to = 0.5, weight = 1.0 / 8, unsteady = 0.1;
  const double share = static_cast<double>(judged_hot_) / judged_;
  const double before = is_fresh_ ? expected_ : steady_;
  judged_ = judged_hot_ = 0;
  if (learning_left_ == 0 && before > least_share && share < (is_fresh_ ? first_falls_to : falls_to) * before)
    return begin_anew();
  const double error = std::sqrt(steady_ / options_.judged);
  if (!is_fresh_ && std::abs(share - steady_) > unsteady * steady_ + 4 * error) is_unsteady_ = true;
  steady_ = is_fresh_ ? share : steady_ + weight * (share - steady_);
  is_fresh_ = false;
}

// Present hot keys keep half of what makes one hot: they stay while there is room.
void SketchPopularity::begin_anew() noexcept {
  const std::uint32_t kept = options_.learning_samples / 2;
  sketch_.clear();
  for_each([&](Candidate& c) {
    c.set_estimate(std::min(c.estimate(), kept));
    c.reads = c.writes = 0;
    if (!c.is_hot()) c = {};
  });
  counted_ = since_fade_ = lost_ = 0;
  learning_left_ = options_.learning;
  steady_ = expected_ = 0;
  is_fresh_ = is_unsteady_ = true;
  ++shifts_;
}

void SketchPopularity::fade() noexcept {
  sketch_.halve();
  for_each([](Candidate& c) { c.halve(); });
  counted_ /= 2;
  lost_ /= 2;
  since_fade_ = 0;
  is_unsteady_ = false;
}

double SketchPopularity::least_samples(const HotRule& rule) const noexcept {
  const double sure = learning_left_ != 0 ? options_.learning_samples : options_.hot_samples;
  if (rule.threshold > 0) return std::max(sure, rule.threshold * static_cast<double>(counted_));
  return std::max(sure, options_.mean_times * static_cast<double>(counted_) / std::max(sketch_.distinct(), 1.0));
}

// Marks the keys that are to be hot; returns the samples that are needed for that.
double SketchPopularity::choose(double least, const HotRule& rule) noexcept {
  std::uint32_t count = 0;
  for_each([&](const Candidate& c) {
    if (c.score() >= least) scores_[count++] = c.score();
  });
  std::uint32_t ties = count;  // keys with just the least score, for which there is room
  if (count > options_.hot_keys) {
    const auto begin = scores_.get(), end = begin + count, last = begin + options_.hot_keys;
    std::nth_element(begin, last, end, std::greater<>());
    least = *last;
    ties =
        options_.hot_keys - static_cast<std::uint32_t>(std::count_if(begin, last, [&](auto s) { return s > *last; }));
  }
  if (rule.threshold == 0 && rule.octaves > 0) {
    least *= std::exp2(rule.octaves);
    ties = count;
  }
  for_each([&](Candidate& c) {
    const bool is_tie = c.score() == least;
    c.choose(!rule.none && c.score() >= least && (!is_tie || ties != 0));
    if (c.is_chosen() && is_tie) --ties;
  });
  return least;
}

Shadow SketchPopularity::shadow(const HotRule& rule) noexcept {
  const double least = choose(least_samples(rule), rule);
  const double all = std::max(static_cast<double>(counted_), 1.0);
  threshold_ = least / all;
  Shadow shadow{.left = lost_keys_, .threshold = threshold_};
  std::uint64_t moved = lost_;
  for_each([&](const Candidate& c) {
    shadow.size += c.is_chosen();
    if (c.is_chosen() == c.is_hot()) return;
    moved += c.estimate();
    ++(c.is_chosen() ? shadow.entered : shadow.left);
  });
  shadow.moved = static_cast<double>(moved) / all;
  return shadow;
}

std::unique_ptr<HotModel> SketchPopularity::model() noexcept {
  std::uint32_t count = 0;
  for_each([&](const Candidate& c) { count += c.is_chosen(); });
  const std::unique_ptr<Fingerprint[]> keys(new (std::nothrow) Fingerprint[std::max(count, 1u)]);
  if (keys == nullptr) return nullptr;
  std::uint32_t at = 0;
  for_each([&](const Candidate& c) {
    if (c.is_chosen()) keys[at++] = Sample{c.key}.fingerprint();
  });
  return HotModel::of_keys({keys.get(), count}, threshold_);
}

void SketchPopularity::adopt() noexcept {
  std::uint64_t hot = 0;
  for_each([&](Candidate& c) {
    c.adopt();
    if (c.is_hot()) hot += c.estimate();
  });
  expected_ = static_cast<double>(hot) / std::max(static_cast<double>(counted_), 1.0);
  lost_ = lost_keys_ = 0;
  judged_ = judged_hot_ = 0;
  is_fresh_ = true;
}

SketchPopularity::Counted SketchPopularity::counted(Fingerprint f) const noexcept {
  const std::uint64_t key = key_word(f);
  for (const Candidate& c : line_of(key).keys) {
    if (c.key == key) return {c.reads, c.writes, c.estimate(), c.is_hot()};
  }
  return {};
}

}  // namespace tandem
