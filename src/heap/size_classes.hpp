// The slot sizes that pages are cut into.
//
// Sizes are multiples of a granule and grow by at most a factor (memcached's -f), except the first steps, which are one
// granule, and the last, which are from n + 1 to n slots a page. Each is stretched to what its number of slots a page
// leaves room for, so a page wastes less than one granule a slot.
//
// Thread safety: immutable after construction.
#pragma once
#include <cstdint>
#include <vector>

#include "heap/page.hpp"

namespace tandem {

struct SlotShape {
  std::uint32_t slot_bytes;
  std::uint32_t slot_granules;
  std::uint32_t slots_per_page;
  std::uint32_t first_granule;   // of the page's first slot
  std::uint32_t reciprocal;      // ceil(2^31 / slot_granules): division by multiplication
  std::uint32_t magazine_slots;  // in a cache's magazine; 0: slots too large to be cached; they pass one at a time

  // The slot at `granule` granules into a page. Exact: granule < 2^15, so the error is below 2^-16 < 1 /
  // slot_granules.
  TD_INLINE std::uint32_t slot_at(std::uint32_t granule) const noexcept {
    return static_cast<std::uint32_t>(std::uint64_t{granule - first_granule} * reciprocal >> 31);
  }
  TD_INLINE Location location(PageId page, std::uint32_t slot) const noexcept {
    return page_location(page) + first_granule + slot * slot_granules;
  }
};

class SizeClasses {
 public:
  static constexpr std::uint32_t classes_max = 192;
  // Pages of so few slots, and fewer, keep large_first_bytes before the first one.
  static constexpr std::uint32_t large_slots_max = 16;
  static constexpr std::uint32_t slot_bytes_max =
      static_cast<std::uint32_t>((page_bytes - large_first_bytes) / 2 / granule_bytes * granule_bytes);
  static constexpr std::uint32_t magazine_slots_max = 57;  // Magazine::slots_max
  static constexpr std::uint32_t magazine_bytes_max = 16 * 1024;

  // growth_factor > 1 (raised as far as needed to stay within classes_max); sizes from slot_bytes_min to what
  // item_bytes_max needs. Throws std::invalid_argument.
  SizeClasses(double growth_factor, std::uint32_t slot_bytes_min, std::uint64_t item_bytes_max);

  // huge_class above the largest slot.
  TD_INLINE SizeClass of(std::uint64_t item_bytes) const noexcept {
    const std::uint64_t granules = (item_bytes + granule_bytes - 1) / granule_bytes;
    return TD_LIKELY(granules < by_granules_.size()) ? by_granules_[granules] : huge_class;
  }
  std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(shapes_.size()); }
  TD_INLINE const SlotShape& operator[](SizeClass c) const noexcept { return shapes_[c]; }

 private:
  std::vector<SlotShape> shapes_;
  std::vector<SizeClass> by_granules_;  // by item size in granules
};

}  // namespace tandem
