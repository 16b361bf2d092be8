#include "heap/class_pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "heap/page_pool.hpp"

namespace tandem {
namespace {

constexpr std::uint32_t slot_bytes =
    2016;  // 520 a page: more than one group of the bitmap, and no whole number of words

struct ClassPagesTest : testing::Test {
  ClassPagesTest()
      : budget(std::uint64_t{16} << 20),
        pool(budget, false),
        sizes(1.25, granule_bytes, 1 << 20),
        c(sizes.of(slot_bytes)) {
    pages.init(pool.table(), sizes[c], c);
  }
  PageId add_page() {
    const PageId page = pool.take_page();
    pages.add_page(page, false);
    return page;
  }
  std::vector<Location> take(std::uint32_t count) {
    std::vector<Location> out(count);
    out.resize(pages.take(out));
    return out;
  }

  MemoryBudget budget;
  PagePool pool;
  SizeClasses sizes;
  SizeClass c;
  ClassPages pages;
};

TEST_F(ClassPagesTest, EverySlotIsGivenOnce) {
  add_page();
  add_page();
  const std::uint32_t total = 2 * sizes[c].slots_per_page;
  EXPECT_EQ(pages.slots_free(), total);
  std::set<Location> seen;
  for (std::vector<Location> some = take(37); !some.empty(); some = take(37)) {
    for (const Location l : some) {
      EXPECT_TRUE(seen.insert(l).second);
      EXPECT_EQ(l % page_granules % sizes[c].slot_granules, 0u);
      EXPECT_LE(l % page_granules + sizes[c].slot_granules, page_granules);
    }
  }
  EXPECT_EQ(seen.size(), total);
  EXPECT_EQ(pages.slots_free(), 0u);
  pages.put(std::vector<Location>(seen.begin(), seen.end()));
  EXPECT_EQ(pages.slots_free(), total);
  EXPECT_EQ(take(total).size(), total);
}

TEST_F(ClassPagesTest, SlotsTakenFromTheEndWalkUpwards) {
  add_page();
  const std::vector<Location> some = take(64);
  EXPECT_TRUE(std::is_sorted(some.rbegin(), some.rend()));
  EXPECT_EQ(some.back() % page_granules, 0u);
}

TEST_F(ClassPagesTest, SingleFreeSlotsAreFoundAnywhere) {
  add_page();
  std::vector<Location> all = take(sizes[c].slots_per_page);
  for (const std::size_t i : {std::size_t{0}, all.size() / 2, all.size() - 1}) {
    pages.put({&all[i], 1});
    EXPECT_EQ(take(64), std::vector<Location>{all[i]});
  }
}

// 520 slots are 8 rows and 8 slots that are none.
TEST_F(ClassPagesTest, RowsAreSideBySideAndGivenOnce) {
  Location row[row_slots];
  EXPECT_FALSE(pages.take_row(row));
  const PageId old = add_page(), page = add_page();
  std::set<Location> seen;
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(pages.take_row(row)) << i;
    EXPECT_EQ(page_of(row[0]), i < 8 ? page : old) << "the newest page first";
    for (std::uint32_t k = 0; k < row_slots; ++k) {
      EXPECT_EQ(row[k], row[0] + k * sizes[c].slot_granules);
      EXPECT_TRUE(seen.insert(row[k]).second);
    }
    EXPECT_EQ(pages.slots_free(), 2 * sizes[c].slots_per_page - seen.size());
  }
  EXPECT_FALSE(pages.take_row(row));
  EXPECT_EQ(take(100).size(), 16u) << "the slots behind the rows";
  EXPECT_FALSE(pages.take_row(row));
  pages.put(std::vector<Location>(seen.begin(), seen.end()));
  EXPECT_EQ(take(2 * sizes[c].slots_per_page).size(), seen.size());
}

TEST_F(ClassPagesTest, ARowHasToBeWhole) {
  add_page();
  std::vector<Location> all = take(sizes[c].slots_per_page);
  std::sort(all.begin(), all.end());
  // A row but for one slot; then that one, too.
  pages.put(std::span(all).subspan(row_slots, row_slots - 1));
  Location row[row_slots];
  EXPECT_FALSE(pages.take_row(row));
  pages.put(std::span(all).subspan(2 * row_slots - 1, 1));
  ASSERT_TRUE(pages.take_row(row));
  EXPECT_TRUE(std::equal(std::begin(row), std::end(row), all.begin() + row_slots));
  EXPECT_TRUE(take(1).empty());
}

TEST_F(ClassPagesTest, AClosedPageGivesNoRow) {
  const PageId page = add_page();
  EXPECT_TRUE(pages.close(page));
  Location row[row_slots];
  EXPECT_FALSE(pages.take_row(row));
  pages.reopen(page);
  EXPECT_TRUE(pages.take_row(row));
}

TEST_F(ClassPagesTest, GivingBackTwiceIsCaught) {
  add_page();
  const std::vector<Location> one = take(1);
  pages.put(one);
  EXPECT_DEATH(pages.put(one), "assertion failed");
}

TEST_F(ClassPagesTest, ClosedPageGivesNothingButCollects) {
  const PageId page = add_page();
  const std::vector<Location> some = take(10);
  EXPECT_TRUE(pages.close(page));
  EXPECT_FALSE(pages.close(page));
  EXPECT_TRUE(take(1).empty());
  EXPECT_EQ(pages.claim(64).count, 0u);
  EXPECT_FALSE(pages.is_empty(page));
  pages.put(some);
  EXPECT_TRUE(take(1).empty());
  EXPECT_TRUE(pages.is_empty(page));
  pages.reopen(page);
  EXPECT_EQ(take(sizes[c].slots_per_page).size(), sizes[c].slots_per_page);
}

TEST_F(ClassPagesTest, PageThatLeftIsForgotten) {
  const PageId first = add_page();
  const PageId second = add_page();
  ASSERT_TRUE(pages.close(first));
  pages.leave(first);
  EXPECT_EQ(tag::state_of(pool.table().tag(first)), PageState::free);
  EXPECT_EQ(pages.pages(), 1u);
  EXPECT_EQ(pages.totals().moved_out, 1u);
  for (const Location l : take(2 * sizes[c].slots_per_page)) EXPECT_EQ(page_of(l), second);
}

TEST_F(ClassPagesTest, HandVisitsEverySlotOncePerTurn) {
  for (int i = 0; i < 3; ++i) add_page();
  take(3 * sizes[c].slots_per_page);
  const std::uint32_t total = 3 * sizes[c].slots_per_page;
  for (int turn = 0; turn < 2; ++turn) {
    std::set<Location> seen;
    while (seen.size() < total) {
      const ClassPages::Range range = pages.claim(std::min(50u, total - static_cast<std::uint32_t>(seen.size())));
      ASSERT_NE(range.count, 0u);
      for (std::uint32_t i = 0; i < range.count; ++i) {
        ASSERT_TRUE(seen.insert(sizes[c].location(range.page, range.first + i)).second);
      }
    }
  }
}

TEST_F(ClassPagesTest, HandPassesPagesThatAreAllFree) {
  add_page();
  const std::vector<Location> used = take(sizes[c].slots_per_page);
  for (int i = 0; i < 3; ++i) add_page();
  for (int i = 0; i < 40; ++i) EXPECT_EQ(pages.claim(64).page, page_of(used[0]));
}

TEST_F(ClassPagesTest, UnclaimedSlotsComeNext) {
  add_page();
  take(sizes[c].slots_per_page);
  const ClassPages::Range first = pages.claim(64);
  pages.unclaim(first, 20);
  EXPECT_EQ(pages.claim(64).first, 20u);
  // Ignored after the hand has moved.
  pages.unclaim(first, 10);
  EXPECT_EQ(pages.claim(64).first, 84u);
}

TEST_F(ClassPagesTest, UnclaimedEndOfAPageComesNext) {
  add_page();
  add_page();
  take(2 * sizes[c].slots_per_page);
  const std::uint32_t slots = sizes[c].slots_per_page;
  const ClassPages::Range all = pages.claim(slots);
  ASSERT_EQ(all.count, slots);
  pages.unclaim(all, slots - 1);
  const ClassPages::Range last = pages.claim(64);
  EXPECT_EQ(last.page, all.page);
  EXPECT_EQ(last.first, slots - 1);
  EXPECT_EQ(last.count, 1u);
}

TEST_F(ClassPagesTest, HandSurvivesThePageUnderItClosing) {
  const PageId first = add_page();
  const PageId second = add_page();
  take(2 * sizes[c].slots_per_page);
  const ClassPages::Range range = pages.claim(10);
  ASSERT_TRUE(pages.close(range.page));
  pages.unclaim(range, 5);  // ignored: the page is gone from the ring
  const PageId other = range.page == first ? second : first;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(pages.claim(64).page, other);
  ASSERT_TRUE(pages.close(other));
  EXPECT_EQ(pages.claim(64).count, 0u);
  pages.reopen(range.page);
  EXPECT_EQ(pages.claim(64).page, range.page);
}

TEST_F(ClassPagesTest, DonorIsThePageWithMostFreeSlotsThenAnother) {
  const PageId first = add_page();
  const std::vector<Location> of_first = take(sizes[c].slots_per_page);
  const PageId second = add_page();
  const std::vector<Location> of_second = take(sizes[c].slots_per_page);
  EXPECT_EQ(pages.pick_donor(2, ClassPages::Donor::emptiest), 0u);  // none to spare
  pages.put({&of_first[0], 1});
  pages.put({&of_second[0], 2});
  EXPECT_EQ(pages.pick_donor(1, ClassPages::Donor::emptiest), second);
  // The next call continues from there.
  const PageId next = pages.pick_donor(1, ClassPages::Donor::emptiest);
  EXPECT_TRUE(next == first || next == second);
}

}  // namespace
}  // namespace tandem
