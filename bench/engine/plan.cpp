#include "bench/engine/plan.hpp"

#include <array>
#include <stdexcept>

#include "device/cuda/cuda_device.hpp"
#include "device/sim/sim_device.hpp"
#include "placement/prove_kernels.hpp"

namespace tandem::bench {
namespace {

constexpr std::array placements = {tandem::Placement::host, tandem::Placement::mirrored,
                                   tandem::Placement::mirrored_values, tandem::Placement::on_device};

EnginePlan plan_of_text(std::string_view text, bool simulated) {
  const Plan plan = Plan::parse(text);
  std::string reasons;
  for (const tandem::Placement placement : placements) {
    const std::string why = why_not(placement, plan);
    if (why.empty()) return {plan.text(), "as given", plan, placement, simulated, false};
    reasons += "\n  " + std::string(placement_names[static_cast<std::size_t>(placement)]) + ": " + why;
  }
  throw std::invalid_argument("plan " + plan.text() + " is feasible with no placement:" + reasons);
}

}  // namespace

Devices EnginePlan::devices(unsigned count) const {
  Devices devices;
  if (!uses_devices()) return devices;
  if (is_simulated) {
    for (unsigned i = 0; i < count; ++i) devices.push_back(make_sim_device({.number = i}));
    return devices;
  }
  const DeviceCount found = cuda_device_count();
  if (found.count == 0) throw std::runtime_error("no GPU: " + found.reason);
  if (count > found.count)
    throw std::runtime_error("of " + std::to_string(count) + " GPUs there are " + std::to_string(found.count));
  for (unsigned i = 0; i < count; ++i) {
    devices.push_back(make_cuda_device(i));
    prove_kernels(*devices.back());
  }
  return devices;
}

std::span<const EnginePlan> all_engine_plans() {
  static const std::array plans = {
      EnginePlan{"cpu", "all tasks on the processor", plan_cpu, tandem::Placement::host, false},
      EnginePlan{"dispatched", "the same, each leaf's requests by one thread", plan_cpu, tandem::Placement::host, false,
                 true},
      EnginePlan{"mirrored", "searches by GPUs in a replica of the index", plan_search, tandem::Placement::mirrored,
                 false},
      EnginePlan{"mirrored-values", "the same, with copies of the items in its memory", plan_search_read,
                 tandem::Placement::mirrored_values, false},
      EnginePlan{"frames", "plain reads by GPUs, from the bytes of requests to those of replies", plan_frames,
                 tandem::Placement::mirrored_values, false},
      EnginePlan{"located", "plain reads parsed and searched for by GPUs, and answered by the processor", plan_located,
                 tandem::Placement::mirrored, false},
      EnginePlan{"located-sim", "located with a device in software", plan_located, tandem::Placement::mirrored, true},
      EnginePlan{"frames-sim", "frames with a device in software", plan_frames, tandem::Placement::mirrored_values,
                 true},
      EnginePlan{"mirrored-sim", "mirrored with a device in software, to see that it works", plan_search,
                 tandem::Placement::mirrored, true},
      EnginePlan{"mirrored-values-sim", "mirrored-values with a device in software", plan_search_read,
                 tandem::Placement::mirrored_values, true},
      EnginePlan{"mega-kv", "plain requests parsed and searched for by a GPU that alone has the index",
                 plan_located_index, tandem::Placement::on_device, false},
      EnginePlan{"mega-kv-sim", "mega-kv with a device in software", plan_located_index, tandem::Placement::on_device,
                 true},
  };
  return plans;
}

EnginePlan engine_plan(std::string_view name_or_text, bool simulated) {
  if (name_or_text.find('[') != std::string_view::npos) return plan_of_text(name_or_text, simulated);
  std::string names;
  for (const EnginePlan& plan : all_engine_plans()) {
    if (plan.name == name_or_text) {
      EnginePlan found = plan;
      found.is_simulated |= simulated;
      return found;
    }
    names.append(names.empty() ? "" : ", ").append(plan.name);
  }
  throw std::invalid_argument("unknown plan \"" + std::string(name_or_text) + "\"; there are: " + names +
                              "; or a plan's text, such as " + plan_search.text());
}

}  // namespace tandem::bench
