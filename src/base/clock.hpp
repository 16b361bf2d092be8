// Time as the store counts it: whole seconds since a base two seconds before it was (first) opened, so that 0 can mean
// "never" and 1 "already over". Advanced by one thread (tick), read by all with a relaxed load: time moves on second
// boundaries, as in memcached.
#pragma once
#include <atomic>
#include <cstdint>

namespace tandem {

class Clock {
 public:
  static constexpr std::uint32_t never = 0;
  static constexpr std::uint32_t already_expired = 1;
  // A client's relative times end here; larger numbers are absolute Unix seconds (protocol.txt, "Expiration times").
  static constexpr std::int64_t relative_max_s = 60 * 60 * 24 * 30;

  Clock();
  std::uint32_t now_s() const noexcept { return now_s_.load(std::memory_order_relaxed); }
  // Reads the system's clocks. Monotonic: a step of the wall clock changes only how absolute times are translated.
  void tick() noexcept;
  // A client's exptime to the store's second: 0 never, negative already expired.
  std::uint32_t expiry_s(std::int64_t exptime) const noexcept;
  std::int64_t unix_s() const noexcept { return unix_base_s_.load(std::memory_order_relaxed) + now_s(); }
  std::uint32_t uptime_s() const noexcept { return now_s() - start_s_; }
  // Goes on from second `now_s` of a store that was here before (warm restart). Before any other thread uses the clock.
  void resume(std::uint32_t now_s) noexcept;
  // For debugging a running server: pauses, resumes, or shifts the clock for good. Expiry follows.
  void pause() noexcept { paused_.store(true, std::memory_order_relaxed); }
  void resume() noexcept { paused_.store(false, std::memory_order_relaxed); }
  void advance(std::int64_t seconds) noexcept;
  // For tests: stops following the system and moves by hand.
  void freeze_for_test(std::uint32_t now_s) noexcept;

 private:
  std::atomic<std::uint32_t> now_s_{2};
  std::atomic<std::int64_t> unix_base_s_{0};
  std::int64_t monotonic_base_s_ = 0;
  std::uint32_t start_s_ = 2;
  std::atomic<std::int64_t> ahead_s_{0};
  std::atomic<bool> frozen_{false}, paused_{false};
};

}  // namespace tandem
