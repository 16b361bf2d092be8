// Ranges of keys with items that scans have found out of order in memory, for the thread that arranges them.
#pragma once
#include <cstdint>

#include "base/wakeup.hpp"
#include "index/recent_keys.hpp"

namespace tandem {

struct ScatteredRanges {
  // Of scans between two that look at their items' places, on average; at least 1. To arrange an item takes about as
  // long as 50 scans of it gain.
  static constexpr std::uint32_t scans_per_look_default = 64;

  explicit ScatteredRanges(std::uint32_t scans) noexcept : scans_per_look(scans) {}

  const std::uint32_t scans_per_look;
  RecentKeys ranges;  // begin and number of items
  WakeUp added;
};

}  // namespace tandem
