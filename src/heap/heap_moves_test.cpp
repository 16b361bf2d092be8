#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "heap/heap_fixture.hpp"

namespace tandem {
namespace {

struct MoveTest : testing::Test {
  explicit MoveTest(std::uint64_t budget_bytes = 4 * PagePool::page_cost_bytes)
      : t(budget_bytes, {.item_bytes_max = 8 * mib}), w(t) {}

  std::vector<Location> fill(std::uint64_t item_bytes) {
    std::vector<Location> all;
    for (Location l = w.make(item_bytes, all.size()); l != no_location; l = w.make(item_bytes, all.size()))
      all.push_back(l);
    return all;
  }
  // A whole move in one call, as a driver does it in steps: closes, evicts, finishes.
  bool move(PageId page, SizeClass to) {
    if (!t.heap.close_page(page)) return false;
    w.epoch.enter();
    std::vector<Location> live;
    t.heap.for_each_live(page, [&](Location l) { live.push_back(l); });
    for (const Location l : live) w.retire(l);
    w.epoch.exit();
    return t.heap.finish_page(page, to);
  }

  TestHeap t;
  TestWorker w;
};

TEST_F(MoveTest, StarvingClassGetsAPage) {
  const std::vector<Location> all = fill(1000);
  const SizeClass from = t.heap.size_class(1000);
  const SizeClass to = t.heap.size_class(100);
  ASSERT_EQ(w.allocate(100), no_location);
  const PageId page = t.heap.pick_donor(to).page;
  ASSERT_NE(page, 0u);
  ASSERT_EQ(t.heap.class_of(page_location(page)), from);
  ASSERT_TRUE(move(page, to));
  EXPECT_EQ(t.heap.class_of(page_location(page)), to);
  EXPECT_NE(w.make(100), no_location);
  EXPECT_EQ(t.heap.class_stats(from).pages, 3u);
  EXPECT_EQ(t.heap.class_stats(from).pages_moved_out, 1u);
  EXPECT_EQ(t.heap.class_stats(to).pages, 1u);
  EXPECT_EQ(t.heap.class_stats(to).pages_moved_in, 1u);
  // Items in other pages are intact.
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(page_of(all[i]) == page || w.is_intact(all[i], 1000, i));
  }
}

TEST_F(MoveTest, PinnedPagesAreNoDonors) {
  const std::vector<Location> all = fill(1000);
  const SizeClass to = t.heap.size_class(100);
  std::set<PageId> pages;
  for (const Location l : all) pages.insert(page_of(l));
  ASSERT_GE(pages.size(), 3u);
  const PageId spared = *pages.begin();
  for (const PageId page : pages) {
    if (page != spared) t.heap.pin(page_location(page));
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(t.heap.pick_donor(to, Heap::DonorRule::any).page, spared);
  t.heap.pin(page_location(spared));
  EXPECT_FALSE(t.heap.pick_donor(to, Heap::DonorRule::any));
  // Nor is there a victim with a slot that could not be reused.
  std::vector<Location> victims(all.size());
  w.epoch.enter();
  const std::size_t two_turns = 3 * all.size();
  EXPECT_EQ(t.heap.sweep(t.heap.size_class(1000), victims, two_turns, nullptr, nullptr).found, 0u);
  t.heap.unpin(page_location(spared));
  const std::size_t found = t.heap.sweep(t.heap.size_class(1000), victims, two_turns, nullptr, nullptr).found;
  w.epoch.exit();
  EXPECT_GT(found, 0u);
  for (std::size_t i = 0; i < found; ++i) EXPECT_EQ(page_of(victims[i]), spared);
  for (const PageId page : pages) {
    if (page != spared) t.heap.unpin(page_location(page));
  }
}

TEST_F(MoveTest, ClassWhosePagesArePinnedLetsTheNextOneGive) {
  std::vector<Location> idle;
  for (int i = 0; i < 2; ++i) idle.push_back(w.make(page_bytes / 2 - 100, 0));  // a page; its items live longest
  for (int i = 0; i < 2; ++i) idle.push_back(w.make(page_bytes / 2 - 100, 0));
  const std::vector<Location> busy = fill(1000);
  ASSERT_FALSE(busy.empty());
  const SizeClass to = t.heap.size_class(100);
  for (int i = 0; i < 9; ++i) t.heap.pick_donor(to);  // counts fade, of both
  std::set<PageId> pinned;
  for (const Location l : idle) pinned.insert(page_of(l));
  for (const PageId page : pinned) t.heap.pin(page_location(page));
  const PageId page = t.heap.pick_donor(to).page;
  EXPECT_EQ(t.heap.class_of(page_location(page)), t.heap.size_class(1000));
  for (const PageId p : pinned) t.heap.unpin(page_location(p));
}

TEST_F(MoveTest, ClassesWithOnePageEachGiveItWhenThereIsNoOther) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t bytes = 1000; w.make(bytes, 0) != no_location; bytes *= 3) sizes.push_back(bytes);
  ASSERT_GT(sizes.size(), 2u);
  EXPECT_FALSE(t.heap.pick_donor(huge_class));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    ASSERT_TRUE(move(t.heap.pick_donor(huge_class, Heap::DonorRule::any).page, huge_class)) << i;
  EXPECT_NE(w.make(3 * mib, 0), no_location);
}

TEST_F(MoveTest, BestClassesArePassedOverOnRequest) {
  for (int i = 0; i < 4; ++i) w.make(page_bytes / 2 - 100, 0);
  fill(1000);
  const SizeClass to = t.heap.size_class(100);
  std::set<SizeClass> donors;
  for (unsigned passed = 0; passed < 2; ++passed)
    donors.insert(t.heap.class_of(page_location(t.heap.pick_donor(to, Heap::DonorRule::any, 0, passed).page)));
  EXPECT_EQ(donors, (std::set<SizeClass>{t.heap.size_class(1000), t.heap.size_class(page_bytes / 2 - 100)}));
}

// Two to a page: a page with an item in use goes last, even if its other slot is free, or is being filled.
TEST_F(MoveTest, LargeItemsInUseStay) {
  constexpr std::uint64_t bytes = 400'000;
  const std::vector<Location> all = fill(bytes);
  ASSERT_GE(all.size(), 6u);
  const PageId unused = page_of(all.back());
  for (const Location l : all) {
    if (page_of(l) != unused) w.set_accessed(t.heap, l);
  }
  const SizeClass to = t.heap.size_class(100);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(t.heap.pick_donor(to, Heap::DonorRule::any).page, unused);
  w.retire(all.front());  // of a page with another item that is in use
  w.flush();
  EXPECT_EQ(t.heap.pick_donor(to, Heap::DonorRule::any).page, unused);
}

TEST_F(MoveTest, SpareSlotsCostNoPage) {
  ASSERT_NE(w.make(1000), no_location);
  const std::uint64_t used = t.heap.class_stats(t.heap.size_class(1000)).pages;
  const Heap::Cache::Lock lock(w.cache);
  EXPECT_EQ(t.heap.allocate_spare(w.cache, t.heap.size_class(100), 100), no_location) << "the class has no page";
  std::uint64_t spare = 0;
  while (t.heap.allocate_spare(w.cache, t.heap.size_class(1000), 1000) != no_location) ++spare;
  EXPECT_GT(spare, 500u);
  EXPECT_LT(spare, page_bytes / 1000);
  EXPECT_EQ(used, 1u);
  EXPECT_EQ(t.heap.allocate_spare(w.cache, huge_class, mib), no_location);
}

TEST_F(MoveTest, HugeItemsGiveAndGetAsTheirLivesAllow) {
  const SizeClass small = t.heap.size_class(1000);
  ASSERT_NE(w.make(mib - 100, 0), no_location);
  ASSERT_NE(w.make(mib - 100, 0), no_location);
  fill(1000);
  for (int i = 0; i < 40; ++i) t.heap.pick_donor(small);  // both counts faded: huge items are few, and live shorter
  EXPECT_FALSE(t.heap.pick_donor(small).huge_item);
  EXPECT_NE(t.heap.pick_donor(huge_class).page, 0u);
  // Frequently allocated, the small items live shorter.
  for (int round = 0; round < 5000; ++round) {
    const Location l = w.allocate(1000);
    if (l != no_location) {
      w.release(l);
      continue;
    }
    w.epoch.enter();
    Location victims[64];
    const std::size_t found = t.heap.sweep(small, victims, SIZE_MAX, nullptr, nullptr).found;
    for (std::size_t i = 0; i < found; ++i) w.retire(victims[i]);
    w.epoch.exit();
    w.reclaim();
  }
  EXPECT_TRUE(t.heap.pick_donor(small).huge_item);
  EXPECT_FALSE(t.heap.pick_donor(huge_class));
}

TEST_F(MoveTest, MovedPageShowsNoOldItems) {
  fill(96);
  const SizeClass to = t.heap.size_class(32);
  const PageId page = t.heap.pick_donor(to).page;
  ASSERT_TRUE(move(page, to));
  w.epoch.enter();
  t.heap.visit_page(page, [](Location l, Item*) { FAIL() << l; });
  w.epoch.exit();
  for (std::uint64_t i = 0; i < page_bytes / sizeof(std::uint64_t); i += granule_bytes / sizeof(std::uint64_t)) {
    ASSERT_EQ(t.heap.at(page_location(page) + static_cast<Location>(i / 4))->state_word.load(), 0u);
  }
}

TEST_F(MoveTest, EvenALastPageGoesToAClassThatHasNone) {
  for (const std::uint64_t bytes : {32u, 100u, 1'000u, 5'000u}) w.make(bytes);
  ASSERT_EQ(w.allocate(20'000), no_location);
  const SizeClass to = t.heap.size_class(20'000);
  const PageId page = t.heap.pick_donor(to).page;
  ASSERT_NE(page, 0u);
  ASSERT_TRUE(move(page, to));
  EXPECT_NE(w.make(20'000), no_location);
  // But not to a class that has pages.
  EXPECT_EQ(t.heap.pick_donor(to).page, 0u);
}

TEST_F(MoveTest, DonorIsTheClassWhoseItemsLiveLongest) {
  // Two pages of small items that are never written, two of large ones that are written all the time.
  std::vector<Location> idle;
  const SizeClass idle_class = t.heap.size_class(1000);
  while (t.heap.class_stats(idle_class).pages < 2 || t.heap.slots_at_hand(w.cache, idle_class) != 0)
    idle.push_back(w.make(1000));
  const SizeClass busy_class = t.heap.size_class(5000);
  std::vector<Location> busy = fill(5000);
  t.heap.pick_donor(busy_class);  // reads the counts so far
  for (int i = 0; i < 5; ++i) {
    for (Location& l : busy) {
      w.retire(l);
      w.flush();
      l = w.make(5000);
      ASSERT_NE(l, no_location);
    }
    t.heap.pick_donor(busy_class);
  }
  const PageId page = t.heap.pick_donor(busy_class).page;
  ASSERT_NE(page, 0u);
  EXPECT_EQ(t.heap.class_of(page_location(page)), idle_class);
  // In the other direction no page moves, unless the class has no alternative.
  EXPECT_EQ(t.heap.pick_donor(idle_class).page, 0u);
  EXPECT_NE(t.heap.pick_donor(idle_class, Heap::DonorRule::any).page, 0u);
}

TEST_F(MoveTest, EmptyPagesAreGivenFirst) {
  std::vector<Location> all = fill(1000);
  const PageId empty = page_of(all[all.size() / 2]);
  for (const Location l : all) {
    if (page_of(l) == empty) w.retire(l);
  }
  w.flush();
  EXPECT_EQ(t.heap.pick_donor(t.heap.size_class(100)).page, empty);
}

TEST_F(MoveTest, AnotherCallNamesAnotherPage) {
  fill(1000);
  const SizeClass to = t.heap.size_class(100);
  const PageId first = t.heap.pick_donor(to).page;
  EXPECT_NE(t.heap.pick_donor(to).page, first);
}

// Pages that are being moved do not count: the next call picks another class, and each class keeps a page.
TEST_F(MoveTest, PagesOnTheirWayAreNoDonors) {
  const SizeClass two = t.heap.size_class(1000), other = t.heap.size_class(5000), to = t.heap.size_class(100);
  while (t.heap.class_stats(two).pages < 2 || t.heap.slots_at_hand(w.cache, two) != 0) w.make(1000);
  fill(5000);
  ASSERT_EQ(t.heap.class_stats(two).pages, 2u);
  ASSERT_EQ(t.heap.class_stats(other).pages, 2u);
  const PageId first = t.heap.pick_donor_from(two);
  EXPECT_FALSE(t.heap.is_moving_pages());
  ASSERT_TRUE(t.heap.close_page(first));
  EXPECT_TRUE(t.heap.is_moving_pages());
  EXPECT_EQ(t.heap.pages_open(two), 1u);
  EXPECT_EQ(t.heap.pick_donor_from(two), 0u) << "its last one";
  // A class without any page takes even the last one; if all are closed, none.
  const PageId second = t.heap.pick_donor(to).page;
  ASSERT_TRUE(t.heap.close_page(second));
  const PageId third = t.heap.pick_donor(to).page;
  ASSERT_TRUE(t.heap.close_page(third));
  const PageId fourth = t.heap.pick_donor(to).page;
  ASSERT_TRUE(t.heap.close_page(fourth));
  EXPECT_EQ((std::set<PageId>{first, second, third, fourth}.size()), 4u);
  EXPECT_EQ(t.heap.pick_donor(to).page, 0u);
  for (const PageId page : {first, second, third, fourth}) t.heap.reopen_page(page);
  EXPECT_FALSE(t.heap.is_moving_pages());
  EXPECT_NE(t.heap.pick_donor(to).page, 0u);
}

TEST_F(MoveTest, ClosedPageTakesItsSlotsOutOfAllCaches) {
  TestWorker other(t);
  // Both workers hold free slots of the one page.
  const Location mine = w.allocate(1000);
  const Location theirs = other.allocate(1000);
  w.release(mine);
  other.release(theirs);
  const PageId page = page_of(mine);
  ASSERT_EQ(page_of(theirs), page);
  ASSERT_TRUE(t.heap.close_page(page));
  EXPECT_FALSE(t.heap.close_page(page));
  EXPECT_NE(page_of(w.allocate(1000)), page);
  EXPECT_NE(page_of(other.allocate(1000)), page);
  ASSERT_TRUE(t.heap.finish_page(page, t.heap.size_class(64)));
  EXPECT_EQ(t.heap.class_of(page_location(page)), t.heap.size_class(64));
}

TEST_F(MoveTest, SlotsRetiredByAnyWorkerComeBackToAClosedPage) {
  auto gone = std::make_unique<TestWorker>(t);
  TestWorker other(t);
  const Location a = w.make(1000);
  const Location b = other.make(1000);
  const Location c = gone->make(1000);
  const PageId page = page_of(a);
  ASSERT_TRUE(t.heap.close_page(page));
  EXPECT_FALSE(t.heap.finish_page(page, huge_class));
  w.retire(a);
  other.retire(b);  // stays unstamped in its list: that worker is idle
  gone->retire(c);
  gone.reset();
  ASSERT_TRUE(t.heap.finish_page(page, huge_class));
  EXPECT_EQ(t.budget.used_bytes(), 0u);
}

TEST_F(MoveTest, PageWithAFillingSlotIsNotClosed) {
  const Location l = w.allocate(1000);
  EXPECT_FALSE(t.heap.close_page(page_of(l)));
  w.fill(l, 1000, 1);
  EXPECT_TRUE(t.heap.close_page(page_of(l)));
}

TEST_F(MoveTest, FreeAndHugePagesAreNotClosed) {
  EXPECT_FALSE(t.heap.close_page(0));
  EXPECT_FALSE(t.heap.close_page(1));
  const Location l = w.make(2 * mib);
  EXPECT_FALSE(t.heap.close_page(page_of(l)));
  EXPECT_FALSE(t.heap.close_page(page_of(l) + 1));
  EXPECT_FALSE(t.heap.close_page(t.heap.page_end()));
}

TEST_F(MoveTest, PageIsNotFinishedWhileSomebodyMayLookAtIt) {
  TestWorker reader(t);
  const Location l = w.make(1000);
  const PageId page = page_of(l);
  ASSERT_TRUE(t.heap.close_page(page));
  w.retire(l);
  w.flush();
  reader.epoch.enter();  // it may sweep or visit the page now
  EXPECT_FALSE(t.heap.finish_page(page, t.heap.size_class(64)));
  EXPECT_FALSE(t.heap.finish_page(page, t.heap.size_class(64)));
  reader.epoch.exit();
  reader.epoch.enter();  // it no longer finds it
  EXPECT_TRUE(t.heap.finish_page(page, t.heap.size_class(64)));
  reader.epoch.exit();
}

TEST_F(MoveTest, PinnedPageIsNotFinished) {
  const Location l = w.make(1000, 6);
  ASSERT_TRUE(t.heap.close_page(page_of(l)));
  t.heap.pin(l);
  w.retire(l);
  EXPECT_FALSE(t.heap.finish_page(page_of(l), huge_class));
  EXPECT_TRUE(w.is_intact(l, 1000, 6));
  t.heap.unpin(l);
  EXPECT_TRUE(t.heap.finish_page(page_of(l), huge_class));
}

TEST_F(MoveTest, AbandonedMoveLosesNothing) {
  const std::vector<Location> all = fill(1000);
  const PageId page = page_of(all[0]);
  ASSERT_TRUE(t.heap.close_page(page));
  w.retire(all[0]);
  w.flush();
  t.heap.reopen_page(page);
  EXPECT_EQ(w.allocate(1000), all[0]);
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_TRUE(w.is_intact(all[i], 1000, i));
  // Emptied, but the class takes it back before the reader leaves.
  TestWorker reader(t);
  w.release(all[0]);
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (page_of(all[i]) == page) w.retire(all[i]);
  }
  ASSERT_TRUE(t.heap.close_page(page));
  w.flush();
  reader.epoch.enter();
  EXPECT_FALSE(t.heap.finish_page(page, huge_class));
  t.heap.reopen_page(page);
  reader.epoch.exit();
  for (std::uint32_t i = 0; i < t.heap.classes()[t.heap.size_class(1000)].slots_per_page; ++i) {
    EXPECT_EQ(page_of(w.allocate(1000)), page);
  }
}

// With huge pages the budget counts frames of two pages.
struct FrameMoveTest : MoveTest {
  FrameMoveTest() : MoveTest(64 * mib) {}
};

TEST_F(FrameMoveTest, BudgetGetsWholeFramesBack) {
  fill(5000);
  const std::uint64_t before = t.budget.used_bytes();
  for (unsigned pages = 1; pages <= 10; ++pages) {
    const PageId page = t.heap.pick_donor(huge_class, Heap::DonorRule::any).page;
    ASSERT_NE(page, 0u);
    ASSERT_TRUE(move(page, huge_class));
    // No frame is left half free for more than one step.
    EXPECT_EQ(t.budget.used_bytes(), before - pages / 2 * 2 * PagePool::page_cost_bytes);
  }
}

TEST_F(FrameMoveTest, ClaimIsPaidWhileOthersWantMemory) {
  fill(5000);
  const std::uint64_t claim = 10 * mib;
  ASSERT_TRUE(t.budget.claim(claim));
  for (int moves = 0; t.budget.overdrawn(); ++moves) {
    ASSERT_LT(moves, 20);
    const PageId page = t.heap.pick_donor(huge_class, Heap::DonorRule::any).page;
    ASSERT_NE(page, 0u);
    ASSERT_TRUE(move(page, huge_class));
    EXPECT_EQ(w.allocate(100), no_location) << "what was freed for the claim went to somebody else";
    EXPECT_TRUE(!t.budget.overdrawn() || w.allocate(mib) == no_location);
  }
  t.budget.give_back(claim);
  EXPECT_NE(w.allocate(9 * mib / 2), no_location);
}

TEST_F(FrameMoveTest, HugeItemsAndClassesShareTheBudgetBothWays) {
  std::vector<Location> huge = fill(3 * mib - large_first_bytes);
  EXPECT_GT(huge.size(), 15u);
  const Heap::Donor donor = t.heap.pick_donor(t.heap.size_class(100));
  EXPECT_EQ(donor.page, 0u);  // only huge items: they must be evicted
  EXPECT_TRUE(donor.huge_item);
  w.retire(huge.back());
  EXPECT_NE(w.make(100), no_location);
  // And back: the page of the class to the budget.
  w.epoch.enter();
  std::vector<Location> victims(huge.size());
  victims.resize(t.heap.sweep(huge_class, victims, SIZE_MAX, nullptr, nullptr).found);
  w.epoch.exit();
  EXPECT_EQ(victims.size(), huge.size() - 1);
  for (const Location l : victims) w.retire(l);
  w.flush();
  EXPECT_EQ(t.heap.huge_items(), 0u);
  EXPECT_NE(w.make(8 * mib - 100), no_location);
}

}  // namespace
}  // namespace tandem
