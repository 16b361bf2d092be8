#include "base/ticks.hpp"

#include <chrono>
#include <cstdint>

#include "base/platform.hpp"

namespace tandem {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct Instant {
  SteadyClock::time_point time;
  std::uint64_t ticks;
};

// Both clocks at one instant: of several readings the one with the least time between its two ends.
Instant instant() {
  Instant best{};
  auto best_gap = SteadyClock::duration::max();
  for (int i = 0; i < 16; ++i) {
    const auto before = SteadyClock::now();
    const std::uint64_t ticks = cycles_now();
    const auto gap = SteadyClock::now() - before;
    if (gap >= best_gap) continue;
    best_gap = gap;
    best = {before + gap / 2, ticks};
  }
  return best;
}

double measure() {
  constexpr auto span = std::chrono::milliseconds(2);
  const Instant begin = instant();
  while (SteadyClock::now() - begin.time < span) cpu_relax();
  const Instant end = instant();
  const auto ns = std::chrono::duration<double, std::nano>(end.time - begin.time).count();
  const auto ticks = static_cast<double>(end.ticks - begin.ticks);
  return ticks > 0 && ns > 0 ? ns / ticks : 1;
}

}  // namespace

double ns_per_tick() {
  static const double value = measure();
  return value;
}

}  // namespace tandem
