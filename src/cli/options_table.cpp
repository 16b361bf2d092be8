#include "cli/options_table.hpp"

#include <vector>

namespace tandem::cli {

std::span<const Option> all_options() {
  static const std::vector<Option> all = [] {
    std::vector<Option> options;
    for (const auto part : {network_options(), store_options(), process_options()})
      options.insert(options.end(), part.begin(), part.end());
    return options;
  }();
  return all;
}

}  // namespace tandem::cli
