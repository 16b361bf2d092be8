// Shared by tests of command lines: arguments and the resulting settings.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/invocation.hpp"

namespace tandem::cli {

using Arguments = std::vector<std::string>;

inline std::string value_of(std::string_view name, const Settings& settings) {
  return show(*find_option(name), settings);
}

struct Accepted {
  Arguments arguments;
  std::vector<std::pair<std::string_view, std::string_view>> values;
};

}  // namespace tandem::cli
