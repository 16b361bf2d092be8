// What the router takes: of a query (a bit, a sample), and of the trainer's thread (a sample, a shadow, a model).
#include <benchmark/benchmark.h>

#include <vector>

#include "router/hot_controller.hpp"
#include "router/router_test_support.hpp"
#include "router/sketch_popularity.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t keys = 10'000'000;
constexpr std::uint32_t draws = 1 << 20;  // a mask's worth

const std::vector<Fingerprint>& drawn(double theta) {
  static const auto make = [](double t) {
    std::vector<Fingerprint> all(draws);
    DrawnKeys from(keys, t, 1);
    for (Fingerprint& f : all) f = DrawnKeys::fingerprint(from.draw());
    return all;
  };
  static const std::vector<Fingerprint> steep = make(0.99), flat = make(0.5);
  return theta > 0.9 ? steep : flat;
}

std::unique_ptr<HotModel> hottest() {
  std::vector<Fingerprint> hot;
  for (std::uint64_t rank = 0; rank < 16 * 1024; ++rank) hot.push_back(DrawnKeys::fingerprint(rank));
  return HotModel::of_keys(hot);
}

void BM_may_be_hot(benchmark::State& state) {
  const auto model = hottest();
  const auto& all = drawn(0.99);
  std::uint32_t i = 0;
  std::uint64_t hot = 0;
  for (auto _ : state) hot += model->may_be_hot(all[i++ % draws]);
  benchmark::DoNotOptimize(hot);
}

void BM_is_hot(benchmark::State& state) {
  const auto model = hottest();
  const auto& all = drawn(0.99);
  std::uint32_t i = 0;
  std::uint64_t hot = 0;
  for (auto _ : state) hot += model->is_hot(all[i++ % draws]);
  benchmark::DoNotOptimize(hot);
}

// By 2^s; the ring is fetched now and then.
void BM_offer(benchmark::State& state) {
  Samples samples(1, true);
  samples.set_shift(static_cast<std::uint32_t>(state.range(0)));
  std::vector<Sample> some(Samples::capacity);
  const auto& all = drawn(0.99);
  std::uint32_t i = 0;
  for (auto _ : state) {
    samples.offer(all[i % draws], false);
    if (++i % 1024 == 0) benchmark::DoNotOptimize(samples.take(some));
  }
}

// By the law's theta, in percent; a sample.
void BM_train(benchmark::State& state) {
  SketchPopularity popularity({});
  std::vector<Sample> all;
  for (const Fingerprint f : drawn(static_cast<double>(state.range(0)) / 100)) all.push_back(Sample::of(f, false));
  constexpr std::uint32_t piece = 512;
  std::uint32_t at = 0;
  for (auto _ : state) {
    popularity.train({all.data() + at, piece});
    at = (at + piece) % draws;
  }
  state.SetItemsProcessed(state.iterations() * piece);
  state.counters["a_sample"] = benchmark::Counter(static_cast<double>(state.iterations()) * piece,
                                                  benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

SketchPopularity& trained() {
  static SketchPopularity popularity({});
  static const bool is_trained = [] {
    DrawnKeys from(keys, 0.99, 1);
    train(popularity, from, 4'000'000);
    return true;
  }();
  benchmark::DoNotOptimize(is_trained);
  return popularity;
}

void BM_shadow(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(trained().shadow({}));
}

void BM_model(benchmark::State& state) {
  trained().shadow({});
  for (auto _ : state) benchmark::DoNotOptimize(trained().model());
}

BENCHMARK(BM_may_be_hot);
BENCHMARK(BM_is_hot);
BENCHMARK(BM_offer)->Arg(0)->Arg(6);
BENCHMARK(BM_train)->Arg(99)->Arg(50);
BENCHMARK(BM_shadow)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_model)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tandem
