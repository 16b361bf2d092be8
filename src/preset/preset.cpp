#include "preset/preset.hpp"

#include <array>
#include <string>
#include <vector>

namespace tandem {
namespace {

constexpr std::array<PresetRow, 7> built_in = {{
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
     .needs_device = true,
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
    {.preset = Preset::memcached_gpu,
     .name = "memcachedgpu",
     .what = "a GPU answers plain reads whole, over sets of 16 entries (MemcachedGPU)",
     .index_kind = "set_associative",
     .placement = Placement::mirrored,
     .placement_with_values = Placement::mirrored_values,
     .offload = Offload::always,
     .needs_device = true,
     .sets_cycle = false,
     .has_threshold = false,
     .copies_items = true},
    {.preset = Preset::hetero_kv,
     .name = "heterokv",
     .what = "the host runs everything, over a tree of hash tables, with range reads (HeteroKV)",
     .index_kind = "hash_tree",
     .placement = Placement::host,
     .placement_with_values = Placement::host,
     .offload = Offload::never,
     .needs_device = false,
     .sets_cycle = false,
     .has_threshold = false},
    {.preset = Preset::kvcg,
     .name = "kvcg",
     .what = "GPUs have the index; the host answers hot keys, and learns which they are (KVCG)",
     .index_kind = "cuckoo",
     .placement = Placement::on_device,
     .placement_with_values = Placement::on_device,
     .offload = Offload::always,
     .needs_device = true,
     .sets_cycle = true,
     .has_threshold = false,
     .learns_hot_keys = true},
}};

constexpr bool are_in_order() {
  for (std::size_t i = 0; i < built_in.size(); ++i) {
    if (static_cast<std::size_t>(built_in[i].preset) != i) return false;
  }
  return true;
}
static_assert(are_in_order());

std::vector<PresetRow>& rows() {
  static std::vector<PresetRow> all(built_in.begin(), built_in.end());
  return all;
}

}  // namespace

std::span<const PresetRow> presets() noexcept { return rows(); }

void add_preset(PresetRow row) {
  row.preset = static_cast<Preset>(rows().size());
  rows().push_back(row);
}

std::string_view preset_choices() {
  static const std::string text = [] {
    std::string all;
    for (const PresetRow& row : rows()) all += (all.empty() ? "" : "|") + std::string(row.name);
    return all;
  }();
  return text;
}

}  // namespace tandem
