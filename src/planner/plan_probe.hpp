// A comparison of two options by demands: half of the workers run the one, half the other, then they exchange them, so
// that neither the machine's load nor what a worker's connections ask for decides. One worker runs A B B A.
//
// Windows after an exchange are not counted: batches under way are the other option's.
//
// Thread safety: one thread.
#pragma once
#include <array>
#include <cstdint>

#include "planner/plan_option.hpp"

namespace tandem {

class PlanProbe {
 public:
  struct Arms {
    std::uint8_t even = 0, odd = 0;
  };
  struct Result {
    double base_log = 0, other_log = 0;  // of ns of a worker a query
    double error = 0;                    // standard error of their difference
    double device_ns = 0;                // of `other`, a query
    bool is_valid = false;
  };

  // settle: windows that are not counted. takes_turns: there is one worker.
  PlanProbe(std::uint8_t base, std::uint8_t other, unsigned settle, bool takes_turns) noexcept
      : base_(base), other_(other), settle_(settle), takes_turns_(takes_turns), waits_(takes_turns ? 0 : settle) {}

  std::uint8_t base() const noexcept { return base_; }
  std::uint8_t other() const noexcept { return other_; }
  Arms arms() const noexcept;
  // What was done since the arms are as they are. False: it has ended.
  bool add(const std::array<PlanUse, plan_options_max>& use) noexcept;
  Result result() const noexcept;

 private:
  static constexpr unsigned steps_max = 4, windows_a_step = 2, samples_max = steps_max * windows_a_step;
  static constexpr unsigned empty_max = 16;          // windows without queries of an arm
  static constexpr std::uint64_t queries_min = 128;  // of an arm, in a window
  unsigned steps() const noexcept { return takes_turns_ ? steps_max : steps_max / 2; }

  std::uint8_t base_, other_;
  unsigned settle_;
  bool takes_turns_;
  unsigned step_ = 0, windows_ = 0, waits_, empty_ = 0, bases_ = 0, others_ = 0;
  std::array<double, samples_max> base_logs_{}, other_logs_{};
  PlanUse of_other_{};
};

}  // namespace tandem
