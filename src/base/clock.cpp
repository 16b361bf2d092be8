#include "base/clock.hpp"

#include <algorithm>
#include <ctime>

#include "base/ticks.hpp"

namespace tandem {
namespace {

constexpr std::int64_t ns_per_s = 1'000'000'000;
// After the two seconds with another meaning; and the last one that an item's expiry can hold.
constexpr std::int64_t store_s_min = 2, store_s_max = UINT32_MAX;
// Leaves a restarted store time: half of its seconds.
constexpr std::int64_t resumed_s_max = std::int64_t{1} << 31;

std::int64_t ns_of(clockid_t id) noexcept {
  timespec t{};
  clock_gettime(id, &t);
  return std::int64_t{t.tv_sec} * ns_per_s + t.tv_nsec;
}

class OfTheSystem final : public TimeSource {
 public:
  SystemTime now() const noexcept override {
    // If the thread is preempted between the two clock readings, they differ by that time, and each restart would keep
    // the difference.
    constexpr std::int64_t apart_ns = 20'000;
    constexpr int attempts = 8;
    SystemTime best{};
    std::int64_t best_ns = INT64_MAX;
    for (int i = 0; i < attempts && best_ns > apart_ns; ++i) {
      const std::int64_t before = ns_of(CLOCK_MONOTONIC);
      const std::int64_t wall = ns_of(CLOCK_REALTIME);
      const std::int64_t took = ns_of(CLOCK_MONOTONIC) - before;
      if (took >= best_ns) continue;
      best_ns = took;
      best = {.monotonic_ns = before + took / 2, .unix_ns = wall};
    }
    return best;
  }
};

}  // namespace

const TimeSource& TimeSource::of_the_system() noexcept {
  static const OfTheSystem source;
  return source;
}

Clock::Clock(const TimeSource& source)
    : source_(source), monotonic_base_ns_(source.now().monotonic_ns - store_s_min * ns_per_s) {
  tick();
}

void Clock::resume(const StoreTime& saved) noexcept {
  const SystemTime system = source_.now();
  const std::int64_t away_ns = std::clamp<std::int64_t>(system.unix_ns - saved.unix_ns, 0, resumed_s_max * ns_per_s);
  const std::int64_t store_ns = std::clamp(std::min(saved.store_ns, resumed_s_max * ns_per_s) + away_ns,
                                           store_s_min * ns_per_s, resumed_s_max * ns_per_s);
  monotonic_base_ns_ = system.monotonic_ns - store_ns;
  set(static_cast<std::uint32_t>(store_ns / ns_per_s));
  tick();
  start_s_ = now_s();
}

std::int64_t Clock::store_ns(const SystemTime& system) const noexcept {
  const std::int64_t own_ns = system.monotonic_ns - monotonic_base_ns_;
  const std::int64_t seconds =
      std::clamp<std::int64_t>(own_ns / ns_per_s + ahead_s_.load(std::memory_order_relaxed), store_s_min, store_s_max);
  return seconds * ns_per_s + own_ns % ns_per_s;
}

StoreTime Clock::moment() const noexcept {
  const SystemTime system = source_.now();
  const bool is_frozen = frozen_.load(std::memory_order_relaxed);
  return {.store_ns = is_frozen ? std::int64_t{now_s()} * ns_per_s : store_ns(system), .unix_ns = system.unix_ns};
}

std::chrono::nanoseconds Clock::until_next_s() const noexcept {
  return std::chrono::nanoseconds(ns_per_s - store_ns(source_.now()) % ns_per_s);
}

void Clock::tick() noexcept {
  if (frozen_.load(std::memory_order_relaxed) || paused_.load(std::memory_order_relaxed)) return;
  // Errors of ns_per_tick(), as a share.
  constexpr double early = 1.0 / 1024;
  std::uint64_t seen = time_.load(std::memory_order_relaxed);
  const std::uint64_t ticks = cycles_now();
  const SystemTime system = source_.now();
  const std::int64_t now_ns = store_ns(system), now = now_ns / ns_per_s;
  const std::uint64_t next = (seen >> shifts_shift << shifts_shift) | static_cast<std::uint64_t>(now);
  // Another thread may have read the system's clocks later, and have been faster.
  while (seen < next && !time_.compare_exchange_weak(seen, next, std::memory_order_relaxed)) {
  }
  if (seen > next) return;
  unix_base_s_.store(system.unix_ns / ns_per_s - now, std::memory_order_relaxed);
  const auto left_ns = static_cast<double>(ns_per_s - now_ns % ns_per_s);
  due_ticks_.store(ticks + static_cast<std::uint64_t>(left_ns * (1 - early) / ns_per_tick()),
                   std::memory_order_relaxed);
}

// Also backwards.
void Clock::set(std::uint32_t now_s) noexcept {
  std::uint64_t seen = time_.load(std::memory_order_relaxed);
  while (!time_.compare_exchange_weak(seen, ((seen >> shifts_shift) + 1) << shifts_shift | now_s,
                                      std::memory_order_relaxed)) {
  }
}

std::uint32_t Clock::expiry_s(std::int64_t exptime) const noexcept {
  if (exptime == 0) return never;
  if (exptime < 0) return already_expired;
  if (exptime <= relative_max_s) return now_s() + static_cast<std::uint32_t>(exptime);
  const std::int64_t at = exptime - unix_base_s_.load(std::memory_order_relaxed);
  if (at <= already_expired) return already_expired;
  return at > UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(at);
}

void Clock::advance(std::int64_t seconds) noexcept {
  ahead_s_.fetch_add(seconds, std::memory_order_relaxed);
  const bool is_paused = paused_.load(std::memory_order_relaxed);
  if (!is_paused && frozen_.load(std::memory_order_relaxed)) return;
  const std::int64_t now = is_paused ? std::clamp<std::int64_t>(now_s() + seconds, store_s_min, store_s_max)
                                     : store_ns(source_.now()) / ns_per_s;
  set(static_cast<std::uint32_t>(now));
  tick();
}

void Clock::freeze_for_test(std::uint32_t now_s) noexcept {
  frozen_.store(true, std::memory_order_relaxed);
  set(now_s);
}

}  // namespace tandem
