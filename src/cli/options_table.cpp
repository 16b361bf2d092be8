#include "cli/options_table.hpp"

#include <algorithm>
#include <vector>

#include "preset/preset.hpp"

namespace tandem::cli {

std::span<const Option> all_options() {
  static const std::vector<Option> all = [] {
    std::vector<Option> options;
    for (const auto part : {network_options(), store_options(), process_options()})
      options.insert(options.end(), part.begin(), part.end());
    // The choices follow the table of presets.
    Option& preset = *std::ranges::find(options, "preset", &Option::name);
    preset.maximum = static_cast<double>(presets().size() - 1);
    preset.choices = preset_choices();
    return options;
  }();
  return all;
}

}  // namespace tandem::cli
