// The plans that the in-process mode can run, and the store that each needs.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.hpp"
#include "plan/placement.hpp"

namespace tandem::bench {

using Devices = std::vector<std::shared_ptr<Device>>;

struct EnginePlan {
  std::string name, summary;
  Plan plan{};  // of all batches
  tandem::Placement placement = tandem::Placement::host;
  bool is_simulated = false;  // by devices in software

  bool uses_devices() const noexcept { return placement != tandem::Placement::host; }
  // What the store needs for it: `count` of them, or none. Throws std::runtime_error: this machine has not so many.
  Devices devices(unsigned count) const;
};

// Those with a name.
std::span<const EnginePlan> all_engine_plans();
// By its name, or of a plan's text (plan/plan.hpp), with the first placement where it is feasible; its devices are
// GPUs, or `simulated`. Throws std::invalid_argument that names the plans there are, or says why the plan is feasible
// nowhere.
EnginePlan engine_plan(std::string_view name_or_text, bool simulated = false);

}  // namespace tandem::bench
