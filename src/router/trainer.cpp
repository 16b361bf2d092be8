#include "router/trainer.hpp"

#include <cmath>
#include <new>

#include "base/memory_budget.hpp"

namespace tandem {

std::unique_ptr<HotModel> Trainer::step(std::uint64_t now_ns, const Measured& measured) noexcept {
  HotRule rule{.threshold = options_.threshold};
  if (options_.threshold <= 0) rule = controller_.decide(now_ns, measured);
  shadow_ = popularity_->shadow(rule);
  const bool is_emptied = shadow_.size == 0 && hot_size_ != 0;
  if (shadow_.moved < options_.moved_min && !is_emptied) return nullptr;
  return popularity_->model();
}

void Trainer::adopt() noexcept {
  popularity_->adopt();
  hot_size_ = shadow_.size;
}

namespace {

template <class P, class Options>
std::unique_ptr<Popularity> make(const Options& options, MemoryBudget& budget, std::uint64_t& bytes) noexcept {
  bytes = P::bytes_for(options);
  if (!budget.take(bytes)) return nullptr;
  std::unique_ptr<P> made(new (std::nothrow) P(options));
  if (made != nullptr && made->is_valid()) return made;
  budget.give_back(bytes);
  return nullptr;
}

}  // namespace

std::unique_ptr<Popularity> make_popularity(const RouterOptions& options, MemoryBudget& budget,
                                            std::uint64_t& bytes) noexcept {
  if (options.kind == PopularityKind::histogram) return make<HistogramPopularity>(options.histogram, budget, bytes);
  constexpr std::uint32_t bits_least = 16;
  SketchOptions sketch = options.sketch;
  for (;; --sketch.bits) {
    auto made = make<SketchPopularity>(sketch, budget, bytes);
    if (made != nullptr || sketch.bits <= bits_least) return made;
  }
}

std::uint32_t sampling_shift(std::uint32_t now, double queries_per_s, double samples_per_s) noexcept {
  constexpr double most = 1.25, least = 0.45;  // less than half: a shift more must not be too few
  std::uint32_t shift = std::min(now, Samples::shift_max);
  const auto taken = [&] { return queries_per_s / std::exp2(shift); };
  while (shift < Samples::shift_max && taken() > most * samples_per_s) ++shift;
  while (shift > 0 && taken() < least * samples_per_s) --shift;
  return shift;
}

}  // namespace tandem
