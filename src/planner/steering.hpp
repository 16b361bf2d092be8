// The controller beside the threads whose plans it chooses: sums what these report, and publishes the choice.
//
// Thread safety: any thread; steer() one thread at a time, a scheduler's.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "observe/counters.hpp"
#include "pipeline/scheduler.hpp"
#include "planner/controller.hpp"

namespace tandem {

// What one thread has done: written by it alone.
struct alignas(64) PlanBoard {
  std::array<Counter, plan_options_max> queries, ticks;
  Counter sets, bytes;
  unsigned number = 0;
};

struct SteeringStats {
  PlanChoice choice;
  ControllerCounts counts;
  std::array<double, plan_options_max> measured_ns{};  // with the present load; 0: not measured
  double set_share = 0;
  static std::string_view name_of(std::uint8_t option) noexcept { return option == 2 ? "gpu" : "cpu"; }
  // Calls f(name, value) for each statistic by the name that users know: the value is a text, a number with a
  // fraction, or a count.
  template <class F>
  void for_each(F f) const {
    f("plan", name_of(choice.even));
    if (choice.odd != choice.even) f("plan_of_other_half", name_of(choice.odd));
    f("level", upkeep_level_names[static_cast<std::size_t>(choice.level)]);
    f("reason", plan_reason_names[static_cast<std::size_t>(choice.reason)]);
    f("set_percent", 100 * set_share);
    f("cpu_ns", measured_ns[0]);
    f("cpu_beside_ns", measured_ns[1]);
    f("gpu_ns", measured_ns[2]);
    f("loads", counts.classes);
    f("probes", counts.probes);
    f("probe_loss_ms", static_cast<double>(counts.probe_loss_ns) / 1e6);
    f("takeovers", counts.takeovers);
    f("reverts", counts.reverts);
    f("rests", counts.rests);
    f("returns", counts.returns);
    f("trials", counts.trials);
  }
};

class Steering {
 public:
  enum : std::uint8_t { host_alone, host_beside, device, option_count };

  // level: with which a device is of use. Throws std::bad_alloc.
  explicit Steering(UpkeepLevel level, const ControllerOptions& rules = {})
      : options_{{{"cpu", UpkeepLevel::none, false}, {"cpu", level, false}, {"gpu", level, true}}},
        controller_(options_, rules) {}

  // For a thread that reports; it leaves with the last reference, before this ends. Throws std::bad_alloc.
  std::shared_ptr<PlanBoard> join();
  // The option of the thread with this number.
  std::uint8_t option_of(unsigned number) const noexcept {
    const std::uint32_t published = published_.load(std::memory_order_relaxed);
    return static_cast<std::uint8_t>(number % 2 == 0 ? published : published >> 8);
  }

  // Smaller batches are answered sooner by the host.
  std::uint32_t queries_min() const noexcept { return queries_min_.load(std::memory_order_relaxed); }

  // Decides by what was done since the last call. Called about as often as the result says.
  Steered steer(const DeviceWork& work, std::chrono::steady_clock::time_point now) noexcept;
  SteeringStats stats() const;

 private:
  struct Totals {
    std::array<std::uint64_t, plan_options_max> queries{}, ticks{};
    std::uint64_t sets = 0, bytes = 0;
    void add(const PlanBoard& board) noexcept;
  };
  static constexpr std::uint32_t queries_min_unmeasured = 512;
  void leave(PlanBoard* board) noexcept;
  void set_queries_min(double round_trip_ns) noexcept;
  PlannerSeen since_last(const DeviceWork& work, std::chrono::steady_clock::time_point time) noexcept;

  const std::array<PlanOption, option_count> options_;
  std::atomic<std::uint32_t> published_{host_alone | host_alone << 8};  // of even numbers; of odd ones << 8
  std::atomic<std::uint32_t> queries_min_{queries_min_unmeasured};
  mutable std::mutex mutex_;  // guards the rest
  Controller controller_;
  PlanChoice choice_;
  struct Member {
    std::unique_ptr<PlanBoard> board;
    std::uint64_t queries = 0;                          // that were seen
    std::chrono::steady_clock::time_point loaded_at{};  // when there were some
  };
  std::vector<Member> members_;
  Totals gone_, before_;
  DeviceWork work_before_{};
  std::chrono::steady_clock::time_point loaded_at_{};
};

}  // namespace tandem
