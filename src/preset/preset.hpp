// Presets: which of the systems a store is, a row each. What depends on a preset reads a column of its row; nothing
// outside this folder asks which preset it is (scripts/check_layers.py).
//
// A new preset is a row of preset.cpp, in the order of `--preset`'s numbers; the option, its help, `tandem plans`, the
// embedded store and the tests take the rows. A program may add rows of its own, with kinds of index of its own.
//
// Thread safety: any thread, once main() has begun.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "plan/placement.hpp"

namespace tandem {

// Names of the built-in rows, for defaults and tests.
enum class Preset : std::uint8_t { cpu, automatic, mirrored, mega_kv, memcached_gpu, hetero_kv, kvcg };

// Which batches go to a device.
enum class Offload : std::uint8_t {
  never,
  when_sooner,  // those that are large enough: what they wait for the device they would have searched for
  always,
};

struct PresetRow {
  Preset preset;  // the row's number
  std::string_view name, what;
  std::string_view index_kind;                 // store/index_kinds.hpp
  Placement placement, placement_with_values;  // beside a device, without and with copies of small items
  Offload offload;
  bool needs_device;             // asks for one: the log says why there is none
  bool sets_cycle;               // gpu-latency-target and gpu-calibration are of use
  bool has_threshold;            // gpu-batch-min is of use
  bool copies_items = false;     // unless gpu-values says how much of them, a device has copies of all small items
  bool learns_hot_keys = false;  // which the host answers, though a device has the index

  // Memory for hot keys. asked: as hot-memory has it.
  constexpr std::uint64_t hot_bytes(std::uint64_t asked) const noexcept { return learns_hot_keys ? asked : 0; }
  constexpr bool index_on_device() const noexcept { return placement == Placement::on_device; }
  // Of a device's memory, for copies of items. asked: as gpu-values has it; 0: nothing was said.
  constexpr std::uint64_t value_bytes(std::uint64_t asked, std::uint64_t memory_bytes) const noexcept {
    return asked != 0 || !copies_items ? asked : memory_bytes;
  }
};

// Memory for some 16,000 hot keys.
inline constexpr std::uint64_t hot_bytes_default = 512 << 10;

std::span<const PresetRow> presets() noexcept;
// Adds a row at the end; its number is set. Before main(). Throws std::bad_alloc.
void add_preset(PresetRow row);

constexpr unsigned number_of(Preset p) noexcept { return static_cast<unsigned>(p); }
inline const PresetRow& row_of(Preset p) noexcept { return presets()[number_of(p)]; }

// As options have them: "cpu|auto|...".
std::string_view preset_choices();

}  // namespace tandem
