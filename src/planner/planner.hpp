// Which processor runs which task of a batch.
//
// Thread safety: any thread.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "pipeline/schedulers.hpp"
#include "placement/index_placement.hpp"
#include "plan/placement.hpp"

namespace tandem {

enum class Preset : std::uint8_t {
  cpu,        // the host does everything
  automatic,  // a device searches for batches that are large enough: what they wait for it they would have searched for
  mirrored,   // for every batch (to try it)
  mega_kv,    // the same, and the index is in devices' memory alone (EngineOptions::index_on_device)
};

inline constexpr std::array<std::string_view, 4> preset_names = {"cpu", "auto", "mirrored", "mega-kv"};

// As things are: an index on devices comes back to the host when one is lost. schedulers: of the devices; nullptr:
// there are none.
inline Placement placement_of(const Schedulers* schedulers, const IndexPlacement& placement) noexcept {
  if (placement.wants_search()) return Placement::on_device;
  if (schedulers == nullptr) return Placement::host;
  return schedulers->image_granules() != 0 ? Placement::mirrored_values : Placement::mirrored;
}

// A constant plan for each preset, and the schedulers' measured threshold between them; or one plan for all batches.
class Planner {
 public:
  // schedulers: of the devices; nullptr: there are none. They and the placement outlive the planner.
  Planner(Preset preset, const Schedulers* schedulers, const IndexPlacement& placement) noexcept
      : schedulers_(preset == Preset::cpu ? nullptr : schedulers), placement_(placement), preset_(preset) {}
  // Throws std::invalid_argument: it is not feasible with the placement as it is.
  Planner(const Plan& plan, const Schedulers* schedulers, const IndexPlacement& placement)
      : schedulers_(plan.uses(Processor::device) ? schedulers : nullptr),
        placement_(placement),
        preset_(placement.wants_search() ? Preset::mega_kv : Preset::mirrored),
        given_(plan) {
    require_feasible(placement_of(schedulers, placement), plan);
  }

  bool uses_device() const noexcept { return schedulers_ != nullptr; }
  // For who has no way to them after all.
  void leave_devices() noexcept { schedulers_ = nullptr; }
  // For a batch of so many queries.
  const Plan& plan_for(std::uint32_t queries) const noexcept {
    if (schedulers_ == nullptr || queries == 0) return plan_cpu;
    if (placement_.wants_search()) return plan_index;
    if (preset_ == Preset::mega_kv || !schedulers_->serves()) return plan_cpu;
    if (given_) return *given_;
    if (preset_ == Preset::automatic && queries < schedulers_->queries_min()) return plan_cpu;
    return feasible_plans(placement_of(schedulers_, placement_)).front();
  }

 private:
  const Schedulers* schedulers_;
  const IndexPlacement& placement_;
  Preset preset_;
  std::optional<Plan> given_;
};

}  // namespace tandem
