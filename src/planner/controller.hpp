// Chooses the upkeep level and the plan from what was measured, as load changes. A decision without a clock and without
// a thread: it is told the time, what workers did, and which level has been reached.
//
// A load is of a class (LoadClasses). With a class that it knows it chooses at once; with another one the host answers,
// or what the model predicts to be the best, and each option of the level is tried once, whatever is predicted of it.
// What runs is measured all the time, others by probes (PlanProbe), the more rarely the more often they lost.
//
// Levels: plans with a device are only worth what each SET pays for them if they save more. What a level gains over the
// other one is added up over time, loads of all classes together; leaving follows a small loss, since it takes a
// millisecond, and returning follows when the gain forgone has reached what a return costs (ski rental: at most twice
// the best in hindsight). A level whose plans are not known with a class is tried, each time after twice the pause.
//
// Source: DIDO IV (the plan follows a profiled load); conservative bandits (probes of a budget, in loss to what runs).
// Departure: what was measured with a load decides, a model only begins.
//
// Thread safety: one thread.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "planner/load_classes.hpp"
#include "planner/plan_option.hpp"
#include "planner/plan_probe.hpp"

namespace tandem {

struct ControllerOptions {
  std::uint64_t queries_min = 1024;  // of a window; one with fewer goes on
  unsigned settle = 2;               // windows that are not counted after a change
  double margin = 0.02;              // by which another option must be better
  double errors = 2.5;               // standard errors of a probe that it must be better, besides
  double budget = 0.01;              // of time, for probes, in what they lose to what runs
  // Of a worker, that a SET may pay for a device until a rest has shown it: three times 265 (decision 60), as a rest
  // that gains nothing costs milliseconds, and one that is missed as much as half of the host.
  double set_ns = 3 * 265;
  std::uint64_t undecided_ns = 100'000'000;     // after which a level with a device is the host's, or left
  std::uint64_t certified_ns = 30'000'000'000;  // how long what was measured counts against what runs
  std::uint64_t probe_pause_ns = 200'000'000, probe_pause_max_ns = 30'000'000'000;
  std::uint64_t leave_ns = 2'000'000, return_ns = 20'000'000;  // loss and gain that levels change at; ns of all workers
  std::uint64_t trial_pause_ns = 3'000'000'000, trial_pause_max_ns = 300'000'000'000;
  std::uint64_t idle_ns = 5'000'000'000;  // after which a level that costs nothing is wanted again
};

// Since the start.
struct ControllerCounts {
  std::uint64_t classes = 0;                             // that are known now
  std::uint64_t probes = 0, takeovers = 0, reverts = 0;  // reverts: at once, by what ran
  std::uint64_t probe_loss_ns = 0;                       // of all workers
  std::uint64_t rests = 0, returns = 0, trials = 0;      // trials: of the returns
};

class Controller {
 public:
  // The first option is the host's without a device, the next one the host's beside it; all others are of its level.
  // They outlive the controller. REQUIRES: two at least, plan_options_max at most. Throws std::bad_alloc.
  explicit Controller(std::span<const PlanOption> options, const ControllerOptions& rules = {})
      : options_(options), rules_(rules), idle_pause_ns_(rules.idle_ns) {
    choice_.level = device_level();
  }

  // Of what was seen since the last call.
  PlanChoice decide(const PlannerSeen& seen) noexcept;

  std::span<const PlanOption> options() const noexcept { return options_; }
  const ControllerCounts& counts() const noexcept { return counts_; }
  // Of the present class, ns of a worker a query with all workers; 0: not measured. REQUIRES: there is such an option.
  double measured_ns(std::size_t option) const noexcept { return class_ != nullptr ? class_->options[option].ns : 0; }
  double set_share() const noexcept { return class_ != nullptr ? class_->set_share : 0; }

 private:
  static constexpr std::uint8_t host_alone = 0, host_beside = 1;
  static constexpr unsigned windows_between_interrupts = 16;  // at least

  std::uint8_t count() const noexcept { return static_cast<std::uint8_t>(options_.size()); }
  UpkeepLevel device_level() const noexcept { return options_[host_beside].level; }
  bool is_resting() const noexcept { return reached_ == UpkeepLevel::none; }
  bool take_window(const PlannerSeen& seen, PlannerSeen& window) noexcept;
  bool is_interrupted(const PlannerSeen& window) noexcept;
  bool enter_class(const PlannerSeen& window) noexcept;
  std::uint64_t first_trial_pause_ns() const noexcept;
  PlanChoice wait_for_class() noexcept;
  void give_up_undecided() noexcept;
  void begin_class() noexcept;
  void turn(UpkeepLevel reached) noexcept;
  void run(std::uint8_t option, PlanReason reason) noexcept;
  void run_known(std::uint8_t option) noexcept;
  PlanReason reason_of(std::uint8_t option) const noexcept;
  void learn(const PlannerSeen& window) noexcept;
  void learn_crowding(KnownOption& known) noexcept;
  bool fills_device() const noexcept;
  void begin_probe(std::uint8_t other) noexcept;
  void break_probe() noexcept;
  void break_off() noexcept;
  void end_probe() noexcept;
  void choose() noexcept;
  std::uint8_t best() const noexcept;
  std::optional<std::uint8_t> due() const noexcept;
  double cost_of(std::uint8_t option) const noexcept;
  double alone_ns() const noexcept;
  double beside_ns() const noexcept;
  bool are_compared() const noexcept;
  bool begin_trial() noexcept;
  void weigh() noexcept;
  void weigh_beside() noexcept;
  void weigh_alone() noexcept;
  void look_idle() noexcept;
  void want(UpkeepLevel level) noexcept;

  const std::span<const PlanOption> options_;
  const ControllerOptions rules_;
  LoadClasses classes_;
  LoadClass* class_ = nullptr;
  std::optional<LoadClass> other_;  // of the last window, which was of no known class
  PlannerSeen window_{};            // that has not ended
  std::uint64_t now_ns_ = 0, window_from_ns_ = 0;
  std::uint64_t window_ns_ = 0;  // of the last one, in which workers were busy
  double last_window_ns_ = 0;    // of a query; 0: none
  unsigned since_interrupted_ = windows_between_interrupts;
  unsigned workers_ = 1;
  std::array<double, plan_options_max> predicted_ns_{};
  PlanChoice choice_{};
  std::uint8_t base_ = host_alone;
  std::optional<PlanProbe> probe_;
  std::uint64_t probe_from_ns_ = 0;
  bool takes_turns_ = false;  // half of the workers had no queries
  double expected_ns_ = 0;    // of what runs, by the probe after which it does
  unsigned settles_ = 0, learned_ = 0;
  double device_busy_ = 0;                // of the time, with what runs
  double credit_ns_ = 0, set_share_ = 0;  // the last one of the last window
  std::uint64_t undecided_ns_ = 0;        // that a device's level goes on without a comparison
  UpkeepLevel reached_ = UpkeepLevel::none;
  double balance_ns_ = 0;  // what the device's level has gained lately
  std::uint64_t left_ns_ = 0, wanted_ns_ = 0, return_took_ns_ = 0;
  std::uint64_t trials_from_ns_ = 0;  // of any class
  std::uint64_t idle_pause_ns_;       // of a rest that ends without load, at least; twice that for the next one
  unsigned overflows_ = 0;            // since the level was wanted
  bool is_trial_ = false, is_returning_ = false;
  ControllerCounts counts_;
};

}  // namespace tandem
