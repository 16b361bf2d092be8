#include "heap/heap.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "heap/heap_fixture.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t small_budget = 8 * PagePool::page_cost_bytes;  // eight pages

TEST(Heap, AllocatedSlotsAreFillingDistinctAndLargeEnough) {
  TestHeap t(small_budget);
  TestWorker w(t);
  for (const std::uint64_t bytes : {32u, 33u, 560u, 5'000u, 100'000u}) {
    const Location a = w.allocate(bytes);
    const Location b = w.allocate(bytes);
    ASSERT_NE(a, no_location);
    ASSERT_NE(b, no_location);
    const std::uint32_t slot = t.heap.slot_bytes(t.heap.class_of(a));
    EXPECT_GE(slot, bytes);
    EXPECT_GE(a > b ? a - b : b - a, slot / granule_bytes);
    EXPECT_EQ(t.heap.class_of(a), t.heap.size_class(bytes));
    EXPECT_EQ(Item::state_of(t.heap.at(a)->state_acquire()), ItemState::filling);
    EXPECT_EQ(t.heap.location_of(t.heap.at(a)), a);
  }
}

TEST(Heap, FormatWritesWhatTheItemReads) {
  TestHeap t(small_budget);
  TestWorker w(t);
  const Location l = w.allocate(Item::total_bytes(77, 5, 9));
  Item* item = t.heap.format(l, "abcde", 77, 9, 1234, (1u << 15) + 3, true);
  EXPECT_EQ(Item::state_of(item->state_acquire()), ItemState::filling);
  EXPECT_EQ(item->key(), "abcde");
  EXPECT_EQ(item->client_flags(), 77u);
  EXPECT_EQ(t.heap.value_bytes(item), 9u);
  EXPECT_EQ(t.heap.total_bytes(item), Item::total_bytes(77, 5, 9));
  EXPECT_EQ(Item::expiry_of(item->state_acquire()), 1234u);
  EXPECT_EQ(word::AccessS::get(item->state_acquire()), 3u);
  EXPECT_EQ(word::Accessed::get(item->state_acquire()), 0u);
  EXPECT_EQ(item->cas(item->state_acquire()), 0u);
  EXPECT_TRUE(item->binary_key());
  EXPECT_FALSE(item->is_huge());
}

TEST(Heap, ReleasedSlotsComeBackAtOnce) {
  TestHeap t(small_budget);
  TestWorker w(t);
  w.epoch.enter();
  const Location l = w.allocate(64);
  w.release(l);
  EXPECT_EQ(w.allocate(64), l);
  w.epoch.exit();
}

TEST(Heap, RetiredSlotsWaitForReadersThatMaySeeThem) {
  TestHeap t(small_budget);
  TestWorker w(t);
  TestWorker reader(t);
  const Location l = w.make(400'000);  // not cached, two a page
  reader.epoch.enter();
  w.retire(l);
  EXPECT_EQ(w.flush(), 0u);
  EXPECT_EQ(t.heap.retired_bytes(), t.heap.slot_bytes(t.heap.class_of(l)));
  EXPECT_TRUE(w.is_intact(l, 400'000, 0));
  reader.epoch.exit();
  EXPECT_EQ(w.flush(), 1u);
  EXPECT_EQ(t.heap.retired_bytes(), 0u);
  EXPECT_EQ(w.allocate(400'000), l);
}

TEST(Heap, FewRetiredSlotsAreStampedInTheEnd) {
  TestHeap t(small_budget);
  TestWorker w(t);
  w.retire(w.make(64));
  std::size_t back = 0;
  for (int batches = 0; batches < 100; ++batches) back += w.reclaim();
  EXPECT_EQ(back, 1u);
}

TEST(Heap, OwnBatchHoldsItsOwnRetiredSlotsBack) {
  TestHeap t(small_budget);
  TestWorker w(t);
  w.epoch.enter();
  const Location l = w.make(400'000);
  w.retire(l);
  EXPECT_EQ(w.flush(), 0u);
  w.epoch.exit();
  EXPECT_EQ(w.flush(), 1u);
}

TEST(Heap, PinnedPagesKeepTheirRetiredSlots) {
  TestHeap t(small_budget);
  TestWorker w(t);
  const Location pinned = w.make(400'000, 1);
  const Location neighbour = w.make(400'000, 2);
  const Location other = w.make(400'000, 3);
  ASSERT_EQ(page_of(pinned), page_of(neighbour));
  ASSERT_NE(page_of(pinned), page_of(other));
  t.heap.pin(pinned);
  t.heap.pin(pinned);
  w.retire(pinned);
  w.retire(other);
  EXPECT_EQ(w.flush(), 1u);
  EXPECT_TRUE(w.is_intact(pinned, 400'000, 1));
  t.heap.unpin(pinned);
  EXPECT_EQ(w.flush(), 0u);
  t.heap.unpin(pinned);
  EXPECT_EQ(w.flush(), 1u);
  EXPECT_EQ(t.heap.retired_bytes(), 0u);
}

TEST(HeapDeathTest, UnpinWithoutPinIsCaught) {
  TestHeap t(small_budget);
  TestWorker w(t);
  const Location l = w.make(100);
  EXPECT_DEATH(t.heap.unpin(l), "assertion failed");
}

TEST(Heap, ExhaustionIsAnAnswerAndFreeingHelps) {
  for (const std::uint64_t bytes : {std::uint64_t{32}, std::uint64_t{1'000}, std::uint64_t{60'000},
                                    std::uint64_t{500'000}, mib - large_first_bytes}) {
    TestHeap t(small_budget);
    TestWorker w(t);
    std::vector<Location> all;
    for (Location l = w.make(bytes); l != no_location; l = w.make(bytes)) all.push_back(l);
    EXPECT_LE(t.budget.used_bytes(), t.budget.limit_bytes());
    const std::uint64_t per_page =
        bytes > SizeClasses::slot_bytes_max ? 1 : t.heap.classes()[t.heap.size_class(bytes)].slots_per_page;
    EXPECT_EQ(all.size(), 8 * per_page) << bytes;
    for (int i = 0; i < 10; ++i) EXPECT_EQ(w.allocate(bytes), no_location);
    w.retire(all.back());
    EXPECT_NE(w.make(bytes), no_location) << "what one retired must serve again without help, " << bytes;
  }
}

TEST(Heap, BudgetTooSmallForAPage) {
  TestHeap t(1000);
  TestWorker w(t);
  EXPECT_EQ(w.allocate(32), no_location);
  EXPECT_EQ(w.allocate(mib), no_location);
  EXPECT_EQ(t.budget.used_bytes(), 0u);
}

TEST(Heap, FreeSlotsOfOtherCachesAreFound) {
  TestHeap t(PagePool::page_cost_bytes);  // one page
  TestWorker a(t);
  TestWorker b(t);
  std::vector<Location> all;
  for (Location l = a.make(5000); l != no_location; l = a.make(5000)) all.push_back(l);
  // `a` keeps one in its cache; those of `b` are retired and wait unstamped.
  a.release(all[0]);
  EXPECT_EQ(b.allocate(5000), all[0]);
  b.retire(all[1]);
  Location l = no_location;
  for (int tries = 0; tries < 10 && l == no_location; ++tries) l = a.allocate(5000);
  EXPECT_EQ(l, all[1]);
}

TEST(Heap, CacheThatGoesLeavesNothingBehind) {
  TestHeap t(PagePool::page_cost_bytes);
  TestWorker w(t);
  TestWorker reader(t);
  const SizeClass c = t.heap.size_class(1000);
  const std::uint32_t slots = t.heap.classes()[c].slots_per_page;
  {
    TestWorker gone(t);
    std::vector<Location> all;
    for (Location l = gone.make(1000); l != no_location; l = gone.make(1000)) all.push_back(l);
    ASSERT_EQ(all.size(), slots);
    reader.epoch.enter();
    for (std::uint32_t i = 0; i < 300; ++i) gone.retire(all[i]);
    for (std::uint32_t i = 300; i < 310; ++i) gone.release(all[i]);
  }
  const ClassStats s = t.heap.class_stats(c);
  EXPECT_EQ(s.slots_free, 10u);
  EXPECT_EQ(s.slots_used, slots - 310u);
  EXPECT_EQ(t.heap.retired_bytes(), 300u * s.slot_bytes);
  for (int i = 0; i < 10; ++i) EXPECT_NE(w.allocate(1000), no_location);
  EXPECT_EQ(w.allocate(1000), no_location);  // the other workers' epoch has not passed
  reader.epoch.exit();
  for (int i = 0; i < 300; ++i) ASSERT_NE(w.allocate(1000), no_location) << i;
  EXPECT_EQ(w.allocate(1000), no_location);
  EXPECT_EQ(t.heap.retired_bytes(), 0u);
}

TEST(Heap, HugeItemsAreRunsOfPages) {
  TestHeap t(64 * mib, {.item_bytes_max = 32 * mib});
  TestWorker w(t);
  TestWorker reader(t);
  const std::uint64_t bytes = 5 * mib + 17;
  const Location l = w.make(bytes, 9);
  ASSERT_NE(l, no_location);
  EXPECT_EQ(t.heap.class_of(l), huge_class);
  EXPECT_TRUE(t.heap.at(l)->is_huge());
  EXPECT_EQ(t.heap.value_bytes(t.heap.at(l)), bytes - sizeof(Item));
  EXPECT_EQ(t.heap.total_bytes(t.heap.at(l)), bytes);
  EXPECT_TRUE(w.is_intact(l, bytes, 9));
  EXPECT_EQ(t.heap.huge_items(), 1u);
  EXPECT_EQ(t.heap.huge_bytes(), 5 * mib + run_part_bytes);
  EXPECT_EQ(t.heap.capacity_bytes(l), 5 * mib + run_part_bytes - large_first_bytes);
  EXPECT_EQ(t.heap.class_stats(huge_class).slots_used, 1u);
  reader.epoch.enter();
  w.retire(l);
  EXPECT_EQ(w.flush(), 0u);
  EXPECT_TRUE(w.is_intact(l, bytes, 9));
  reader.epoch.exit();
  EXPECT_EQ(w.flush(), 1u);
  EXPECT_EQ(t.heap.huge_items(), 0u);
  EXPECT_EQ(t.heap.huge_bytes(), 0u);
  EXPECT_EQ(t.budget.used_bytes(), 0u);
}

TEST(Heap, ValueOfAMebibyteTakesLittleMore) {
  TestHeap t(64 * mib, {.item_bytes_max = 32 * mib});
  TestWorker w(t);
  std::vector<Location> items;
  const std::uint64_t bytes = Item::total_bytes(0, 20, mib);
  for (Location l = w.make(bytes, items.size()); l != no_location; l = w.make(bytes, items.size())) items.push_back(l);
  EXPECT_GE(items.size(), 58u) << "1.1 MiB each";
  for (std::size_t i = 0; i < items.size(); ++i) EXPECT_TRUE(w.is_intact(items[i], bytes, i)) << i;
}

TEST(Heap, HugeItemIsRetiredAtOnceInFull) {
  // Its memory counts for the limit on retired bytes without waiting for a chunk to fill.
  TestHeap t(64 * mib, {.item_bytes_max = 32 * mib});
  TestWorker w(t);
  w.epoch.enter();
  w.retire(w.make(20 * mib - large_first_bytes));
  EXPECT_EQ(t.heap.retired_bytes(), 20 * mib);
  w.epoch.exit();
  EXPECT_EQ(w.reclaim(), 1u);
}

TEST(Heap, AbandonedHugeFillGivesItsPagesBack) {
  TestHeap t(64 * mib, {.item_bytes_max = 32 * mib});
  TestWorker w(t);
  const Location l = w.allocate(20 * mib);
  w.release(l);
  w.flush();
  EXPECT_EQ(t.budget.used_bytes(), 0u);
}

TEST(Heap, PinnedHugeItemsKeepTheirPages) {
  TestHeap t(64 * mib, {.item_bytes_max = 32 * mib});
  TestWorker w(t);
  const Location l = w.make(20 * mib, 4);
  t.heap.pin(l);
  w.retire(l);
  EXPECT_EQ(w.flush(), 0u);
  EXPECT_EQ(w.allocate(50 * mib), no_location);
  EXPECT_TRUE(w.is_intact(l, 20 * mib, 4));
  t.heap.unpin(l);
  EXPECT_EQ(w.flush(), 1u);
  EXPECT_EQ(t.budget.used_bytes(), 0u);
}

TEST(Heap, HugeItemsOfManySizesFragmentNothingForGood) {
  TestHeap t(64 * mib, {.item_bytes_max = 64 * mib});
  TestWorker w(t);
  TestRandom random(5);
  std::vector<std::pair<Location, std::uint64_t>> live;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t bytes = 600'000 + random.below(6 * mib);
    const Location l = w.make(bytes, bytes);
    if (l != no_location) live.emplace_back(l, bytes);
    ASSERT_LE(t.budget.used_bytes(), t.budget.limit_bytes());
    if (l == no_location || random.below(3) == 0) {
      const std::size_t victim = random.below(live.size());
      ASSERT_TRUE(w.is_intact(live[victim].first, live[victim].second, live[victim].second));
      w.retire(live[victim].first);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
      w.flush();
    }
  }
  for (const auto& [l, bytes] : live) w.retire(l);
  w.flush();
  EXPECT_EQ(t.budget.used_bytes(), 0u);
  EXPECT_NE(w.allocate(60 * mib), no_location);  // nearly all of the budget in one run
}

TEST(Heap, VisitSeesLiveItemsOnly) {
  TestHeap t(64 * mib, {.item_bytes_max = 8 * mib});
  TestWorker w(t);
  std::set<Location> live;
  for (const std::uint64_t bytes : {32u, 100u, 3'000u, 200'000u, 3'000'000u}) {
    live.insert(w.make(bytes));
    w.retire(w.make(bytes));
    w.release(w.allocate(bytes));
    w.allocate(bytes);
  }
  std::set<Location> seen;
  w.epoch.enter();
  for (PageId p = 1; p < t.heap.page_end(); ++p) {
    t.heap.visit_page(p, [&](Location l, Item* item) {
      EXPECT_EQ(item, t.heap.at(l));
      EXPECT_TRUE(seen.insert(l).second);
    });
  }
  w.epoch.exit();
  EXPECT_EQ(seen, live);
}

TEST(Heap, SlotsAtHandCountsWhatNeedsNoNewPage) {
  TestHeap t(small_budget);
  TestWorker w(t);
  const SizeClass c = t.heap.size_class(1000);
  EXPECT_EQ(t.heap.slots_at_hand(w.cache, c), 0u);
  w.make(1000);
  EXPECT_EQ(t.heap.slots_at_hand(w.cache, c), t.heap.classes()[c].slots_per_page - 1);
}

TEST(Heap, BadOptionsAreRefused) {
  MemoryBudget budget(small_budget);
  EpochDomain epochs(1);
  EXPECT_THROW(Heap({.growth_factor = 0.5}, budget, epochs), std::invalid_argument);
  EXPECT_THROW(Heap({.item_bytes_max = item_bytes_limit + 1}, budget, epochs), std::invalid_argument);
  EXPECT_THROW(Heap({.item_bytes_max = 0}, budget, epochs), std::invalid_argument);
}

#if TD_ADDRESS_SANITIZER
TEST(HeapDeathTest, FreeSlotsAndSlackArePoisoned) {
  TestHeap t(small_budget);
  TestWorker w(t);
  const Location l = w.make(100);
  EXPECT_DEATH(t.heap.at(l)->bytes()[100] = 1, "use-after-poison");
  w.retire(l);
  EXPECT_EQ(t.heap.at(l)->bytes()[50], t.heap.at(l)->bytes()[50]);  // readers may still look
  w.flush();
  EXPECT_DEATH(t.heap.at(l)->bytes()[50] = 1, "use-after-poison");
}
#endif

}  // namespace
}  // namespace tandem
