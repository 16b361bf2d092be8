#include "heap/size_classes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string>

namespace tandem {
namespace {

constexpr std::uint64_t item_bytes_max = std::uint64_t{1} << 20;

TEST(SizeClasses, EveryShapeFitsItsPage) {
  for (const double factor : {1.01, 1.05, 1.25, 2.0, 100.0}) {
    const SizeClasses classes(factor, granule_bytes, item_bytes_max);
    std::uint32_t previous = 0;
    for (std::uint32_t i = 0; i < classes.count(); ++i) {
      const SlotShape& s = classes[static_cast<SizeClass>(i)];
      EXPECT_GT(s.slot_bytes, previous);
      previous = s.slot_bytes;
      EXPECT_EQ(s.slot_bytes % granule_bytes, 0u);
      EXPECT_EQ(s.slot_granules * granule_bytes, s.slot_bytes);
      const std::uint64_t first_bytes = std::uint64_t{s.first_granule} * granule_bytes;
      const std::uint64_t end = first_bytes + std::uint64_t{s.slots_per_page} * s.slot_bytes;
      EXPECT_EQ(first_bytes, s.slots_per_page <= SizeClasses::large_slots_max ? large_first_bytes : 0u);
      EXPECT_LE(end, page_bytes);
      EXPECT_LT(page_bytes - end, std::uint64_t{s.slots_per_page} * granule_bytes)
          << "a slot of " << s.slot_bytes << " could be larger at no cost";
      EXPECT_LE(s.magazine_slots * s.slot_bytes, SizeClasses::magazine_bytes_max);
    }
    EXPECT_EQ(previous, SizeClasses::slot_bytes_max);
    EXPECT_LE(classes.count(), SizeClasses::classes_max);
  }
}

TEST(SizeClasses, EightByEightItemsFillTheirSlots) {
  const SizeClasses classes(1.25, granule_bytes, item_bytes_max);
  EXPECT_EQ(classes[classes.of(32)].slot_bytes, 32u);
  EXPECT_EQ(classes[classes.of(32)].slots_per_page, 32768u);
}

TEST(SizeClasses, EachItemGetsTheSmallestSlotThatHoldsIt) {
  const SizeClasses classes(1.25, granule_bytes, item_bytes_max);
  SizeClass expected = 0;
  for (std::uint64_t bytes = 1; bytes <= SizeClasses::slot_bytes_max; ++bytes) {
    if (bytes > classes[expected].slot_bytes) ++expected;
    ASSERT_EQ(classes.of(bytes), expected) << bytes;
  }
  EXPECT_EQ(classes.of(SizeClasses::slot_bytes_max + 1), huge_class);
  EXPECT_EQ(classes.of(std::uint64_t{1} << 40), huge_class);
}

// No value that is sent from its item lies up to 16 bytes below its place in the reply modulo 4 KiB, if the item is the
// first of its page.
TEST(SizeClasses, LargeValuesBeginBehindTheirPlaceInAReply) {
  const SizeClasses classes(1.25, granule_bytes, item_bytes_max);
  for (const std::uint64_t length : {100'000u, 262'144u, 500'000u, 524'288u, 1u << 20, 1u << 26}) {
    for (const std::uint32_t flags : {0u, 4'294'967'295u}) {
      const std::uint64_t whole = Item::total_bytes(flags, 5, length);
      const SizeClass of = classes.of(whole);
      const Location l = of == huge_class ? huge_location(7) : classes[of].location(7, 0);
      const std::uint64_t value_at = l % page_granules * granule_bytes + whole - length;
      const std::size_t line = ("VALUE key_5 " + std::to_string(flags) + " " + std::to_string(length) + "\r\n").size();
      EXPECT_GE(value_at, line) << length;
      EXPECT_LT(value_at, 4096 - 64) << length;
    }
  }
}

// With the factor f an item wastes less than 1 - 1/f of its slot (and a granule at the small end); where a page holds n
// slots and the next smaller size is that of n + 1, less than 1/(n + 1).
TEST(SizeClasses, WasteIsBounded) {
  constexpr double factor = 1.25;
  const SizeClasses classes(factor, granule_bytes, item_bytes_max);
  std::printf("%10s %14s %12s %12s\n", "slot_bytes", "slots_per_page", "waste_worst", "page_unused");
  std::uint32_t previous = 0;
  for (std::uint32_t i = 0; i < classes.count(); ++i) {
    const SlotShape& s = classes[static_cast<SizeClass>(i)];
    const double worst = 1.0 - (previous + 1.0) / s.slot_bytes;
    const std::uint64_t unused = page_bytes - std::uint64_t{s.slots_per_page} * s.slot_bytes;
    std::printf("%10u %14u %11.1f%% %11.2f%%\n", s.slot_bytes, s.slots_per_page, 100 * worst,
                100 * static_cast<double>(unused) / static_cast<double>(page_bytes));
    const double bound = std::max(1 - 1 / factor + static_cast<double>(granule_bytes) / s.slot_bytes,
                                  1.0 / (s.slots_per_page + 1) + static_cast<double>(granule_bytes) / s.slot_bytes);
    EXPECT_LT(worst, bound) << s.slot_bytes;
    EXPECT_LT(static_cast<double>(unused), 0.01 * page_bytes);
    previous = s.slot_bytes;
  }
}

TEST(SizeClasses, SlotAtInvertsLocation) {
  const SizeClasses classes(1.08, granule_bytes, item_bytes_max);
  for (std::uint32_t i = 0; i < classes.count(); ++i) {
    const SlotShape& s = classes[static_cast<SizeClass>(i)];
    for (std::uint32_t slot = 0; slot < s.slots_per_page; ++slot) {
      const Location l = s.location(7, slot);
      ASSERT_EQ(page_of(l), 7u);
      ASSERT_EQ(s.slot_at(l % page_granules), slot) << s.slot_bytes;
      // Any granule inside the slot maps to it, too.
      ASSERT_EQ(s.slot_at(l % page_granules + s.slot_granules - 1), slot) << s.slot_bytes;
    }
  }
}

TEST(SizeClasses, SmallestAndLargestFollowTheOptions) {
  const SizeClasses classes(1.25, 100, 10'000);
  EXPECT_GE(classes[0].slot_bytes, 100u);
  EXPECT_LT(classes[0].slot_bytes, 160u);
  EXPECT_NE(classes.of(10'000), huge_class);
  EXPECT_EQ(classes.of(SizeClasses::slot_bytes_max), huge_class);
}

TEST(SizeClasses, BadOptionsAreRefused) {
  EXPECT_THROW(SizeClasses(1.0, 32, item_bytes_max), std::invalid_argument);
  EXPECT_THROW(SizeClasses(-1.0, 32, item_bytes_max), std::invalid_argument);
  EXPECT_THROW(SizeClasses(std::numeric_limits<double>::quiet_NaN(), 32, item_bytes_max), std::invalid_argument);
  EXPECT_THROW(SizeClasses(std::numeric_limits<double>::infinity(), 32, item_bytes_max), std::invalid_argument);
  EXPECT_THROW(SizeClasses(1.25, SizeClasses::slot_bytes_max + 1, item_bytes_max), std::invalid_argument);
  EXPECT_THROW(SizeClasses(1.25, 32, 16), std::invalid_argument);
}

}  // namespace
}  // namespace tandem
