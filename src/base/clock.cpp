#include "base/clock.hpp"

#include <algorithm>
#include <ctime>

namespace tandem {
namespace {
std::int64_t seconds_of(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return t.tv_sec;
}
}  // namespace

Clock::Clock() : monotonic_base_s_(seconds_of(CLOCK_MONOTONIC) - 2) { tick(); }

void Clock::resume(std::uint32_t now_s) noexcept {
  start_s_ = now_s;
  monotonic_base_s_ = seconds_of(CLOCK_MONOTONIC) - now_s;
  tick();
}

void Clock::tick() noexcept {
  if (frozen_.load(std::memory_order_relaxed) || paused_.load(std::memory_order_relaxed)) return;
  const std::int64_t seconds =
      seconds_of(CLOCK_MONOTONIC) - monotonic_base_s_ + ahead_s_.load(std::memory_order_relaxed);
  const auto now = static_cast<std::uint32_t>(std::clamp<std::int64_t>(seconds, 2, UINT32_MAX));
  now_s_.store(now, std::memory_order_relaxed);
  unix_base_s_.store(seconds_of(CLOCK_REALTIME) - now, std::memory_order_relaxed);
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
  if (!paused_.load(std::memory_order_relaxed)) return tick();
  const std::int64_t now = std::clamp<std::int64_t>(now_s() + seconds, 2, UINT32_MAX);
  now_s_.store(static_cast<std::uint32_t>(now), std::memory_order_relaxed);
}

void Clock::freeze_for_test(std::uint32_t now_s) noexcept {
  frozen_.store(true, std::memory_order_relaxed);
  now_s_.store(now_s, std::memory_order_relaxed);
}

}  // namespace tandem
