#include "router/trainer.hpp"

#include <gtest/gtest.h>

#include "base/memory_budget.hpp"
#include "router/router_test_support.hpp"

namespace tandem {
namespace {

RouterOptions small() {
  RouterOptions options;
  options.sketch = {.hot_keys = 1024, .bits = 18, .learning = 1 << 16, .judged = 4096};
  return options;
}

// What step() is to do with shadows that the test gives.
class Given final : public Popularity {
 public:
  explicit Given(Shadow& shadow, HotRule& rule) : shadow_(shadow), rule_(rule) {}
  void train(std::span<const Sample>) noexcept override {}
  Shadow shadow(const HotRule& rule) noexcept override {
    rule_ = rule;
    return shadow_;
  }
  std::unique_ptr<HotModel> model() noexcept override { return HotModel::of_keys({}); }
  void adopt() noexcept override {}
  double hot_share() const noexcept override { return 0; }

 private:
  Shadow& shadow_;
  HotRule& rule_;
};

TEST(Trainer, PublishesWhatMovesAHundredthOfTheRequests) {
  Shadow shadow{.size = 100, .moved = 0.009};
  HotRule rule;
  Trainer trainer(std::make_unique<Given>(shadow, rule), {});
  EXPECT_EQ(trainer.step(1, {}), nullptr);
  shadow.moved = 0.011;
  EXPECT_NE(trainer.step(2, {}), nullptr);
  trainer.adopt();
  shadow.moved = 0.001;
  EXPECT_EQ(trainer.step(3, {}), nullptr);
  shadow.size = 0;  // the last hot keys have become cold, whatever they were
  EXPECT_NE(trainer.step(4, {}), nullptr);
  trainer.adopt();
  EXPECT_EQ(trainer.step(5, {}), nullptr);
}

TEST(Trainer, AFixedThresholdIsNotTheControllers) {
  Shadow shadow;
  HotRule rule;
  RouterOptions options;
  options.threshold = 1.3e-5;
  Trainer trainer(std::make_unique<Given>(shadow, rule), options);
  std::uint64_t operations = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    trainer.step(i * Trainer::step_ns, {.operations = operations += 1'000'000});
    ASSERT_EQ(rule.threshold, 1.3e-5);
    ASSERT_FALSE(rule.none);
  }
}

TEST(Trainer, LearnsWithEitherKind) {
  for (const PopularityKind kind : {PopularityKind::sketch, PopularityKind::histogram}) {
    RouterOptions options = small();
    options.kind = kind;
    MemoryBudget budget(64 << 20);
    std::uint64_t bytes = 0;
    Trainer trainer(make_popularity(options, budget, bytes), options);
    EXPECT_EQ(budget.used_bytes(), bytes);
    DrawnKeys keys(1'000'000, 0.99, 1);
    std::array<Sample, 256> some;
    for (unsigned i = 0; i < 1000; ++i) {
      for (Sample& s : some) s = Sample::of(DrawnKeys::fingerprint(keys.draw()), false);
      trainer.train(some);
    }
    const auto model = trainer.step(Trainer::step_ns, {});
    ASSERT_NE(model, nullptr);
    EXPECT_GT(hot_share_of(*model, keys), 0.25);
    EXPECT_EQ(model->threshold(), trainer.shadow().threshold);
  }
}

TEST(Trainer, WithLittleMemoryTheSketchIsSmaller) {
  RouterOptions options;
  std::uint64_t bytes = 0;
  MemoryBudget roomy(64 << 20);
  ASSERT_NE(make_popularity(options, roomy, bytes), nullptr);
  EXPECT_LE(bytes, 10 << 20);
  EXPECT_EQ(roomy.used_bytes(), bytes);
  MemoryBudget tight(2 << 20);
  ASSERT_NE(make_popularity(options, tight, bytes), nullptr);
  EXPECT_LE(tight.used_bytes(), 2 << 20);
  MemoryBudget none(1 << 16);
  EXPECT_EQ(make_popularity(options, none, bytes), nullptr);
  EXPECT_EQ(none.used_bytes(), 0);
}

TEST(SamplingShift, GivesAboutTheWantedRate) {
  for (const double queries : {1.0, 1e5, 1e6, 3e6, 1e8, 1e9}) {
    const std::uint32_t shift = sampling_shift(0, queries, 1e6);
    const double taken = queries / std::exp2(shift);
    EXPECT_LE(taken, 1.25e6) << queries;
    if (shift != 0) {
      EXPECT_GE(taken, 0.45e6) << queries;
    }
  }
  EXPECT_EQ(sampling_shift(10, 0, 1e6), 0);
  EXPECT_EQ(sampling_shift(Samples::off, 1e30, 1e6), Samples::shift_max);
  EXPECT_EQ(sampling_shift(0, std::nan(""), 1e6), 0);
}

// Rates that vary by a tenth around any rate do not change it twice.
TEST(SamplingShift, DoesNotGoToAndFro) {
  for (double queries = 1e5; queries < 1e9; queries *= 1.07) {
    const std::uint32_t first = sampling_shift(sampling_shift(0, 1.1 * queries, 1e6), 0.9 * queries, 1e6);
    EXPECT_EQ(sampling_shift(first, 1.1 * queries, 1e6), first) << queries;
  }
}

}  // namespace
}  // namespace tandem
