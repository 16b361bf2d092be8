// Operations when memory is short: eviction, classes that starve, stores that must not evict, huge items.
#include "task/operations_fixture.hpp"

namespace tandem {
namespace {

class SmallStoreTest : public OperationsTest {
 protected:
  SmallStoreTest() : OperationsTest(std::uint64_t{8} << 20) {}
};

TEST_F(SmallStoreTest, AFullStoreEvictsWhatWasNotUsed) {
  const std::string value(1000, 'v');
  for (int i = 0; i < 40000; ++i) {
    const std::string key = "key" + std::to_string(i);
    store(key, value);
    if (i % 2 == 0) add(Opcode::get, "hot");
    if (i == 0) store("hot", value);
    for (const Answer& a : run()) ASSERT_NE(a.status, Status::out_of_memory);
  }
  EXPECT_EQ(get("hot").status, Status::hit) << "an item in use survives 40,000 others";
  EXPECT_EQ(get("key39999").status, Status::hit);
  EXPECT_EQ(get("key0").status, Status::miss);
  EXPECT_GT(context_.counters.evictions.get(), 30000u);
  EXPECT_LE(budget_.used_bytes(), budget_.limit_bytes());
}

TEST_F(SmallStoreTest, AWholeBatchOfStoresLargerThanMemoryIsAnswered) {
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 100; ++i) store("key" + std::to_string(i), std::string(200000, 'v'));
    for (const Answer& a : run()) ASSERT_EQ(a.status, Status::stored);
    EXPECT_EQ(get("key99").status, Status::hit);
  }
}

TEST_F(SmallStoreTest, AStarvingClassGetsPages) {
  for (int i = 0; i < 60000; ++i) set("small" + std::to_string(i), "12345678");
  for (int i = 0; i < 50; ++i) set("large" + std::to_string(i), std::string(100000, 'x'));
  EXPECT_EQ(get("large49").status, Status::hit);
  for (int i = 0; i < 1000; ++i) set("small" + std::to_string(i), "12345678");
  EXPECT_EQ(get("small999").status, Status::hit);
  EXPECT_LE(budget_.used_bytes(), budget_.limit_bytes());
}

class NoEvictionTest : public OperationsTest {
 protected:
  NoEvictionTest() : OperationsTest(std::uint64_t{8} << 20, {.evict = false}) {}
};

TEST_F(NoEvictionTest, AFullStoreSaysSoAndKeepsWhatItHas) {
  const std::string value(5000, 'v');
  int stored = 0;
  for (int i = 0; i < 3000; ++i) {
    store("key" + std::to_string(i), value);
    const Status s = one().status;
    if (s == Status::out_of_memory) break;
    ASSERT_EQ(s, Status::stored);
    ++stored;
  }
  EXPECT_GT(stored, 800);
  EXPECT_LT(stored, 3000);
  for (int i = 0; i < stored; ++i) EXPECT_EQ(get("key" + std::to_string(i)).status, Status::hit);
  add(Opcode::remove, "key0");
  run();
  set("again", value);
}

TEST_F(NoEvictionTest, ExpiredItemsAreReclaimedAllTheSame) {
  const std::string value(5000, 'v');
  for (int i = 0;; ++i) {
    store("key" + std::to_string(i), value).expiry_s = 1010;
    if (one().status == Status::out_of_memory) break;
  }
  clock_.freeze_for_test(1010);
  set("fresh", value);
  EXPECT_EQ(context_.counters.evictions.get(), 0u);
  EXPECT_GT(context_.counters.reclaimed.get(), 0u);
}

class HugeItemTest : public OperationsTest {
 protected:
  HugeItemTest() : OperationsTest(std::uint64_t{32} << 20, {.item_bytes_max = std::uint64_t{12} << 20}) {}
};

TEST_F(HugeItemTest, HugeItemsComeAndGo) {
  for (int i = 0; i < 3000; ++i) set("small" + std::to_string(i), std::string(5000, 's'));
  for (int i = 0; i < 20; ++i) {
    const std::string value(static_cast<std::size_t>(1 + i % 11) << 20, static_cast<char>('a' + i));
    const std::string key = "huge" + std::to_string(i);
    set(key, value);
    EXPECT_EQ(get(key).value, value);
  }
  EXPECT_LE(budget_.used_bytes(), budget_.limit_bytes());
}

TEST_F(HugeItemTest, HugeItemsAreAppendedTo) {
  set("k", std::string(9 << 20, 'h'));
  store("k", "tail", StoreMode::append);
  EXPECT_EQ(one().status, Status::stored);
  EXPECT_EQ(get("k").value.substr(9 << 20), "tail");
}

}  // namespace
}  // namespace tandem
