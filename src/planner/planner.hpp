// Which processor runs which task of a batch.
//
// Thread safety: any thread.
#pragma once
#include <cstdint>
#include <optional>

#include "pipeline/schedulers.hpp"
#include "placement/index_placement.hpp"
#include "plan/placement.hpp"
#include "preset/preset.hpp"

namespace tandem {

// The present placement: an index on devices is rebuilt on the host when one is lost. schedulers: of the devices;
// nullptr: there are none.
inline Placement placement_of(const Schedulers* schedulers, const IndexPlacement& placement) noexcept {
  if (placement.wants_search()) return Placement::on_device;
  if (schedulers == nullptr) return Placement::host;
  return schedulers->image_granules() != 0 ? Placement::mirrored_values : Placement::mirrored;
}

// A constant plan for each preset with the schedulers' measured threshold between them, or one plan for all batches.
class Planner {
 public:
  // schedulers: of the devices; nullptr: there are none. They and the placement outlive the planner.
  Planner(Preset preset, const Schedulers* schedulers, const IndexPlacement& placement) noexcept
      : schedulers_(row_of(preset).offload == Offload::never ? nullptr : schedulers),
        placement_(placement),
        offload_(row_of(preset).offload),
        index_on_device_(row_of(preset).index_on_device()) {}
  // Throws std::invalid_argument: the plan is not feasible with the present placement.
  Planner(const Plan& plan, const Schedulers* schedulers, const IndexPlacement& placement)
      : schedulers_(plan.uses(Processor::device) ? schedulers : nullptr),
        placement_(placement),
        offload_(Offload::always),
        index_on_device_(placement.wants_search()),
        given_(plan) {
    require_feasible(placement_of(schedulers, placement), plan);
  }

  bool uses_device() const noexcept { return schedulers_ != nullptr; }
  // For a caller that turns out to have no access to devices.
  void leave_devices() noexcept { schedulers_ = nullptr; }
  // For a batch of `queries` queries.
  const Plan& plan_for(std::uint32_t queries) const noexcept {
    if (schedulers_ == nullptr || queries == 0) return plan_cpu;
    if (placement_.wants_search()) return given_ ? *given_ : feasible_plans(Placement::on_device).front();
    if (index_on_device_ || !schedulers_->serves()) return plan_cpu;
    if (given_) return *given_;
    if (offload_ == Offload::when_sooner && queries < schedulers_->queries_min()) return plan_cpu;
    // A device may have had no memory for images.
    const bool has_images = schedulers_->image_granules() != 0 && schedulers_->has_images();
    return feasible_plans(has_images ? Placement::mirrored_values : Placement::mirrored).front();
  }

 private:
  const Schedulers* schedulers_;
  const IndexPlacement& placement_;
  Offload offload_;
  bool index_on_device_;  // at the start; when a device is lost, the host takes the index back for good
  std::optional<Plan> given_;
};

}  // namespace tandem
