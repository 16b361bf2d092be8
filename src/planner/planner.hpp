// Which processor runs which task of a batch.
//
// Thread safety: any thread.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "index/index.hpp"
#include "pipeline/schedulers.hpp"
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
inline Placement placement_of(const Schedulers* schedulers, const Index& index) noexcept {
  if (index.on_device()) return Placement::on_device;
  if (schedulers == nullptr) return Placement::host;
  return schedulers->image_granules() != 0 ? Placement::mirrored_values : Placement::mirrored;
}

// A constant plan for each preset, and the schedulers' measured threshold between them; or one plan for all batches.
class Planner {
 public:
  // schedulers: of the devices; nullptr: there are none. They and the index outlive the planner.
  Planner(Preset preset, const Schedulers* schedulers, const Index& index) noexcept
      : schedulers_(preset == Preset::cpu ? nullptr : schedulers), index_(index), preset_(preset) {}
  // Throws std::invalid_argument: it is not feasible with the placement as it is.
  Planner(const Plan& plan, const Schedulers* schedulers, const Index& index)
      : schedulers_(plan.uses(Processor::device) ? schedulers : nullptr),
        index_(index),
        preset_(index.on_device() ? Preset::mega_kv : Preset::mirrored),
        given_(plan) {
    require_feasible(placement_of(schedulers, index), plan);
  }

  bool uses_device() const noexcept { return schedulers_ != nullptr; }
  // For who has no way to them after all.
  void leave_devices() noexcept { schedulers_ = nullptr; }
  // For a batch of so many queries.
  const Plan& plan_for(std::uint32_t queries) const noexcept {
    if (schedulers_ == nullptr || queries == 0) return plan_cpu;
    if (index_.on_device()) return plan_index;
    if (preset_ == Preset::mega_kv || !schedulers_->serves()) return plan_cpu;
    if (given_) return *given_;
    if (preset_ == Preset::automatic && queries < schedulers_->queries_min()) return plan_cpu;
    return feasible_plans(placement_of(schedulers_, index_)).front();
  }

 private:
  const Schedulers* schedulers_;
  const Index& index_;
  Preset preset_;
  std::optional<Plan> given_;
};

}  // namespace tandem
