#include "heap/magazine.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tandem {
namespace {

TEST(MagazineQueue, OldestFirst) {
  Magazine a, b;
  MagazineQueue queue;
  queue.push(&a);
  queue.push(&b);
  EXPECT_EQ(queue.pop(), &a);
  queue.push(&a);
  EXPECT_EQ(queue.pop(), &b);
  EXPECT_EQ(queue.pop(), &a);
  EXPECT_EQ(queue.head, nullptr);
  EXPECT_EQ(queue.tail, nullptr);
}

TEST(MagazineSupply, IsBoundedAndKeepsFew) {
  MagazineSupply supply;
  std::vector<Magazine*> all;
  for (Magazine* m = supply.take(); m != nullptr; m = supply.take()) {
    all.push_back(m);
    ASSERT_LE(all.size(), MagazineSupply::magazines_max);
  }
  EXPECT_EQ(all.size(), MagazineSupply::magazines_max);
  EXPECT_EQ((std::set<Magazine*>(all.begin(), all.end()).size()), all.size());
  for (Magazine* m : all) supply.put(m);
  EXPECT_EQ(supply.count(), MagazineSupply::spares_max);
}

TEST(MagazineSupply, WhatItAdoptsIsCountedThere) {
  MagazineSupply from, to;
  Magazine* const m = from.take();
  to.adopt(from);
  EXPECT_EQ(from.count(), 0u);
  EXPECT_EQ(to.count(), 1u);
  to.put(m);
}

struct RetiredChainTest : testing::Test {
  RetiredChainTest() : items(10) {}
  void push(Location l) { chain.push(l, &items[l], 32); }
  std::set<Location> pop(std::uint64_t safe) {
    std::set<Location> out;
    for (Location l = chain.pop(safe).head; l != no_location; l = RetiredChain::next(&items[l])) out.insert(l);
    return out;
  }
  std::vector<Item> items;
  RetiredChain chain;
};

TEST_F(RetiredChainTest, NothingComesBackBeforeItsStamp) {
  push(1);
  push(2);
  EXPECT_TRUE(pop(RetiredChain::no_stamp).empty());  // not stamped yet
  ASSERT_TRUE(chain.can_seal());
  EXPECT_EQ(chain.seal(10), 64u);
  push(3);
  EXPECT_FALSE(chain.can_seal());  // one at a time
  EXPECT_TRUE(pop(10).empty());
  EXPECT_EQ(pop(11), (std::set<Location>{1, 2}));
  EXPECT_TRUE(chain.can_seal());
  EXPECT_EQ(chain.open_bytes(), 32u);
}

TEST_F(RetiredChainTest, ChainedSlotsStayDead) {
  for (Location l = 1; l < 10; ++l) {
    items[l].state_word.store(static_cast<std::uint64_t>(ItemState::dead));
    push(l);
    EXPECT_EQ(Item::state_of(items[l].state_word.load()), ItemState::dead);
  }
}

TEST(ClassSet, MembersInOrderWhileTheyLeave) {
  ClassSet set;
  for (const SizeClass c : {SizeClass{3}, SizeClass{64}, SizeClass{255}}) set.add(c);
  std::vector<SizeClass> seen;
  set.for_each([&](SizeClass c) {
    seen.push_back(c);
    set.remove(c);
  });
  EXPECT_EQ(seen, (std::vector<SizeClass>{3, 64, 255}));
  EXPECT_TRUE(set.is_empty());
}

}  // namespace
}  // namespace tandem
