// MM: which queries get a slot, its contents, and eviction when memory is full.
#include <vector>

#include "task/task_fixture.hpp"

namespace tandem {
namespace {

class Memory : public TaskTest {
 protected:
  using TaskTest::TaskTest;
  // Runs MM alone for query i.
  QueryState prepare(std::uint32_t i = 0) {
    QueryState state = look(i);
    EXPECT_TRUE(task::prepare_write(context_, batch_, state));
    return state;
  }
  void give_back(QueryState& state) { task::release_unused(context_, batch_, state); }
};

// The write fills the slot, unless it rewrites the key's item in place.
TEST_F(Memory, AStoreGetsASlotThatHoldsItsItem) {
  Query& q = add(Opcode::store, "key", std::string(100, 'v'));
  q.client_flags = 7;
  QueryState state = prepare();
  ASSERT_NE(state.slot, no_location);
  EXPECT_EQ(heap_.class_of(state.slot), heap_.size_class(Item::total_bytes(7, 3, 100)));
  EXPECT_EQ(find("key"), nullptr);  // not in the index yet
  give_back(state);
}

TEST_F(Memory, WhatWritesNothingGetsNone) {
  set("there", "12");
  add(Opcode::get, "there");
  add(Opcode::remove, "there");
  add(Opcode::touch, "there");
  add(Opcode::arithmetic, "absent");
  add(Opcode::get, "there", {}, option::vivify);
  for (std::uint32_t i = 0; i < batch_.size(); ++i) {
    const QueryState state = prepare(i);
    EXPECT_EQ(state.slot, no_location) << i;
    EXPECT_EQ(state.refused, Status::none) << i;
  }
}

// As in memcached, a full store refuses an append whether or not the key has an item.
TEST_F(Memory, AnAppendToNothingGetsASlotForItsPiece) {
  add(Opcode::store, "absent", std::string(100, 'x')).mode = StoreMode::append;
  QueryState state = prepare();
  ASSERT_NE(state.slot, no_location);
  EXPECT_EQ(heap_.class_of(state.slot), heap_.size_class(Item::total_bytes(0, 6, 100)));
  give_back(state);
}

TEST_F(Memory, WhatChangesAnItemGetsASlotForTheChangedOne) {
  set("text", std::string(40, 't'));
  set("number", "99");
  Query& q = add(Opcode::store, "text", std::string(100, 'x'));
  q.mode = StoreMode::append;
  add(Opcode::arithmetic, "number");
  add(Opcode::get, "absent", {}, option::vivify);
  const std::uint64_t item_bytes[] = {Item::total_bytes(0, 4, 140), Item::total_bytes(0, 6, 3),
                                      Item::total_bytes(0, 6, 0)};
  for (std::uint32_t i = 0; i < batch_.size(); ++i) {
    QueryState state = prepare(i);
    ASSERT_NE(state.slot, no_location) << i;
    EXPECT_EQ(heap_.class_of(state.slot), heap_.size_class(item_bytes[i])) << i;
    give_back(state);
  }
}

TEST_F(Memory, AnItemOverTheLimitIsRefused) {
  add(Opcode::store, "k", std::string(shared_.policy.item_bytes_max, 'x'));
  const QueryState state = prepare();
  EXPECT_EQ(state.refused, Status::too_large);
  EXPECT_EQ(state.slot, no_location);
}

TEST_F(Memory, WhatIsNotExecutedGivesItsSlotBack) {
  add(Opcode::store, "k", "value");
  QueryState state = prepare();
  const Location slot = state.slot;
  give_back(state);
  EXPECT_EQ(state.slot, no_location);
  QueryState next = prepare();
  EXPECT_EQ(next.slot, slot);
  give_back(next);
}

TEST_F(Memory, AFullStoreEvicts) {
  const std::string value(20'000, 'v');
  for (unsigned i = 0; i < 1000; ++i) ASSERT_EQ(set("key" + std::to_string(i), value), Status::stored) << i;
  EXPECT_GT(context_.counters.evictions.get(), 300u);
  EXPECT_EQ(find("key0"), nullptr);
  EXPECT_NE(find("key999"), nullptr);
}

// Else the append would find no item; memcached keeps a reference to it.
TEST_F(Memory, AnAppendDoesNotEvictWhatItAddsTo) {
  const std::string value(300'000, 'v');
  for (unsigned i = 0; i < 40; ++i) ASSERT_EQ(set("key" + std::to_string(i), value), Status::stored) << i;
  ASSERT_GT(context_.counters.evictions.get(), 10u);
  for (unsigned i = 0; i < 500; ++i) {
    // CLOCK takes the next item if all are in use.
    std::vector<std::string> there;
    for (unsigned k = 0; k < 40; ++k) {
      const std::string key = "key" + std::to_string(k);
      const Item* const item = find(key);
      if (item == nullptr) continue;
      there.push_back(key);
      if (i % 2 == 0) const_cast<Item*>(item)->state_word.fetch_or(word::Accessed::mask);
    }
    ASSERT_EQ(set(there[i * 7 % there.size()], "x", StoreMode::append), Status::stored) << i;
    if (i % 5 != 0) continue;
    ASSERT_EQ(set("key" + std::to_string(i % 40), value), Status::stored);
  }
}

class NoEviction : public Memory {
 protected:
  NoEviction() : Memory(StorePolicy{.evict = false}) {}
};

TEST_F(NoEviction, AFullStoreRefuses) {
  const std::string value(20'000, 'v');
  unsigned stored = 0;
  while (stored < 1000 && set("key" + std::to_string(stored), value) == Status::stored) ++stored;
  EXPECT_GT(stored, 100u);
  EXPECT_LT(stored, 500u);
  EXPECT_EQ(context_.counters.evictions.get(), 0u);
  EXPECT_EQ(value_of("key0"), value);
}

// As in memcached, a set without memory removes the key's item, and a cas leaves it.
TEST_F(NoEviction, ARefusedCasKeepsTheItemAndARefusedSetDoesNot) {
  const std::string value(20'000, 'v'), longer(30'000, 'w');
  for (unsigned i = 0; i < 1000 && set("key" + std::to_string(i), value) == Status::stored; ++i) {
  }
  clear();
  add(Opcode::store, "key0", longer, option::compare_cas).cas = 999'999;
  EXPECT_EQ(write(), task::Settled::done);
  EXPECT_EQ(batch_.result(0).status, Status::out_of_memory);
  EXPECT_EQ(value_of("key0"), value);
  EXPECT_EQ(set("key1", longer), Status::out_of_memory);
  EXPECT_EQ(find("key1"), nullptr);
}

}  // namespace
}  // namespace tandem
