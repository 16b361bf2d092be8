// Which processor runs which task of a batch.
//
// Thread safety: any thread.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "pipeline/schedulers.hpp"
#include "plan/plan.hpp"

namespace tandem {

enum class Preset : std::uint8_t {
  cpu,        // the host does everything
  automatic,  // a device searches for batches that are large enough: what they wait for it they would have searched for
  mirrored,   // for every batch (to try it)
  mega_kv,    // the same, and the index is in devices' memory alone (EngineOptions::index_on_device)
};

inline constexpr std::array<std::string_view, 4> preset_names = {"cpu", "auto", "mirrored", "mega-kv"};

// A constant plan for each preset, and the schedulers' measured threshold between them.
class Planner {
 public:
  // schedulers: of the devices; nullptr: there are none. They outlive the planner.
  Planner(Preset preset, const Schedulers* schedulers) noexcept
      : schedulers_(preset == Preset::cpu ? nullptr : schedulers),
        is_forced_(preset == Preset::mirrored || preset == Preset::mega_kv) {}

  bool uses_device() const noexcept { return schedulers_ != nullptr; }
  const Plan& plan_for(std::uint32_t queries) const noexcept {
    if (schedulers_ == nullptr || queries == 0 || !schedulers_->serves()) return plan_cpu;
    if (!is_forced_ && queries < schedulers_->queries_min()) return plan_cpu;
    return schedulers_->image_granules() != 0 ? plan_mirrored_values : plan_mirrored;
  }

 private:
  const Schedulers* schedulers_;
  bool is_forced_;
};

}  // namespace tandem
