#include "heap/size_classes.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tandem {
namespace {

constexpr std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + granule_bytes - 1) / granule_bytes * granule_bytes;
}

// What a page has for slots if it has so many.
constexpr std::uint64_t bytes_for_slots(std::uint64_t slots) {
  return slots <= SizeClasses::large_slots_max ? page_bytes - large_first_bytes : page_bytes;
}

// How many slots of at least so many bytes a page holds.
constexpr std::uint64_t slots_of(std::uint64_t slot_bytes) {
  return bytes_for_slots(page_bytes / slot_bytes) / slot_bytes;
}

SlotShape shape_of(std::uint32_t slot_bytes) {
  SlotShape s{};
  s.slot_bytes = slot_bytes;
  s.slot_granules = slot_bytes / granule_bytes;
  s.slots_per_page = static_cast<std::uint32_t>(slots_of(slot_bytes));
  s.first_granule = s.slots_per_page <= SizeClasses::large_slots_max ? large_first_granule : 0;
  s.reciprocal = static_cast<std::uint32_t>(((std::uint64_t{1} << 31) + s.slot_granules - 1) / s.slot_granules);
  const std::uint32_t fit = SizeClasses::magazine_bytes_max / slot_bytes;
  s.magazine_slots = fit < 2 ? 0 : std::min(fit, SizeClasses::magazine_slots_max);
  return s;
}

// The largest slot size of which a page holds `slots`.
constexpr std::uint64_t slot_bytes_for(std::uint64_t slots) {
  return bytes_for_slots(slots) / slots / granule_bytes * granule_bytes;
}

std::vector<SlotShape> shapes_growing_by(double factor, std::uint64_t smallest, std::uint64_t largest_item) {
  std::vector<SlotShape> shapes;
  std::uint64_t slot_bytes = slot_bytes_for(slots_of(smallest));
  for (;;) {
    shapes.push_back(shape_of(static_cast<std::uint32_t>(slot_bytes)));
    if (slot_bytes >= largest_item) return shapes;
    const double limit =
        std::min(static_cast<double>(slot_bytes) * factor, static_cast<double>(SizeClasses::slot_bytes_max));
    const std::uint64_t want =
        std::max(static_cast<std::uint64_t>(limit) / granule_bytes * granule_bytes, slot_bytes + granule_bytes);
    const std::uint64_t slots = slots_of(want);
    const std::uint64_t stretched = slot_bytes_for(slots);
    const std::uint64_t one_more = slot_bytes_for(slots + 1);
    slot_bytes = static_cast<double>(stretched) > limit && one_more > slot_bytes ? one_more : stretched;
  }
}

}  // namespace

SizeClasses::SizeClasses(double growth_factor, std::uint32_t slot_bytes_min, std::uint64_t item_bytes_max) {
  if (!(growth_factor > 1.0) || !std::isfinite(growth_factor)) {
    throw std::invalid_argument("heap: the growth factor of slot sizes must be above 1");
  }
  if (slot_bytes_min > slot_bytes_max) throw std::invalid_argument("heap: the smallest slot is larger than slots are");
  if (item_bytes_max < sizeof(Item) + 1) throw std::invalid_argument("heap: no item fits the largest item size");

  const std::uint64_t smallest = round_up(std::max<std::uint64_t>(slot_bytes_min, granule_bytes));
  const std::uint64_t largest_item = std::min<std::uint64_t>(item_bytes_max, slot_bytes_max);
  for (double factor = std::min(growth_factor, 1e6);; factor *= 1.02) {
    shapes_ = shapes_growing_by(factor, smallest, largest_item);
    if (shapes_.size() <= classes_max) break;
  }
  by_granules_.resize(shapes_.back().slot_granules + 1);
  std::size_t granules = 0;
  for (std::size_t c = 0; c < shapes_.size(); ++c) {
    for (; granules <= shapes_[c].slot_granules; ++granules) by_granules_[granules] = static_cast<SizeClass>(c);
  }
}

}  // namespace tandem
