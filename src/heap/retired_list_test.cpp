#include "heap/retired_list.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tandem {
namespace {

struct RetiredListTest : testing::Test {
  RetiredListTest() : items(400'000) {}
  void push(Location l, std::uint64_t bytes = 32) { list.push(l, &items[l], bytes); }
  // Takes back all that is safe.
  std::set<Location> pop(std::uint64_t safe) {
    std::set<Location> out;
    while (RetiredList::Chunk* chunk = list.pop(safe)) {
      for (std::uint32_t i = 0; i < chunk->count; ++i) EXPECT_TRUE(out.insert(chunk->slots[i]).second);
      list.recycle(chunk);
    }
    for (Location l = list.pop_chain(safe).head; l != no_location; l = RetiredList::next_in_chain(&items[l])) {
      EXPECT_TRUE(out.insert(l).second);
    }
    return out;
  }

  std::vector<Item> items;
  RetiredList list;
};

TEST_F(RetiredListTest, NothingComesBackBeforeItsStamp) {
  push(1);
  push(2);
  EXPECT_EQ(list.oldest_stamp(), RetiredList::no_stamp);
  EXPECT_TRUE(pop(RetiredList::no_stamp).empty());  // not stamped yet
  EXPECT_EQ(list.seal(10), 64u);
  EXPECT_EQ(list.oldest_stamp(), 10u);
  EXPECT_TRUE(pop(10).empty());
  EXPECT_EQ(pop(11), (std::set<Location>{1, 2}));
  EXPECT_FALSE(list.has_open());
  EXPECT_EQ(list.oldest_stamp(), RetiredList::no_stamp);
}

TEST_F(RetiredListTest, OldestFirst) {
  push(1);
  list.seal(10);
  push(2);
  list.seal(20);
  push(3);
  EXPECT_EQ(pop(15), std::set<Location>{1});
  EXPECT_EQ(list.oldest_stamp(), 20u);
  list.seal(30);
  EXPECT_EQ(pop(31), (std::set<Location>{2, 3}));
}

TEST_F(RetiredListTest, FullBySlotsOrBytes) {
  for (Location l = 1; l < RetiredList::chunk_slots; ++l) {
    push(l);
    EXPECT_FALSE(list.is_full());
  }
  push(RetiredList::chunk_slots);
  EXPECT_TRUE(list.is_full());
  list.seal(1);
  EXPECT_FALSE(list.is_full());
  push(1000, RetiredList::chunk_bytes_max);
  EXPECT_TRUE(list.is_full());
}

TEST_F(RetiredListTest, PastItsBoundItChainsTheSlots) {
  // No reader leaves: all that is retired must wait, in bounded memory, and come back whole.
  const Location total = (RetiredList::chunks_max + 100) * RetiredList::chunk_slots;
  ASSERT_LT(total, items.size());
  std::uint64_t bytes = 0;
  for (Location l = 1; l <= total; ++l) {
    push(l);
    if (list.is_full()) bytes += list.seal(l);
  }
  EXPECT_EQ(list.memory_bytes(), RetiredList::chunks_max * sizeof(RetiredList::Chunk));
  bytes += list.seal(total + 1);
  bytes += list.seal(total + 2);
  std::set<Location> back = pop(RetiredList::no_stamp);
  bytes += list.seal(total + 3);  // a chain that waited for the one before
  back.merge(pop(RetiredList::no_stamp));
  EXPECT_EQ(back.size(), total);
  EXPECT_EQ(bytes, std::uint64_t{total} * 32);
  EXPECT_FALSE(list.has_open());
  // And it goes on with chunks, few.
  EXPECT_LT(list.memory_bytes(), 32 * sizeof(RetiredList::Chunk));
  push(5);
  EXPECT_EQ(Item::state_of(items[5].state_word.load()), Item::state_of(0));
  list.seal(1);
  EXPECT_EQ(pop(2), std::set<Location>{5});
}

TEST_F(RetiredListTest, ChainedSlotsStayDead) {
  for (Location l = 1; l <= (RetiredList::chunks_max + 1) * RetiredList::chunk_slots; ++l) {
    items[l].state_word.store(static_cast<std::uint64_t>(ItemState::dead));
    push(l);
    if (list.is_full()) list.seal(l);
    ASSERT_EQ(Item::state_of(items[l].state_word.load()), ItemState::dead);
  }
}

}  // namespace
}  // namespace tandem
