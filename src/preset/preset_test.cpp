#include "preset/preset.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace tandem {
namespace {

TEST(Preset, NumbersAreThoseOfTheOption) {
  // Settings and scripts have them.
  EXPECT_EQ(preset_choices(), "cpu|auto|mirrored|mega-kv|memcachedgpu|heterokv|kvcg");
  EXPECT_EQ(number_of(Preset::cpu), 0u);
  EXPECT_EQ(number_of(Preset::automatic), 1u);
  EXPECT_EQ(number_of(Preset::mirrored), 2u);
  EXPECT_EQ(number_of(Preset::mega_kv), 3u);
  EXPECT_EQ(number_of(Preset::memcached_gpu), 4u);
  EXPECT_EQ(number_of(Preset::hetero_kv), 5u);
  EXPECT_EQ(number_of(Preset::kvcg), 6u);
}

TEST(Preset, ARowOffloadsIfItsPlacementHasAPlanThatDoes) {
  for (const PresetRow& row : presets()) {
    for (const Placement placement : {row.placement, row.placement_with_values}) {
      const auto plans = feasible_plans(placement);
      const bool can = std::ranges::any_of(plans, [](const Plan& plan) { return plan.uses(Processor::device); });
      EXPECT_EQ(can, row.offload != Offload::never) << row.name;
    }
    EXPECT_EQ(row.index_on_device(), row.placement_with_values == Placement::on_device) << row.name;
    EXPECT_FALSE(row.has_threshold && row.offload != Offload::when_sooner) << row.name;
    EXPECT_FALSE(row.what.empty() || row.index_kind.empty()) << row.name;
    EXPECT_EQ(std::ranges::count(presets(), row.name, &PresetRow::name), 1) << row.name;
  }
}

}  // namespace
}  // namespace tandem
