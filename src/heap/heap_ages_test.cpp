// Pages move by the age of their items: what was stored last stays.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "heap/heap_fixture.hpp"

namespace tandem {
namespace {

// A store of items that are never read, counted by their CAS ids, over one worker's heap.
class AgedItems {
 public:
  AgedItems(std::uint64_t pages, bool reassigns, std::uint64_t item_bytes_max = mib / 2 - 100)
      : t_(pages * PagePool::page_cost_bytes, {.item_bytes_max = item_bytes_max, .huge_pages = false}),
        w_(t_),
        reassigns_(reassigns) {}

  // False: out of memory.
  bool store(std::uint64_t item_bytes) {
    const SizeClass c = t_.heap.size_class(item_bytes);
    Location l = w_.allocate(item_bytes);
    for (int turn = 0; l == no_location; ++turn, l = w_.allocate(item_bytes)) {
      if (turn == 100) return false;
      if (!make_room(c)) return false;
    }
    w_.fill(l, item_bytes, ++cas_);
    Item* const item = t_.heap.at(l);
    item->set_fixed(word::CasLow::put(item->fixed(), cas_));
    by_cas_[cas_] = l;
    bytes_[cas_] = item_bytes;
    return true;
  }
  // Whether the last items that take `share` of memory together are there.
  bool has_newest(std::uint64_t share) const {
    std::uint64_t left = t_.budget.limit_bytes() / share;
    for (std::uint64_t cas = cas_; cas != 0 && bytes_.at(cas) <= left; --cas) {
      if (!by_cas_.contains(cas)) return false;
      left -= bytes_.at(cas);
    }
    return true;
  }
  std::uint64_t items() const { return by_cas_.size(); }
  std::uint64_t lost_to_moves() const { return lost_to_moves_; }
  bool remove(std::uint64_t cas) {
    if (!by_cas_.contains(cas)) return false;
    forget(by_cas_.at(cas));
    return true;
  }
  std::uint64_t newest() const { return cas_; }
  void flush() { w_.flush(); }
  Heap& heap() { return t_.heap; }

 private:
  bool make_room(SizeClass c) {
    if (const PageId page = t_.heap.pick_spare(c); page != 0) {
      const std::uint64_t lost = lost_to_moves_;
      const bool moved = move(page, c);
      EXPECT_EQ(lost_to_moves_, lost) << "a spare page's items find room";
      return moved;
    }
    std::vector<Location> victims(std::clamp<std::size_t>(256 * 1024 / t_.heap.slot_bytes(c), 1, 64));
    w_.epoch.enter();
    victims.resize(t_.heap.sweep(c, victims, SIZE_MAX, nullptr, nullptr).found);
    w_.epoch.exit();
    for (const Location l : victims) forget(l);
    w_.flush();
    if (victims.empty()) return move(t_.heap.pick_donor(c, Heap::DonorRule::any).page, c);
    evicted_bytes_ += victims.size() * t_.heap.slot_bytes(c);
    if (reassigns_ && evicted_bytes_ >= page_bytes) {
      evicted_bytes_ = 0;
      if (const PageId page = t_.heap.pick_donor(c).page; page != 0) move(page, c);
    }
    return true;
  }
  void forget(Location l) {
    by_cas_.erase(cas_of(l));
    w_.retire(l);
  }
  std::uint64_t cas_of(Location l) const { return word::CasLow::get(t_.heap.at(l)->fixed()); }

  // As the store does it: items find room in their class, newer ones that of those that CLOCK reaches next.
  bool move(PageId page, SizeClass to) {
    if (page == 0 || !t_.heap.close_page(page)) return false;
    const SizeClass from = t_.heap.class_of(page_location(page));
    std::vector<Location> live;
    w_.epoch.enter();
    t_.heap.for_each_live(page, [&](Location l) { live.push_back(l); });
    const std::uint64_t keep_above = t_.heap.cas_to_keep_above(page);
    w_.epoch.exit();
    std::sort(live.begin(), live.end(), [this](Location a, Location b) { return cas_of(a) > cas_of(b); });
    for (const Location l : live) {
      const std::uint64_t cas = cas_of(l);
      Location there = allocate_spare(l);
      if (there == no_location && cas > keep_above && evict_one(from)) there = allocate_spare(l);
      if (there == no_location) {
        ++lost_to_moves_;
        by_cas_.erase(cas);
      } else {
        w_.fill(there, bytes_[cas], cas);
        t_.heap.at(there)->set_fixed(word::CasLow::put(t_.heap.at(there)->fixed(), cas));
        by_cas_[cas] = there;
      }
      w_.retire(l);
    }
    return t_.heap.finish_page(page, to) || t_.heap.finish_page(page, to);  // the first one stamps what is retired
  }
  bool evict_one(SizeClass c) {
    Location victim = no_location;
    w_.epoch.enter();
    const bool found = t_.heap.sweep(c, {&victim, 1}, SIZE_MAX, nullptr, nullptr).found != 0;
    w_.epoch.exit();
    if (found) forget(victim);
    w_.flush();
    return found;
  }
  Location allocate_spare(Location from) {
    const Heap::Cache::Lock lock(w_.cache);
    return t_.heap.allocate_spare(w_.cache, t_.heap.class_of(from), bytes_[cas_of(from)]);
  }

  TestHeap t_;
  TestWorker w_;
  const bool reassigns_;
  std::uint64_t cas_ = 0, lost_to_moves_ = 0, evicted_bytes_ = 0;
  std::map<std::uint64_t, Location> by_cas_;
  std::map<std::uint64_t, std::uint64_t> bytes_;
};

TEST(Ages, HugeItemsCountByWhenTheyWereStored) {
  AgedItems items(32, false, 8 * mib);
  const std::uint64_t small_bytes = 1000, huge_bytes = 2 * mib, new_bytes = 20'000;
  for (std::uint64_t i = 0; i < 4 * page_bytes / small_bytes; ++i) ASSERT_TRUE(items.store(small_bytes));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(items.store(huge_bytes));
  const Heap::Donor donor = items.heap().pick_donor(items.heap().size_class(new_bytes), Heap::DonorRule::any);
  EXPECT_FALSE(donor.huge_item) << "the newest items go first";
  EXPECT_EQ(items.heap().class_of(page_location(donor.page)), items.heap().size_class(small_bytes));
}

class AgesTest : public testing::TestWithParam<bool> {};

// As many sizes as pages, but one page.
TEST_P(AgesTest, EachNewSizeTakesAnOldPage) {
  for (const std::uint64_t filling : {100u, 5'000u, 100'000u, 400'000u}) {
    AgedItems s(24, GetParam());
    while (s.lost_to_moves() == 0 && s.newest() < 3 * 24 * mib / filling) ASSERT_TRUE(s.store(filling));
    const std::uint64_t before = s.newest();
    for (std::uint64_t bytes = 32; s.newest() < before + 22; bytes += bytes / 3) {
      ASSERT_TRUE(s.store(bytes)) << bytes;
      ASSERT_TRUE(s.has_newest(100)) << filling << " bytes each, then one of " << bytes;
    }
  }
}

TEST_P(AgesTest, TheNewestStayWhateverTheOrderOfSizes) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    AgedItems s(64, GetParam());
    TestRandom random(seed);
    for (int burst = 0; burst < 150; ++burst) {
      const std::uint64_t bytes = random.size_between(100, 300'000);
      const std::uint64_t count = 1 + random.below(2 * mib) / bytes;
      for (std::uint64_t i = 0; i < count; ++i) ASSERT_TRUE(s.store(bytes));
      ASSERT_TRUE(s.has_newest(100)) << "seed " << seed << ", burst " << burst << " of " << bytes << " bytes";
    }
    EXPECT_GT(s.lost_to_moves(), 0u) << "memory was full";
  }
}

// Deleted here and there, or expired: a page's worth of free slots is a page for another size.
TEST_P(AgesTest, FreeSlotsServeOtherSizesFirst) {
  AgedItems s(24, GetParam());
  constexpr std::uint64_t bytes = 1000;
  while (s.lost_to_moves() == 0 && s.newest() < 20 * mib / bytes) ASSERT_TRUE(s.store(bytes));
  while (s.heap().slots_free(s.heap().size_class(bytes)) > 10) ASSERT_TRUE(s.store(bytes));
  const std::uint64_t all = s.items();
  for (std::uint64_t cas = 1; cas <= s.newest(); cas += 2) s.remove(cas);
  s.flush();
  const std::uint64_t left = s.items();
  ASSERT_LT(left, all / 2 + 10);
  std::uint64_t stored = 0;
  for (; stored < 8 * mib / 5000; ++stored) ASSERT_TRUE(s.store(5000));
  EXPECT_EQ(s.items(), left + stored) << "nothing had to go";
}

INSTANTIATE_TEST_SUITE_P(Reassigns, AgesTest, testing::Bool());

// A class has all its slots in a cache, and none is in use.
TEST(SpareTest, FreeSlotsInCachesCount) {
  TestHeap t(4 * PagePool::page_cost_bytes, {.huge_pages = false});
  TestWorker w(t);
  const SizeClass c = t.heap.size_class(1000), to = t.heap.size_class(100);
  const Location l = w.allocate(1000);
  EXPECT_EQ(t.heap.pick_spare(to), 0u) << "an item is in it";
  w.release(l);
  EXPECT_LT(t.heap.slots_free(c), t.heap.classes()[c].slots_per_page) << "some are in the cache";
  int calls = 0;  // counted in vain, and not again at once
  while (!t.heap.has_spare(to)) ASSERT_LT(++calls, 100);
  const PageId page = t.heap.pick_spare(to);
  ASSERT_EQ(page, page_of(l));
  EXPECT_FALSE(t.heap.has_spare(c)) << "not of its own class";
  ASSERT_TRUE(t.heap.close_page(page));
  EXPECT_EQ(t.heap.pick_spare(to), 0u) << "it is on its way";
  ASSERT_TRUE(t.heap.finish_page(page, to));
  EXPECT_NE(w.allocate(100), no_location);
}

// Two classes of equal churn: what the receiver would evict is older than what the other has.
TEST(SpareTest, NothingNewerThanTheReceiversOldestIsGiven) {
  AgedItems s(24, true);
  while (s.newest() < 60 * mib / 100'000) ASSERT_TRUE(s.store(100'000));
  for (int i = 0; i < 1500; ++i) ASSERT_TRUE(s.store(1000));
  const SizeClass small = s.heap().size_class(1000), large = s.heap().size_class(100'000);
  ASSERT_EQ(s.heap().pages_open(small), 2u);
  EXPECT_FALSE(s.heap().pick_donor(large, Heap::DonorRule::stored_earlier, s.newest()));
  EXPECT_TRUE(s.heap().pick_donor(large, Heap::DonorRule::any));
}

// Of three classes the oldest gives, if what it gives is twice as old as what the receiver would evict.
TEST(SpareTest, TheOldestClassGivesWhenTwiceAsOld) {
  AgedItems s(24, true);
  constexpr std::uint64_t oldest = 100'000, older = 50'000, newest = 1000;
  for (const std::uint64_t bytes : {oldest, older, newest}) {
    const std::uint64_t all = bytes == newest ? mib / 2 : 3 * mib;
    for (std::uint64_t stored = 0; stored < all; stored += bytes) ASSERT_TRUE(s.store(bytes));
  }
  const auto donor_for = [&](std::uint64_t bytes, std::uint64_t cas_now) {
    return s.heap().pick_donor(s.heap().size_class(bytes), Heap::DonorRule::stored_earlier, cas_now).page;
  };
  const PageId page = donor_for(newest, s.newest());
  ASSERT_NE(page, 0u);
  EXPECT_EQ(s.heap().class_of(page_location(page)), s.heap().size_class(oldest));
  EXPECT_EQ(donor_for(newest, 100 * s.newest()), 0u) << "all about as old, seen from later";
  EXPECT_EQ(donor_for(oldest, s.newest()), 0u) << "the others are newer";
}

// Huge items are a class like any other: what was stored first goes.
TEST(SpareTest, HugeItemsAreRankedByWhenTheyWereStored) {
  constexpr std::uint64_t huge = 900'000, small = 1000, receiver = 100'000;
  const auto gives_huge = [](std::uint64_t first, std::uint64_t then) {
    AgedItems s(24, true);
    for (const std::uint64_t bytes : {first, then}) {
      for (std::uint64_t stored = 0; stored < 10 * mib; stored += bytes) EXPECT_TRUE(s.store(bytes));
    }
    const Heap::Donor donor = s.heap().pick_donor(s.heap().size_class(receiver), Heap::DonorRule::any);
    EXPECT_TRUE(donor);
    return donor.huge_item;
  };
  EXPECT_TRUE(gives_huge(huge, small));
  EXPECT_FALSE(gives_huge(small, huge));
}

}  // namespace
}  // namespace tandem
