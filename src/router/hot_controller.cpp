#include "router/hot_controller.hpp"

#include <algorithm>
#include <cmath>

namespace tandem {

HotRule HotController::rule() const noexcept {
  const bool none = is_cold_ != (phase_ == Phase::probe);
  return {.octaves = phase_ == Phase::trial ? trial_octaves_ : octaves_, .none = none};
}

void HotController::begin(Phase phase) noexcept {
  phase_ = phase;
  begun_ns_ = now_ns_;
  counts_ = false;
  hot_p99_ = cold_p99_ = {};
}

// Whether the phase has ended; its window is window_ then.
bool HotController::take(const Measured& measured) noexcept {
  const bool probes_hot = phase_ == Phase::probe && is_cold_;
  const std::uint64_t settle_ns = probes_hot ? rules_.hot_settle_ns : rules_.settle_ns;
  const std::uint64_t end_ns = phase_ == Phase::probe && !is_cold_ ? rules_.cold_probe_ns : rules_.window_ns;
  if (now_ns_ - begun_ns_ < settle_ns) return false;
  if (!counts_) {
    counts_ = true;
    counted_ns_ = now_ns_;
    operations_ = measured.operations;
    return false;
  }
  hot_p99_.add(measured.hot_p99_ns);
  cold_p99_.add(measured.cold_p99_ns);
  if (now_ns_ - begun_ns_ < end_ns || now_ns_ == counted_ns_) return false;
  const std::uint64_t operations = measured.operations - operations_;
  if (operations < rules_.operations_min) {
    has_probed_ = false;
    base_ = {};
    begin(Phase::base);
    return false;
  }
  window_.rate = static_cast<double>(operations) * 1e9 / static_cast<double>(now_ns_ - counted_ns_);
  window_.hot_p99_ns = hot_p99_.value();
  window_.cold_p99_ns = cold_p99_.value();
  return true;
}

HotRule HotController::decide(std::uint64_t now_ns, const Measured& measured) noexcept {
  const bool is_late = now_ns < now_ns_ || now_ns - now_ns_ > rules_.late_ns || measured.operations < last_operations_;
  now_ns_ = now_ns;
  last_operations_ = measured.operations;
  if (!is_begun_ || is_late) {
    if (!is_begun_ || probe_at_ns_ > now_ns + pause_ns_) probe_at_ns_ = now_ns + pause_ns_;
    restarted_ns_ = std::min(restarted_ns_, now_ns);
    is_begun_ = true;
    has_probed_ = false;
    base_ = {};
    begin(Phase::base);
  } else if (take(measured)) {
    if (phase_ == Phase::base) {
      end_base();
    } else if (phase_ == Phase::trial) {
      end_trial();
    } else {
      probe_ = window_;
      has_probed_ = true;
      begin(Phase::base);
    }
  }
  return rule();
}

bool HotController::fits(const Window& window) const noexcept {
  return rules_.latency_target_ns <= 0 || window.hot_p99_ns <= rules_.latency_target_ns;
}

// Although keys may be hot.
bool HotController::has_none(const Window& window) noexcept {
  return window.hot_p99_ns == 0 && window.cold_p99_ns != 0;
}

void HotController::look_for_change(const Window& window) noexcept {
  if (base_.rate == 0 || std::abs(window.rate - base_.rate) <= rules_.changed * base_.rate) return;
  step_ = rules_.step;
  best_rate_ = 0;
  if (now_ns_ - restarted_ns_ < rules_.restart_pause_ns) return;
  restarted_ns_ = now_ns_;
  ++restarts_;
  pause_ns_ = rules_.pause_ns;
  probe_at_ns_ = std::min(probe_at_ns_, now_ns_ + pause_ns_);
}

// Without hot keys there is no latency of theirs: modes are compared by operations alone.
void HotController::judge_probe(const Window& after) noexcept {
  constexpr double probe_octaves = 3;
  const double base = (base_.rate + after.rate) / 2;
  // Who has the longer latency must be better, the other one only not worse.
  const bool must_gain = is_cold_ != is_hot_sooner(is_cold_ ? probe_ : base_);
  const bool wins = probe_.rate > (must_gain ? 1 + rules_.margin : 1 - rules_.equal) * base;
  has_probed_ = false;
  if (wins) {
    is_cold_ = !is_cold_;
    base_ = {};
    step_ = rules_.step;
    best_rate_ = 0;
    pause_ns_ = is_cold_ ? rules_.hot_pause_ns : rules_.pause_max_ns;
  } else {
    pause_ns_ = std::min(2 * pause_ns_, is_cold_ ? rules_.hot_pause_max_ns : rules_.pause_max_ns);
  }
  // Fewer hot keys may pay where more do not.
  if (is_cold_) octaves_ = octaves_ + 2 * probe_octaves > rules_.octaves_max ? 0 : octaves_ + probe_octaves;
  probe_at_ns_ = now_ns_ + pause_ns_;
}

void HotController::end_base() noexcept {
  const Window window = window_;
  look_for_change(window);
  if (has_probed_) {
    const bool was_cold = is_cold_;
    judge_probe(window);
    if (was_cold != is_cold_) return begin(Phase::base);
  }
  constexpr double forgotten = 0.02;  // of a window
  base_ = window;
  best_rate_ = std::max(base_.rate, best_rate_ + forgotten * (base_.rate - best_rate_));
  if (now_ns_ >= probe_at_ns_) return begin(Phase::probe);
  if (is_cold_) return begin(Phase::base);
  if (has_none(base_)) {
    direction_ = -1;
  } else if (!fits(base_)) {
    direction_ = 1;
  }
  const auto next = [&] { return std::clamp(octaves_ + direction_ * step_, 0.0, rules_.octaves_max); };
  trial_octaves_ = next();
  if (trial_octaves_ == octaves_) {
    direction_ = -direction_;
    trial_octaves_ = next();
  }
  begin(Phase::trial);
}

bool HotController::is_better(const Window& trial) const noexcept {
  if (has_none(base_)) return trial_octaves_ < octaves_;
  if (has_none(trial)) return false;
  if (fits(trial) != fits(base_)) return fits(trial);
  if (!fits(trial)) return trial.hot_p99_ns < (1 - rules_.equal) * base_.hot_p99_ns;
  if (trial.rate > (1 + rules_.equal) * base_.rate) return true;
  // Many equal steps would be a worse one.
  return (trial_octaves_ < octaves_) == is_hot_sooner(trial) && trial.rate >= (1 - rules_.equal) * base_.rate &&
         trial.rate >= (1 - rules_.margin) * best_rate_;
}

void HotController::end_trial() noexcept {
  constexpr double longer = 1.5, shorter = 0.5;
  if (is_better(window_)) {
    octaves_ = trial_octaves_;
    base_ = window_;
    step_ = std::min(longer * step_, rules_.step_max);
  } else {
    direction_ = -direction_;
    step_ = std::max(shorter * step_, rules_.step_min);
  }
  begin(Phase::base);
}

}  // namespace tandem
