// The real controller over a simulated machine: workers, a device, levels and load, with a clock and a seed. For tests.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "planner/controller.hpp"

namespace tandem {

// What each option takes with a load: ns of a worker, and of the device.
struct WorldLoad {
  double set_share = 0, query_bytes = 64;
  std::array<double, plan_options_max> worker_ns{}, device_ns{}, predicted_ns{};
};

// What is wrong with what the controller is told, to see that tests find it.
enum class WorldFault : std::uint8_t { none, arms_exchanged, sets_not_told, device_not_told };

struct WorldOptions {
  unsigned workers = 16;
  double noise = 0.01, common_noise = 0.03;  // of a window of one option, and of all of them
  double share_noise = 0, bytes_noise = 0;   // of a window's SETs and bytes, lognormal
  double carry_over = 0.6;                   // of a tick after a change, that is the option's before
  double odd_takes = 1;                      // what queries of odd workers take, to those of even ones
  bool odd_are_idle = false;
  std::uint64_t leave_ns = 1'500'000, return_ns = 30'000'000;
  bool begins_at_rest = false;
  WorldFault fault = WorldFault::none;
};

class PlannerWorld {
 public:
  static constexpr std::uint64_t tick_ns = 1'000'000;
  static constexpr std::array<PlanOption, plan_options_max> options = {{{"cpu", UpkeepLevel::none, false},
                                                                        {"cpu", UpkeepLevel::items, false},
                                                                        {"located", UpkeepLevel::items, true},
                                                                        {"frames", UpkeepLevel::items, true}}};

  PlannerWorld(std::uint64_t seed, const WorldOptions& world, const ControllerOptions& rules = {})
      : world_(world), random_(seed), controller_(options, rules) {
    reached_ = world.begins_at_rest ? UpkeepLevel::none : UpkeepLevel::items;
    choice_ = controller_.decide({.now_ns = now_ns_, .level = reached_});
  }

  // A tick of this load; returns the queries that were done. lost: there is no device.
  double tick(const WorldLoad& load, bool lost = false) {
    move_level(lost);
    now_ns_ += tick_ns;
    common_ = 0.95 * common_ + std::sqrt(1 - 0.95 * 0.95) * world_.common_noise * normal_(random_);
    PlannerSeen seen{.now_ns = now_ns_, .workers = world_.workers, .predicted_ns = load.predicted_ns};
    const double done = work(load, seen);
    const auto queries = static_cast<std::uint64_t>(done);
    seen.queries = queries;
    const double share = std::min(1.0, load.set_share * std::exp(world_.share_noise * normal_(random_)));
    std::binomial_distribution<std::uint64_t> draw(std::max<std::uint64_t>(queries, 1), share);
    seen.sets = world_.fault == WorldFault::sets_not_told ? 0 : std::min(draw(random_), queries);
    seen.bytes = static_cast<std::uint64_t>(done * load.query_bytes * std::exp(world_.bytes_noise * normal_(random_)));
    seen.level = reached_;
    seen.has_device = !lost && choice_.level == reached_;
    tell_wrong(seen);
    const PlanChoice before = choice_;
    choice_ = controller_.decide(seen);
    if (choice_.level != before.level || (choice_.reason != PlanReason::probe && choice_.even != runs_)) ++changes_;
    if (choice_.reason != PlanReason::probe) runs_ = choice_.even;
    return done;
  }

  // What a constant option would have done in the last tick; a device's with all workers.
  double done_by(const WorldLoad& load, std::size_t option) const {
    return static_cast<double>(tick_ns) * std::exp(-common_) /
           std::max(load.worker_ns[option] / world_.workers, load.device_ns[option]);
  }
  double best_of(const WorldLoad& load, bool with_devices) const {
    double most = done_by(load, 0);
    for (std::size_t o = 1; with_devices && o < options.size(); ++o) most = std::max(most, done_by(load, o));
    return most;
  }

  const PlanChoice& choice() const { return choice_; }
  UpkeepLevel reached() const { return reached_; }
  std::uint64_t now_ns() const { return now_ns_; }
  const Controller& controller() const { return controller_; }
  unsigned changes() const { return changes_; }  // probes apart

 private:
  void move_level(bool lost) {
    if (lost) {
      reached_ = UpkeepLevel::none;
      turns_at_ns_ = 0;
    } else if (choice_.level == reached_) {
      turns_at_ns_ = 0;
    } else if (turns_at_ns_ == 0) {
      turns_at_ns_ = now_ns_ + (choice_.level == UpkeepLevel::none ? world_.leave_ns : world_.return_ns);
    } else if (now_ns_ >= turns_at_ns_) {
      reached_ = choice_.level;
    }
  }

  // Each half of the workers runs its option, the host's beside the device between two levels. A device that is full
  // has them wait.
  double work(const WorldLoad& load, PlannerSeen& seen) {
    struct Half {
      std::size_t option = 0;
      double workers = 0, ns = 0, queries = 0;
    };
    const unsigned odd = world_.workers / 2;
    std::array<Half, 2> halves = {Half{choice_.even, static_cast<double>(world_.workers - odd)},
                                  Half{choice_.odd, world_.odd_are_idle ? 0 : static_cast<double>(odd)}};
    double device_ns = 0;
    for (std::size_t h = 0; h < 2; ++h) {
      Half& half = halves[h];
      if (choice_.level != reached_) half.option = 1;
      const double own = load.worker_ns[half.option];
      const double before = last_[h] != half.option ? load.worker_ns[last_[h]] : own;
      half.ns = (own + world_.carry_over * (before - own)) * std::exp(common_ + world_.noise * normal_(random_)) *
                (h == 1 ? world_.odd_takes : 1);
      half.queries = half.workers * static_cast<double>(tick_ns) / half.ns;
      device_ns += half.queries * load.device_ns[half.option] * std::exp(common_);
      last_[h] = half.option;
    }
    double done = 0;
    for (Half& half : halves) {
      if (load.device_ns[half.option] > 0 && device_ns > static_cast<double>(tick_ns))
        half.queries *= static_cast<double>(tick_ns) / device_ns;
      PlanUse& use = seen.use[half.option];
      use.queries += static_cast<std::uint64_t>(half.queries);
      use.worker_ns += static_cast<std::uint64_t>(half.workers * static_cast<double>(tick_ns));
      use.device_ns += static_cast<std::uint64_t>(half.queries * load.device_ns[half.option]);
      done += half.queries;
    }
    return done;
  }

  void tell_wrong(PlannerSeen& seen) const {
    if (world_.fault == WorldFault::arms_exchanged && choice_.even != choice_.odd)
      std::swap(seen.use[choice_.even], seen.use[choice_.odd]);
    if (world_.fault == WorldFault::device_not_told) {
      for (PlanUse& use : seen.use) use.device_ns = 0;
    }
  }

  const WorldOptions world_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  Controller controller_;
  PlanChoice choice_;
  std::uint64_t now_ns_ = tick_ns, turns_at_ns_ = 0;
  UpkeepLevel reached_;
  double common_ = 0;
  std::array<std::size_t, 2> last_{};
  unsigned changes_ = 0;
  std::uint8_t runs_ = 0;
};

}  // namespace tandem
