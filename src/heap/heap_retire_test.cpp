// The cycle of magazines: full of retired slots, stamped, safe, allocated from again.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "heap/heap_fixture.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t item_bytes = 32;
constexpr std::uint32_t per_magazine = Magazine::slots_max;  // slots of this size in a magazine

struct RetireTest : testing::Test {
  RetireTest() : t(16 * PagePool::page_cost_bytes), w(t), reader(t), c(t.heap.size_class(item_bytes)) {}

  std::vector<Location> make(std::size_t count, std::uint64_t bytes = item_bytes) {
    std::vector<Location> all;
    while (all.size() < count) all.push_back(w.make(bytes));
    return all;
  }
  void retire(const std::vector<Location>& all) {
    for (const Location l : all) w.retire(l);
  }
  // How many of the retired slots return within this many allocations.
  std::size_t reused(const std::vector<Location>& retired, std::size_t allocations) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < allocations; ++i) {
      const Location l = w.allocate(item_bytes);
      EXPECT_NE(l, no_location);
      n += std::find(retired.begin(), retired.end(), l) != retired.end() ? 1u : 0u;
    }
    return n;
  }
  // Leaves no slot of the class at hand but the retired ones, none of which may be given.
  void use_up(const std::vector<Location>& retired = {}) {
    while (t.heap.slots_at_hand(w.cache, c) != 0) EXPECT_EQ(reused(retired, 1), 0u);
  }

  TestHeap t;
  TestWorker w, reader;
  SizeClass c;
};

TEST_F(RetireTest, SafeMagazineIsTheNextOne) {
  const std::vector<Location> all = make(2 * per_magazine);
  use_up();
  retire(all);
  EXPECT_EQ(reused(all, 2 * per_magazine), 2 * per_magazine);
  EXPECT_EQ(t.heap.retired_bytes(), 0u);
}

TEST_F(RetireTest, MagazineIsNotReusedWhileAReaderMaySeeIt) {
  const std::vector<Location> all = make(3 * per_magazine);
  reader.epoch.enter();
  retire(all);
  EXPECT_EQ(t.heap.retired_bytes(), 3 * per_magazine * item_bytes);
  use_up(all);
  EXPECT_EQ(reused(all, 3 * per_magazine), 0u);
  reader.epoch.exit();
  EXPECT_EQ(reused(all, 4 * per_magazine), 3 * per_magazine);  // first the rest of a page
}

TEST_F(RetireTest, StampIsTakenAfterTheLastSlot) {
  // The reader enters before the last slot is retired, so it may see that one.
  std::vector<Location> all = make(per_magazine);
  const Location last = all.back();
  all.pop_back();
  retire(all);
  t.epochs.retire_stamp();  // stamps of other workers advance
  reader.epoch.enter();
  t.epochs.retire_stamp();
  w.retire(last);
  use_up({last});
  EXPECT_EQ(reused({last}, 4 * per_magazine), 0u);
  reader.epoch.exit();
}

TEST_F(RetireTest, FewOfManyClassesAreStampedTogether) {
  reader.epoch.enter();
  std::uint64_t bytes = 0;
  for (std::uint64_t b = 32; b < 8'000; b += b) {
    bytes += t.heap.slot_bytes(t.heap.size_class(b));
    w.retire(w.make(b));
  }
  EXPECT_EQ(t.heap.retired_bytes(), 0u);  // not one magazine is full
  const std::uint64_t before = t.epochs.now();
  w.flush();
  EXPECT_EQ(t.heap.retired_bytes(), bytes);
  EXPECT_LE(t.epochs.now(), before + 1);
  reader.epoch.exit();
  w.flush();
  EXPECT_EQ(t.heap.retired_bytes(), 0u);
}

TEST_F(RetireTest, HalfFullMagazineComesBackWhole) {
  const std::vector<Location> all = make(10);
  retire(all);
  EXPECT_EQ(w.flush(), all.size());
  const std::vector<Location> more = make(per_magazine + 3);
  retire(more);
  EXPECT_EQ(w.flush(), more.size());
  std::set<Location> given;
  while (t.heap.slots_at_hand(w.cache, c) != 0) EXPECT_TRUE(given.insert(w.allocate(item_bytes)).second);
  for (const Location l : more) EXPECT_TRUE(given.contains(l));
}

// A page that closes has slots everywhere: in the `giving` magazine, in a waiting one, in one that fills.
TEST_F(RetireTest, PageMoveMissesNoMagazine) {
  const std::vector<Location> all = make(2 * per_magazine + 5);
  const PageId page = page_of(all[0]);
  ASSERT_EQ(page_of(all.back()), page);
  reader.epoch.enter();
  retire(all);  // two magazines wait, five slots are not stamped
  ASSERT_TRUE(t.heap.close_page(page));
  EXPECT_EQ(page_of(w.allocate(item_bytes)), page + 1) << "a slot that the cache had before";
  reader.epoch.exit();
  // All safe slots are of the closed page now.
  std::set<PageId> pages;
  for (std::uint32_t i = 0; i < 4 * per_magazine; ++i) pages.insert(page_of(w.allocate(item_bytes)));
  EXPECT_FALSE(pages.contains(page));
  ASSERT_TRUE(t.heap.finish_page(page, t.heap.size_class(64)));
  EXPECT_EQ(t.heap.class_of(page_location(page)), t.heap.size_class(64));
}

TEST_F(RetireTest, PinnedPageKeepsItsSlotsOfAMagazine) {
  const Location neighbour = w.make(item_bytes);
  const std::vector<Location> pinned = make(per_magazine / 2);
  while (page_of(w.make(item_bytes)) == page_of(neighbour)) {
  }
  const std::vector<Location> free = make(per_magazine - pinned.size());
  ASSERT_NE(page_of(free[0]), page_of(neighbour));
  t.heap.pin(neighbour);
  retire(pinned);
  retire(free);
  EXPECT_EQ(w.flush(), free.size());
  EXPECT_EQ(w.flush(), 0u);
  use_up(pinned);
  EXPECT_EQ(reused(pinned, 2 * per_magazine), 0u);
  t.heap.unpin(neighbour);
  EXPECT_EQ(w.flush(), pinned.size());
}

TEST_F(RetireTest, SurplusOfOneClassGoesToItsPages) {
  // All items change their size: the slots that they leave are not kept for this worker's next allocations.
  const std::size_t count = 3 * Heap::Cache::kept_bytes_max / item_bytes;
  const std::vector<Location> all = make(count);
  use_up();
  retire(all);
  EXPECT_LE(t.heap.retired_bytes(), Heap::Cache::kept_bytes_max + 2 * per_magazine * item_bytes);
  EXPECT_GE(t.heap.slots_at_hand(reader.cache, c) * item_bytes, Heap::Cache::kept_bytes_max);
}

TEST_F(RetireTest, OldestSurplusGoesFirst) {
  const std::vector<Location> old = make(Heap::Cache::kept_bytes_max / item_bytes);
  const std::vector<Location> now = make(Heap::Cache::kept_bytes_max / 64, 64);
  use_up();
  retire(old);
  retire(now);
  EXPECT_LE(t.heap.retired_bytes(), Heap::Cache::kept_bytes_max + 2 * per_magazine * 64);
  EXPECT_GE(t.heap.slots_at_hand(reader.cache, c), old.size() - 3 * per_magazine);
}

TEST_F(RetireTest, RetiringGoesOnPastTheBoundOfMagazines) {
  // No reader leaves its epoch: all that is retired must wait, in bounded memory, and come back whole.
  const std::size_t count = (MagazineSupply::magazines_max + 50) * per_magazine;
  const std::vector<Location> all = make(count);
  reader.epoch.enter();
  retire(all);
  EXPECT_EQ(t.heap.class_stats(c).slots_used, 0u);
  EXPECT_EQ(w.flush(), 0u);
  EXPECT_NE(w.allocate(item_bytes), no_location) << "without a magazine to take from";
  reader.epoch.exit();
  std::size_t back = 0;
  for (int i = 0; i < 3; ++i) back += w.flush();  // one chain is sealed at a time
  EXPECT_EQ(back, count);
  EXPECT_EQ(t.heap.retired_bytes(), 0u);
}

TEST_F(RetireTest, CacheThatEndsPastTheBoundLosesNothing) {
  const std::size_t count = (MagazineSupply::magazines_max + 50) * per_magazine;
  {
    TestWorker gone(t);
    std::vector<Location> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(gone.make(item_bytes));
    reader.epoch.enter();
    for (const Location l : all) gone.retire(l);
    gone.retire(gone.make(100'000));
  }
  t.heap.reclaim_caches();
  EXPECT_EQ(t.heap.class_stats(c).slots_used, 0u);
  EXPECT_EQ(t.heap.class_stats(c).slots_free + count, t.heap.class_stats(c).slots_total);
  reader.epoch.exit();
  for (int i = 0; i < 3; ++i) t.heap.reclaim_caches();
  EXPECT_EQ(t.heap.retired_bytes(), 0u);
  EXPECT_EQ(t.heap.class_stats(c).slots_free, t.heap.class_stats(c).slots_total);
}

}  // namespace
}  // namespace tandem
