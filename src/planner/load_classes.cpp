#include "planner/load_classes.hpp"

#include <algorithm>
#include <cmath>

namespace tandem {

namespace {

constexpr double share_min = 0.005;  // less is none

}  // namespace

void LoadClasses::Unrest::look(double value) noexcept {
  constexpr double windows = 32, calm = 0.05, most = 4;
  const double difference = std::abs(value - last);
  mean += (std::min(difference, std::max(calm, most * mean)) - mean) / windows;
  last = value;
}

// Of normal values.
double LoadClasses::Unrest::deviation() const noexcept { return mean * 0.886; }

void LoadClasses::look(double set_share, double query_bytes) noexcept {
  of_sets_.look(std::log(set_share + share_min));
  of_bytes_.look(std::log(query_bytes + 1));
}

bool LoadClasses::is_of(const LoadClass& c, double set_share, double query_bytes, double queries) const noexcept {
  constexpr double tenth = 0.1, sigmas = 4.5;
  const double chance = sigmas * std::sqrt(c.set_share * (1 - c.set_share) / queries);
  const double sets_apart = std::abs(std::log((set_share + share_min) / (c.set_share + share_min)));
  if (std::abs(set_share - c.set_share) > std::max({tenth * c.set_share, chance, share_min}) &&
      sets_apart > sigmas * of_sets_.deviation())
    return false;
  // Sizes may vary as much as they are large.
  const double bytes_apart = std::abs(std::log((query_bytes + 1) / (c.query_bytes + 1)));
  return bytes_apart <= std::max({tenth, sigmas / std::sqrt(queries), sigmas * of_bytes_.deviation()});
}

void LoadClasses::follow(LoadClass& c, double set_share, double query_bytes, std::uint64_t now_ns) noexcept {
  constexpr unsigned windows_max = 256;
  c.windows = std::min(c.windows + 1, windows_max);
  c.set_share += (set_share - c.set_share) / c.windows;
  c.query_bytes += (query_bytes - c.query_bytes) / c.windows;
  c.seen_ns = now_ns;
}

LoadClass* LoadClasses::find(double set_share, double query_bytes, double queries) noexcept {
  const auto found =
      std::ranges::find_if(classes_, [&](const LoadClass& c) { return is_of(c, set_share, query_bytes, queries); });
  return found != classes_.end() ? &*found : nullptr;
}

LoadClass& LoadClasses::add(double set_share, double query_bytes, std::uint64_t now_ns) noexcept {
  LoadClass& c = classes_.size() < count_max ? classes_.emplace_back()
                                             : *std::ranges::min_element(classes_, {}, &LoadClass::seen_ns);
  c = {.set_share = set_share, .query_bytes = query_bytes, .seen_ns = now_ns};
  return c;
}

}  // namespace tandem
