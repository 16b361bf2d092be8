#include "task/timer.hpp"

namespace tandem {
namespace {

// As `laps` calls of TaskTimer::lap() in a row.
std::uint64_t time_of_laps(std::uint64_t laps) noexcept {
  Counter cycles, queries;
  const std::uint64_t begin = cycles_now();
  std::uint64_t last = begin;
  for (std::uint64_t i = 0; i < laps; ++i) {
    const std::uint64_t now = cycles_now();
    cycles.add(now - last);
    queries.add(1);
    last = now;
  }
  return last - begin;
}

}  // namespace

std::uint64_t TaskTimer::own_ticks() noexcept {
  static const std::uint64_t ticks = [] {
    constexpr std::uint64_t laps = 256, runs = 32;
    std::uint64_t least = time_of_laps(laps);
    for (std::uint64_t i = 1; i < runs; ++i) least = std::min(least, time_of_laps(laps));
    return least / laps;
  }();
  return ticks;
}

}  // namespace tandem
