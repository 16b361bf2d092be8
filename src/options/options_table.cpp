#include "options/options_table.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/index_kinds.hpp"
#include "preset/preset.hpp"

namespace tandem::cli {

namespace {

std::string_view index_choices() {
  static const std::string text = [] {
    std::string all = "preset";
    for (const IndexKindRow& row : index_kinds()) all += "|" + std::string(row.code->kind);
    return all;
  }();
  return text;
}

}  // namespace

std::string_view index_kind_of(const Settings& settings) noexcept {
  return settings.index != 0 ? index_kinds()[settings.index - 1].code->kind
                             : presets()[settings.server.preset].index_kind;
}

std::span<const Option> all_options() {
  static const std::vector<Option> all = [] {
    std::vector<Option> options;
    for (const auto part : {network_options(), store_options(), process_options()})
      options.insert(options.end(), part.begin(), part.end());
    // The choices follow the tables of presets and of kinds.
    Option& preset = *std::ranges::find(options, "preset", &Option::name);
    preset.maximum = static_cast<double>(presets().size() - 1);
    preset.choices = preset_choices();
    Option& index = *std::ranges::find(options, "index", &Option::name);
    index.maximum = static_cast<double>(index_kinds().size());
    index.choices = index_choices();
    return options;
  }();
  return all;
}

}  // namespace tandem::cli
