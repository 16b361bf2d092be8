// The store's time: whole seconds since a base two seconds before it was (first) opened, so that 0 can mean "never" and
// 1 "already expired". All threads read it with a relaxed load: time changes at second boundaries, as in memcached. One
// thread advances it (tick), and so does each that is about to execute requests and finds the second over (keep): under
// a shortage of processors the first one may not run. The clock also knows the fraction, so that a store that is
// reopened again and again (warm restart) neither gains nor loses time.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/platform.hpp"

namespace tandem {

// The system's two clocks at one moment.
struct SystemTime {
  std::int64_t monotonic_ns;  // since some start; never steps
  std::int64_t unix_ns;       // may step
};
// A Clock's source of time. Thread safety: any thread.
class TimeSource {
 public:
  virtual ~TimeSource() = default;
  virtual SystemTime now() const noexcept = 0;
  static const TimeSource& of_the_system() noexcept;
};

// A moment by the store's clock and by the system's, from which a later process resumes.
struct StoreTime {
  std::int64_t store_ns;  // since the base; now_s() shows its whole seconds
  std::int64_t unix_ns;
};

class Clock {
 public:
  static constexpr std::uint32_t never = 0;
  static constexpr std::uint32_t already_expired = 1;
  // The largest relative time of a client; larger numbers are absolute Unix seconds (protocol.txt, "Expiration times").
  static constexpr std::int64_t relative_max_s = 60 * 60 * 24 * 30;

  explicit Clock(const TimeSource& source = TimeSource::of_the_system());
  std::uint32_t now_s() const noexcept { return static_cast<std::uint32_t>(time_.load(std::memory_order_relaxed)); }
  // Reads the system's clocks. Monotonic: a step of the wall clock changes only the translation of absolute times. Any
  // thread.
  void tick() noexcept;
  // Ticks if the second is over. ticks: cycles_now(). Any thread.
  TD_INLINE void keep(std::uint64_t ticks) noexcept {
    if (TD_UNLIKELY(ticks >= due_ticks_.load(std::memory_order_relaxed))) tick();
  }
  // Converts a client's exptime to the store's second: 0 never, negative already expired.
  std::uint32_t expiry_s(std::int64_t exptime) const noexcept;
  std::int64_t unix_s() const noexcept { return unix_base_s_.load(std::memory_order_relaxed) + now_s(); }
  std::uint32_t uptime_s() const noexcept { return now_s() - start_s_; }
  // The moment that a memory file keeps for resume(). Read at the call, so it may be after the last tick. Any thread.
  StoreTime moment() const noexcept;
  // Continues the clock of an earlier process's store (warm restart), plus the wall-clock time since then; if the wall
  // clock went back, none has passed. REQUIRES: no other thread uses the clock yet; 0 <= both values.
  void resume(const StoreTime& saved) noexcept;
  // How long now_s() stays valid. Any thread.
  std::chrono::nanoseconds until_next_s() const noexcept;
  // For debugging a running server: pauses, resumes, or shifts the clock permanently. Expiry follows.
  void pause() noexcept { paused_.store(true, std::memory_order_relaxed); }
  void resume() noexcept { paused_.store(false, std::memory_order_relaxed); }
  void advance(std::int64_t seconds) noexcept;
  // For tests: the clock no longer follows the system and is set by hand.
  void freeze_for_test(std::uint32_t now_s) noexcept;

 private:
  static constexpr int shifts_shift = 32;

  // The store's clock, independent of now_s() while that is paused.
  std::int64_t store_ns(const SystemTime& system) const noexcept;
  void set(std::uint32_t now_s) noexcept;

  const TimeSource& source_;
  // now_s(), and above it how often it was set by hand: a tick that was under way then changes nothing.
  std::atomic<std::uint64_t> time_{2};
  std::atomic<std::uint64_t> due_ticks_{0};  // when the second is over, or a little earlier
  std::atomic<std::int64_t> unix_base_s_{0};
  std::int64_t monotonic_base_ns_ = 0;
  std::uint32_t start_s_ = 2;
  std::atomic<std::int64_t> ahead_s_{0};
  std::atomic<bool> frozen_{false}, paused_{false};
};

}  // namespace tandem
