// Items that are rewritten in the order of their keys.
#include "task/arrange.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/shuffled.hpp"
#include "task/scan.hpp"
#include "task/task_fixture.hpp"

namespace tandem {
namespace {

struct NoSink final : ItemSink {
  void restart() override {}
  bool item(const Item&, const ItemVersion&, std::uint64_t) override { return true; }
};

class Arrange : public TaskTest {
 protected:
  explicit Arrange(StorePolicy policy = {}, std::uint64_t memory_bytes = std::uint64_t{48} << 20)
      : TaskTest(policy, memory_bytes, true) {
    shared_.growth_refused = false;
  }

  static std::string name(unsigned i) {
    char text[16];
    std::snprintf(text, sizeof text, "k%07u", i);
    return text;
  }
  static std::string value(unsigned i) { return "v" + std::to_string(i); }

  // Keys 0 to count - 1 in a random order.
  void fill(unsigned count, std::size_t value_bytes = 8) {
    for (const unsigned i : shuffled(count)) put(i, value_bytes);
  }
  void put(unsigned i, std::size_t value_bytes = 8) { ASSERT_EQ(store_number(i, value_bytes), Status::stored); }
  Status store_number(unsigned i, std::size_t value_bytes) {
    std::string v = value(i);
    v.resize(value_bytes, '.');
    return store(name(i), v, 1 + i % 3);
  }
  void remove(unsigned i) {
    clear();
    add(Opcode::remove, name(i));
    ASSERT_EQ(write(), task::Settled::done);
    clear();
  }
  // Of neighbouring keys' items of one class, how many do not lie in neighbouring slots.
  unsigned breaks(unsigned count, unsigned step = 1, unsigned first = 0) {
    unsigned n = 0;
    Location before = no_location;
    for (unsigned i = first; i < count; i += step) {
      const Location l = heap_.location_of(find(name(i)));
      if (before != no_location && l != before + heap_.classes()[heap_.class_of(l)].slot_granules) ++n;
      before = l;
    }
    return n;
  }
  ScanEnd scan(const ScanRange& range, std::uint32_t limit) {
    NoSink sink;
    return task::scan(context_, range, limit, sink);
  }
};

TEST_F(Arrange, ItemsLieInTheOrderOfTheirKeysAsTheyWere) {
  constexpr unsigned count = 5000;
  fill(count, 20);
  ASSERT_GT(breaks(count), count * 9 / 10);
  std::vector<ItemVersion> before;
  for (unsigned i = 0; i < count; ++i) before.push_back(ItemVersion::of(find(name(i))));
  const std::uint64_t moved = task::arrange_all(context_);
  EXPECT_GT(moved, count - 100);
  EXPECT_EQ(context_.counters.items_arranged.get(), moved);
  // A row is of 64 items; items of other rows lie in other places.
  EXPECT_LT(breaks(count), count / 40);
  for (unsigned i = 0; i < count; ++i) {
    const Item* const item = find(name(i));
    ASSERT_NE(item, nullptr) << i;
    const ItemVersion now = ItemVersion::of(item);
    EXPECT_EQ(now.state, before[i].state) << "expiry, marks and CAS id";
    EXPECT_EQ(now.fixed, before[i].fixed);
    EXPECT_EQ(item->client_flags(), 1 + i % 3);
    std::string v = value(i);
    v.resize(20, '.');
    EXPECT_EQ(value_of(name(i)), v);
  }
  EXPECT_EQ(index_.item_count(), count);
  EXPECT_LT(task::arrange_all(context_), 100u) << "what is in order stays";
}

TEST_F(Arrange, OnlyWhatIsOutOfOrderMoves) {
  constexpr unsigned count = 5000, step = 40;
  fill(count);
  task::arrange_all(context_);
  for (unsigned i = 0; i < count; i += step) remove(i);
  for (unsigned i = count - step;; i -= step) {
    put(i);
    if (i == 0) break;
  }
  const std::uint64_t moved = task::arrange_all(context_);
  EXPECT_GT(moved, count / step / 2);
  EXPECT_LT(moved, count / step * 2);
}

TEST_F(Arrange, EachClassHasAnOrderOfItsOwn) {
  constexpr unsigned count = 4000;
  for (const unsigned i : shuffled(count)) put(i, i % 2 == 0 ? 8 : 60);
  ASSERT_NE(heap_.class_of(heap_.location_of(find(name(0)))), heap_.class_of(heap_.location_of(find(name(1)))));
  task::arrange_all(context_);
  EXPECT_LT(breaks(count, 2, 0), count / 40);
  EXPECT_LT(breaks(count, 2, 1), count / 40);
}

TEST_F(Arrange, LargeItemsStay) {
  fill(1000, 200);
  EXPECT_EQ(task::arrange_all(context_), 0u);
}

TEST_F(Arrange, ExpiredItemsStay) {
  fill(200);
  clock_.freeze_for_test(now_s + 50);
  for (unsigned i = 0; i < 200; ++i) {
    clear();
    Query& q = add(Opcode::touch, name(i));
    q.expiry_s = now_s + 10;
    ASSERT_EQ(write(), task::Settled::done);
  }
  EXPECT_EQ(task::arrange_all(context_), 0u);
}

// Between the choice and the move other threads change what was chosen.
TEST_F(Arrange, WhatHasGoneMeanwhileIsNotMoved) {
  fill(640);
  task::RangeArranger arranger(context_);
  EXPECT_EQ(arranger.begin({}, 320), name(319));
  ASSERT_TRUE(arranger.go_on(0));
  EXPECT_EQ(arranger.moved(), 1u);
  for (unsigned i = 1; i < 320; i += 2) remove(i);
  for (unsigned i = 0; i < 320; i += 8) put(i, 300);  // in another class, its old slot free
  epochs_.synchronize();
  {
    const Heap::Cache::Lock lock(context_.cache);
    heap_.reclaim_all(context_.cache);
  }
  while (arranger.go_on(0)) {
  }
  for (unsigned i = 0; i < 640; ++i) {
    std::string v = value(i);
    v.resize(i < 320 && i % 8 == 0 ? 300 : 8, '.');
    EXPECT_EQ(value_of(name(i)), i < 320 && i % 2 == 1 ? "(none)" : v) << i;
  }
  EXPECT_LE(arranger.moved(), 320u);
  EXPECT_EQ(index_.item_count(), 480u);
}

TEST_F(Arrange, ARangeThatIsAbandonedGivesItsSlotsBack) {
  fill(640);
  const auto used = [&] { return heap_.class_stats(heap_.size_class(36)).slots_used; };
  const std::uint64_t before = used();
  {
    task::RangeArranger arranger(context_);
    arranger.begin({}, 64);
    ASSERT_TRUE(arranger.go_on(0));
    EXPECT_GT(used(), before + 30);
    arranger.begin({.begin = "k0000100"}, 64);
    ASSERT_TRUE(arranger.go_on(0));
  }
  epochs_.synchronize();
  {
    const Heap::Cache::Lock lock(context_.cache);
    heap_.reclaim_all(context_.cache);
  }
  EXPECT_EQ(used(), before);
}

// The 64th scan on average; here each one.
TEST_F(Arrange, ScansNoteRangesThatAreScattered) {
  ScatteredRanges scattered(1);
  shared_.scattered = &scattered;
  fill(2000);
  RecentKeys::Noted noted;
  scan({.begin = "k0000500"}, 100);
  ASSERT_TRUE(scattered.ranges.take(noted));
  EXPECT_EQ(noted.key(), "k0000500");
  EXPECT_EQ(noted.count, 100u);
  EXPECT_FALSE(scattered.ranges.take(noted));
  scan({.end = "k0000700", .reverse = true}, 50);
  ASSERT_TRUE(scattered.ranges.take(noted));
  EXPECT_EQ(noted.key(), "k0000650");
  scan({.begin = "k0000500"}, 5);
  EXPECT_FALSE(scattered.ranges.take(noted)) << "too few to tell";
  task::arrange_all(context_);
  scan({.begin = "k0000500"}, 100);
  scan({.end = "k0000700", .reverse = true}, 50);
  EXPECT_FALSE(scattered.ranges.take(noted));
}

TEST_F(Arrange, OneScanInSoManyIsLookedAt) {
  constexpr unsigned scans = 40'000, per_look = 16;
  ScatteredRanges scattered(per_look);
  shared_.scattered = &scattered;
  fill(64);
  unsigned looks = 0;
  RecentKeys::Noted noted;
  for (unsigned i = 0; i < scans; ++i) {
    scan({}, 8);
    looks += scattered.ranges.take(noted) ? 1u : 0u;
  }
  EXPECT_GT(looks, scans / per_look / 2);
  EXPECT_LT(looks, scans / per_look * 2);
}

// Without eviction a store that has no free memory is not arranged, and loses nothing.
class ArrangeFull : public Arrange {
 protected:
  ArrangeFull() : Arrange({.evict = false}, std::uint64_t{8} << 20) {}
};

TEST_F(ArrangeFull, StopsWithoutARow) {
  const std::vector<unsigned> order = shuffled(100'000u);
  std::size_t stored = 0;
  for (; stored < order.size(); ++stored) {
    if (store_number(order[stored], 8) != Status::stored) break;
  }
  ASSERT_LT(stored, order.size()) << "then it was never full";
  task::arrange_all(context_);
  EXPECT_EQ(index_.item_count(), stored);
  for (std::size_t i = 0; i < stored; ++i) ASSERT_EQ(value_of(name(order[i])).size(), 8u);
}

// A class without a row does not keep other classes from theirs.
TEST_F(ArrangeFull, AClassWithFreeSlotsIsArranged) {
  constexpr unsigned keys_max = 100'000;
  const std::vector<unsigned> order = shuffled(keys_max);
  std::vector<unsigned> odd;  // of 128 bytes, the rest of 64
  std::size_t stored = 0;
  for (; stored < keys_max; ++stored) {
    const unsigned i = order[stored];
    if (store_number(i, i % 2 == 0 ? 8 : 90) != Status::stored) break;
    if (i % 2 == 1) odd.push_back(i);
  }
  ASSERT_LT(stored, keys_max) << "then it was never full";
  const std::size_t kept = odd.size() / 3;
  for (std::size_t k = kept; k < odd.size(); ++k) remove(odd[k]);
  odd.resize(kept);
  std::sort(odd.begin(), odd.end());
  EXPECT_GT(task::arrange_all(context_), kept * 8 / 10);
  unsigned breaks = 0;
  for (std::size_t k = 1; k < kept; ++k) {
    const Location before = heap_.location_of(find(name(odd[k - 1]))), l = heap_.location_of(find(name(odd[k])));
    if (l <= before || l - before > 4 * 128 / granule_bytes) ++breaks;
  }
  EXPECT_LT(breaks, kept / 10);
}

// The class has the budget to itself and uses half of it: pages are emptied for rows rather than all the rest taken.
TEST_F(Arrange, AQuarterOfTheClassIsTakenAtMost) {
  constexpr unsigned count = 160'000;
  fill(count);
  const SizeClass c = heap_.size_class(36);
  const std::uint64_t pages = heap_.pages_open(c);
  ASSERT_GT(pages, 4u);
  task::arrange_all(context_);
  EXPECT_LT(breaks(count), count / 20);
  EXPECT_LE(heap_.pages_open(c), pages * 4 / 3 + 3);
  EXPECT_EQ(index_.item_count(), count);
}

}  // namespace
}  // namespace tandem
