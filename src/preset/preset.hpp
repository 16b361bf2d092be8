// Presets: which of the systems a store is, a row each. What depends on a preset reads a column of its row; nothing
// outside this folder asks which preset it is (scripts/check_layers.py).
//
// A new preset is a row here, in the order of `--preset`'s numbers; the option, its help, `tandem plans`, the embedded
// store and the tests take the rows.
//
// Thread safety: constants.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "plan/placement.hpp"

namespace tandem {

// Names of the rows, for defaults and tests.
enum class Preset : std::uint8_t { cpu, automatic, mirrored, mega_kv };

// Which batches go to a device.
enum class Offload : std::uint8_t {
  never,
  when_sooner,  // those that are large enough: what they wait for the device they would have searched for
  always,
};

struct PresetRow {
  Preset preset;
  std::string_view name, what;
  std::string_view index_kind;
  Placement placement, placement_with_values;  // beside a device, without and with copies of small items
  Offload offload;
  bool needs_device;   // it is told why there is none
  bool sets_cycle;     // gpu-latency-target and gpu-calibration are of use
  bool has_threshold;  // gpu-batch-min is of use

  constexpr bool index_on_device() const noexcept { return placement == Placement::on_device; }
};

inline constexpr std::array<PresetRow, 4> presets = {{
    {.preset = Preset::cpu,
     .name = "cpu",
     .what = "the host runs everything",
     .index_kind = "cuckoo",
     .placement = Placement::host,
     .placement_with_values = Placement::host,
     .offload = Offload::never,
     .needs_device = false,
     .sets_cycle = false,
     .has_threshold = false},
    {.preset = Preset::automatic,
     .name = "auto",
     .what = "GPUs search for batches that are large enough for it to pay",
     .index_kind = "cuckoo",
     .placement = Placement::mirrored,
     .placement_with_values = Placement::mirrored_values,
     .offload = Offload::when_sooner,
     .needs_device = false,
     .sets_cycle = false,
     .has_threshold = true},
    {.preset = Preset::mirrored,
     .name = "mirrored",
     .what = "GPUs search for every batch",
     .index_kind = "cuckoo",
     .placement = Placement::mirrored,
     .placement_with_values = Placement::mirrored_values,
     .offload = Offload::always,
     .needs_device = false,
     .sets_cycle = false,
     .has_threshold = false},
    {.preset = Preset::mega_kv,
     .name = "mega-kv",
     .what = "GPUs search and change the index (Mega-KV)",
     .index_kind = "cuckoo",
     .placement = Placement::on_device,
     .placement_with_values = Placement::on_device,
     .offload = Offload::always,
     .needs_device = true,
     .sets_cycle = true,
     .has_threshold = false},
}};

constexpr bool presets_are_in_order() {
  for (std::size_t i = 0; i < presets.size(); ++i) {
    if (static_cast<std::size_t>(presets[i].preset) != i) return false;
  }
  return true;
}
static_assert(presets_are_in_order());

constexpr unsigned number_of(Preset p) noexcept { return static_cast<unsigned>(p); }
constexpr const PresetRow& row_of(Preset p) noexcept { return presets[number_of(p)]; }

// As options have them: "cpu|auto|...".
inline constexpr auto preset_choices = [] {
  constexpr std::size_t bytes = [] {
    std::size_t sum = 0;
    for (const PresetRow& row : presets) sum += row.name.size() + 1;
    return sum - 1;
  }();
  std::array<char, bytes> text{};
  std::size_t at = 0;
  for (const PresetRow& row : presets) {
    if (at != 0) text[at++] = '|';
    for (const char c : row.name) text[at++] = c;
  }
  return text;
}();

}  // namespace tandem
