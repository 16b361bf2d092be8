// Which processor runs which task of a batch.
//
// Thread safety: any thread.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "pipeline/scheduler.hpp"
#include "query/plan.hpp"

namespace tandem {

enum class Preset : std::uint8_t {
  cpu,        // the host does everything
  automatic,  // a device searches for batches that are large enough: what they wait for it they would have searched for
  mirrored,   // for every batch (to try it)
};

inline constexpr std::array<std::string_view, 3> preset_names = {"cpu", "auto", "mirrored"};

// A constant plan for each preset, and the scheduler's measured threshold between them.
class Planner {
 public:
  // scheduler: of the device; nullptr: there is none. It outlives the planner.
  Planner(Preset preset, const Scheduler* scheduler) noexcept
      : scheduler_(preset == Preset::cpu ? nullptr : scheduler), is_forced_(preset == Preset::mirrored) {}

  bool uses_device() const noexcept { return scheduler_ != nullptr; }
  const Plan& plan_for(std::uint32_t queries) const noexcept {
    if (scheduler_ == nullptr || queries == 0 || !scheduler_->serves()) return plan_cpu;
    return is_forced_ || queries >= scheduler_->queries_min() ? plan_mirrored : plan_cpu;
  }

 private:
  const Scheduler* scheduler_;
  bool is_forced_;
};

}  // namespace tandem
