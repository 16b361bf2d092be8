// What the router's thread decides, without the thread, a clock or the store: trains a shadow model, and says now and
// then that it is worth being published.
//
// Thread safety: one thread.
#pragma once
#include <memory>
#include <span>

#include "router/histogram_popularity.hpp"
#include "router/hot_controller.hpp"
#include "router/popularity.hpp"
#include "router/sketch_popularity.hpp"

namespace tandem {

class MemoryBudget;

enum class PopularityKind : std::uint8_t { sketch, histogram };

struct RouterOptions {
  PopularityKind kind = PopularityKind::sketch;
  SketchOptions sketch;  // sketch.hot_keys: how many keys may be hot
  HistogramOptions histogram;
  // The share of all requests from which on a key (or bin) is hot; 0: the controller chooses.
  double threshold = 0;
  HotControllerOptions controller;
  double samples_per_s = 1e6;  // of all workers
  double moved_min = 0.01;     // the share of all requests that a new model must move
};

class Trainer {
 public:
  // Pauses between steps: shorter ones would only be more models.
  static constexpr std::uint64_t step_ns = 100'000'000;

  // REQUIRES: a popularity.
  Trainer(std::unique_ptr<Popularity> popularity, const RouterOptions& options) noexcept
      : options_(options), popularity_(std::move(popularity)), controller_(options.controller) {}

  void train(std::span<const Sample> samples) noexcept { popularity_->train(samples); }
  // A model that is to be published; nullptr: the present one stays. Called each step_ns. REQUIRES: the last model was
  // adopted, and what is not in it has been turned cold; or it was not published.
  std::unique_ptr<HotModel> step(std::uint64_t now_ns, const Measured& measured) noexcept;
  // The last step's model is published.
  void adopt() noexcept;

  const Shadow& shadow() const noexcept { return shadow_; }
  double hot_share() const noexcept { return popularity_->hot_share(); }
  const HotController& controller() const noexcept { return controller_; }

 private:
  const RouterOptions options_;
  const std::unique_ptr<Popularity> popularity_;
  HotController controller_;
  Shadow shadow_;
  std::uint32_t hot_size_ = 0;  // of the adopted model
};

// Of the kind that is asked for; without memory for the sketch a smaller one. nullptr: there is no memory for that.
// bytes: of what was made, as taken from the budget.
std::unique_ptr<Popularity> make_popularity(const RouterOptions& options, MemoryBudget& budget,
                                            std::uint64_t& bytes) noexcept;

// One query in 2^shift is sampled: the shift for this number of queries a second. It changes late, so that it does not
// go to and fro.
std::uint32_t sampling_shift(std::uint32_t now, double queries_per_s, double samples_per_s) noexcept;

}  // namespace tandem
