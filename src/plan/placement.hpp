// Where the index and the items lie. Chosen when the store starts, and with it which plans are feasible; a lost device
// leaves `host`.
//
// Thread safety: constants.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plan/plan.hpp"

namespace tandem {

enum class Placement : std::uint8_t {
  host,             // the host alone has them
  mirrored,         // devices have replicas of the host's index
  mirrored_values,  // and copies of small items
  on_device,        // the index is in the devices' memory alone, items are the host's
};
inline constexpr std::size_t placement_count = 4;
inline constexpr std::array<std::string_view, placement_count> placement_names = {"host", "mirrored", "mirrored-values",
                                                                                  "on-device"};

// Without ranges: Plan::split() makes more of those whose placement is mirrored. The first one is what the placement is
// for; the host's own, where it is feasible, is the last.
std::span<const Plan> feasible_plans(Placement placement) noexcept;

// Why the plan cannot run there, in words; empty: it can.
std::string why_not(Placement placement, const Plan& plan);

// Throws std::invalid_argument with the plan, the placement and why_not().
void require_feasible(Placement placement, const Plan& plan);

}  // namespace tandem
