#include "options/suggest.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "options/help.hpp"
#include "options/options.hpp"

namespace tandem::cli {
namespace {

constexpr std::size_t name_bytes_max = 64;  // longer ones are hardly typing errors, and the cost is quadratic

std::size_t distance(std::string_view a, std::string_view b) {
  // Rows of the dynamic programme: two above, one above, current.
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view wanted, std::span<const std::string_view> names) {
  if (wanted.empty() || wanted.size() > name_bytes_max) return {};
  std::string_view best;
  std::size_t best_distance = std::clamp<std::size_t>(wanted.size() / 3, 1, 3) + 1;
  for (const std::string_view name : names) {
    const std::size_t d = distance(wanted, name);
    if (d < best_distance) best = name, best_distance = d;
  }
  if (!best.empty()) return best;
  const auto begins = [wanted](std::string_view name) { return name.starts_with(wanted); };
  if (std::ranges::count_if(names, begins) == 1) return *std::ranges::find_if(names, begins);
  return {};
}

std::string did_you_mean(std::string_view wanted, std::span<const std::string_view> names, std::string_view prefix) {
  const std::string_view name = nearest(wanted, names);
  return name.empty() ? std::string() : fmt::format("; did you mean {}{}?", prefix, name);
}

std::vector<std::string_view> option_names() {
  std::vector<std::string_view> names;
  for (const Option& o : all_options()) {
    if (o.is_serve()) names.push_back(o.name);
  }
  return names;
}

std::vector<std::string_view> extended_option_names() {
  std::vector<std::string_view> names;
  for (const Option& o : all_options()) {
    if (!o.extended.empty() && takes_effect(o)) names.push_back(o.extended);
  }
  return names;
}

}  // namespace tandem::cli
