// The plans of the in-process mode, and the store that each needs.
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
  bool dispatches = false;    // between the threads, by leaf (dispatch.hpp)
  bool is_chosen = false;     // for each batch, as a server with preset auto does
  // The host answers hot keys, as preset kvcg has it: those that have this share of all requests (0: the store finds
  // out), or this share of the keys, the most popular ones (0: the store learns which).
  bool answers_hot = false;
  double hot_threshold = 0, hot_share = 0;

  bool uses_devices() const noexcept { return placement != tandem::Placement::host; }
  // The devices that the store needs for it: `count` of them, or none. Throws std::runtime_error: this machine has
  // fewer.
  Devices devices(unsigned count) const;
};

// The named plans.
std::span<const EnginePlan> all_engine_plans();
// From a name or a plan's text (plan/plan.hpp), with the first placement in which it is feasible; its devices are GPUs,
// or `simulated`. kvcg@0.005: with a threshold; kvcg=0.001: with a share of the keys. Throws std::invalid_argument that
// lists the known plans, or says why the plan is nowhere feasible.
EnginePlan engine_plan(std::string_view name_or_text, bool simulated = false);

// A plan with the threads and the batches that suit it.
struct PlanChoice {
  static constexpr std::string_view automatic = "auto";

  std::string plan;  // as engine_plan() takes it, or automatic
  unsigned threads = 0;
  std::uint32_t batch = 0;  // 0, of automatic: the largest one of the others

  bool is_automatic() const noexcept { return plan == automatic; }
  std::string text() const;
  friend bool operator==(const PlanChoice&, const PlanChoice&) = default;
};
// From "frames:15x16384", or "auto:16". Throws std::invalid_argument. Whether there is such a plan is not looked at.
PlanChoice parse_plan_choice(std::string_view text);
// The automatic one beside these: with copies of items where one of them needs them.
EnginePlan automatic_plan(std::span<const PlanChoice> beside, bool simulated);

}  // namespace tandem::bench
