// Chooses from which popularity on keys are hot, and whether any is, by what the store does with that choice. A
// decision without a clock and without a thread, as the planner's.
//
// - A hill climb over octaves above the least threshold: a window as it is, one with a step. A step that is better
//   stays; another one is taken back, and the next one is shorter and goes the other way. Better: the hot keys' p99
//   within the target, then more operations. Of what is equal more hot keys are better, if they are answered sooner
//   than cold ones. A threshold that no key passes is no choice.
// - A probe now and then without hot keys (or with them, where they did not pay), beside the windows before and after
//   it: what does more operations stays.
// Both begin again when the load has changed, by what is done with the same choice.
//
// Source: Caffeine's climber (Einziger et al., Adaptive software cache management, 2018). Departure: a step that does
// not pay is taken back at once.
//
// Thread safety: one thread.
#pragma once
#include <cstdint>

#include "router/popularity.hpp"

namespace tandem {

// What a store did.
struct Measured {
  std::uint64_t operations = 0;            // since the start
  double hot_p99_ns = 0, cold_p99_ns = 0;  // since the last reading; 0: there were none
};

struct HotControllerOptions {
  double latency_target_ns = 50'000;  // of hot keys' p99; 0: none
  double margin = 0.02;               // of operations, by which a probe must be better
  double equal = 0.01;                // operations that differ by less do not differ
  double changed = 0.05;              // operations that differ by more are of another load
  double step = 1, step_min = 0.125, step_max = 2, octaves_max = 12;
  std::uint64_t operations_min = 1024;                               // of a window; one with fewer says nothing
  std::uint64_t window_ns = 1'000'000'000, settle_ns = 100'000'000;  // settle: is not counted of a window
  std::uint64_t late_ns = 1'000'000'000;      // a call that comes later than this after the last one begins anew
  std::uint64_t cold_probe_ns = 200'000'000;  // without hot keys
  std::uint64_t hot_settle_ns = 500'000'000;  // of a probe with hot keys, of a window: until they are where they belong
  std::uint64_t pause_ns = 1'000'000'000;     // before the first probe of a load; twice that after each that lost
  std::uint64_t pause_max_ns = 30'000'000'000;
  std::uint64_t hot_pause_ns = 10'000'000'000, hot_pause_max_ns = 300'000'000'000;  // while there are no hot keys
  std::uint64_t restart_pause_ns = 10'000'000'000;  // between two loads; a load that changes all the time is one
};

class HotController {
 public:
  explicit HotController(const HotControllerOptions& rules = {}) noexcept
      : rules_(rules), step_(rules.step), pause_ns_(rules.pause_ns) {}

  // By what was seen since the last call, 100 ms ago or so.
  HotRule decide(std::uint64_t now_ns, const Measured& measured) noexcept;

  // What it has settled on: not a trial's or a probe's.
  bool is_cold() const noexcept { return is_cold_; }
  double octaves() const noexcept { return octaves_; }
  std::uint64_t restarts() const noexcept { return restarts_; }

 private:
  enum class Phase : std::uint8_t { base, trial, probe };
  struct Window {
    double rate = 0;                         // operations a second; 0: not measured
    double hot_p99_ns = 0, cold_p99_ns = 0;  // means of readings; 0: there were none
  };
  struct Mean {
    double sum = 0;
    unsigned count = 0;
    void add(double value) noexcept {
      if (!(value > 0)) return;
      sum += value;
      ++count;
    }
    double value() const noexcept { return count == 0 ? 0 : sum / count; }
  };

  void begin(Phase phase) noexcept;
  bool take(const Measured& measured) noexcept;
  bool fits(const Window& window) const noexcept;
  static bool has_none(const Window& window) noexcept;
  static bool is_hot_sooner(const Window& window) noexcept {
    return window.cold_p99_ns == 0 || window.hot_p99_ns <= window.cold_p99_ns;
  }
  bool is_better(const Window& trial) const noexcept;
  void end_base() noexcept;
  void end_trial() noexcept;
  void judge_probe(const Window& after) noexcept;
  void look_for_change(const Window& window) noexcept;
  HotRule rule() const noexcept;

  const HotControllerOptions rules_;
  Phase phase_ = Phase::base;
  bool is_begun_ = false;
  bool is_cold_ = false;
  std::uint64_t now_ns_ = 0, begun_ns_ = 0;  // of the phase
  // Since the phase has settled.
  std::uint64_t counted_ns_ = 0, operations_ = 0, last_operations_ = 0;
  bool counts_ = false;
  Mean hot_p99_, cold_p99_;
  Window window_, base_, probe_;
  bool has_probed_ = false;  // probe_ waits for the window after it
  double octaves_ = 0, trial_octaves_ = 0;
  double step_;
  int direction_ = 1;
  double best_rate_ = 0;  // of windows lately, with this load
  std::uint64_t pause_ns_, probe_at_ns_ = 0, restarted_ns_ = 0;
  std::uint64_t restarts_ = 0;
};

}  // namespace tandem
