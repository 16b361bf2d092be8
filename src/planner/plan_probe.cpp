#include "planner/plan_probe.hpp"

#include <algorithm>
#include <cmath>

namespace tandem {

PlanProbe::Arms PlanProbe::arms() const noexcept {
  const bool is_middle = step_ == 1 || step_ == 2;
  if (takes_turns_) {
    const std::uint8_t now = is_middle ? other_ : base_;
    return {now, now};
  }
  return is_middle ? Arms{other_, base_} : Arms{base_, other_};
}

bool PlanProbe::add(const std::array<PlanUse, plan_options_max>& use) noexcept {
  if (waits_ != 0) return --waits_, true;
  const PlanUse &base = use[base_], &other = use[other_];
  const Arms now = arms();
  const bool needs_base = now.even == base_ || now.odd == base_, needs_other = now.even == other_ || now.odd == other_;
  if ((needs_base && base.queries < queries_min) || (needs_other && other.queries < queries_min))
    return ++empty_ != empty_max;
  if (needs_base) base_logs_[bases_++] = std::log(base.ns_a_query());
  if (needs_other) {
    other_logs_[others_++] = std::log(other.ns_a_query());
    of_other_ += other;
  }
  if (++windows_ != windows_a_step) return true;
  windows_ = 0;
  const Arms before = now;
  ++step_;
  if (step_ == steps()) return false;
  const Arms next = arms();
  waits_ = next.even != before.even || next.odd != before.odd ? settle_ : 0;
  return true;
}

PlanProbe::Result PlanProbe::result() const noexcept {
  if (step_ != steps()) return {};
  const unsigned count = std::min(bases_, others_);
  double base = 0, other = 0;
  for (unsigned i = 0; i < count; ++i) {
    base += base_logs_[i] / count;
    other += other_logs_[i] / count;
  }
  // Within steps: workers that differ are no error.
  double squares = 0;
  for (unsigned i = 0; i + 1 < count; i += windows_a_step) {
    const double difference = other_logs_[i + 1] - base_logs_[i + 1] - (other_logs_[i] - base_logs_[i]);
    squares += difference * difference / 2;
  }
  const unsigned groups = count / windows_a_step;
  return {.base_log = base,
          .other_log = other,
          .error = std::sqrt(squares / groups / count),
          .device_ns = static_cast<double>(of_other_.device_ns) / static_cast<double>(of_other_.queries),
          .is_valid = true};
}

}  // namespace tandem
