// Where the index and the items are. Chosen when the store starts; it determines the feasible plans. After the loss of
// a device only `host` remains.
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
  host,             // only the host has them
  mirrored,         // devices have replicas of the host's index
  mirrored_values,  // and copies of small items
  on_device,        // the index is in device memory only, items are on the host
};
inline constexpr std::size_t placement_count = 4;
inline constexpr std::array<std::string_view, placement_count> placement_names = {"host", "mirrored", "mirrored-values",
                                                                                  "on-device"};

// Without ranges: Plan::split() adds them for mirrored placements. The first plan is the placement's main one; the
// host's own, if feasible, is the last.
std::span<const Plan> feasible_plans(Placement placement) noexcept;

// Why the placement cannot run the plan, in words; empty: it can.
std::string why_not(Placement placement, const Plan& plan);

// Throws std::invalid_argument with the plan, the placement and why_not().
void require_feasible(Placement placement, const Plan& plan);

}  // namespace tandem
