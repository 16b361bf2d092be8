// What goes for a new key when the index cannot grow.
#include "task/index_room.hpp"

#include <cstdio>

#include "task/task_fixture.hpp"

namespace tandem {
namespace {

// No thread runs maintenance: writers alone make the room.
class OrderRoom : public TaskTest {
 protected:
  OrderRoom() : TaskTest({}, std::uint64_t{8} << 20, true) {}

  static std::string name(std::uint64_t i) {
    char text[32];
    std::snprintf(text, sizeof text, "k%012llu", static_cast<unsigned long long>(i));
    return text;
  }
  void put(const std::string& key) { ASSERT_EQ(store(key, "v"), Status::stored); }
};

TEST_F(OrderRoom, KeysThatAscendDisplaceTheOldest) {
  constexpr std::uint64_t stored = 400'000;
  for (std::uint64_t i = 0; i < stored; ++i) {
    put(name(i));
    if (HasFatalFailure()) return;
  }
  const std::uint64_t items = index_.item_count();
  ASSERT_LT(items, stored / 3) << "then it was never full";
  EXPECT_GT(index_.order()->merges(), 100u);
  std::uint64_t lost = 0;
  for (std::uint64_t i = stored - items / 2; i < stored; ++i) lost += find(name(i)) == nullptr ? 1u : 0u;
  EXPECT_EQ(lost, 0u) << "of the newer half";
  // CLOCK's pages are those of the oldest keys, so hardly any of them is left.
  std::uint64_t old = 0;
  for (std::uint64_t i = 0; i < stored - items * 3 / 2; ++i) old += find(name(i)) != nullptr ? 1u : 0u;
  EXPECT_LT(old, items / 50);
}

// Each new leaf is half full, so there are more splits.
TEST_F(OrderRoom, KeysThatDescendDisplaceTheOldest) {
  constexpr std::uint64_t stored = 300'000;
  for (std::uint64_t i = 0; i < stored; ++i) {
    put(name(stored - i));
    if (HasFatalFailure()) return;
  }
  const std::uint64_t items = index_.item_count();
  ASSERT_LT(items, stored / 2);
  std::uint64_t lost = 0;
  for (std::uint64_t i = stored - items / 2; i < stored; ++i) lost += find(name(stored - i)) == nullptr ? 1u : 0u;
  EXPECT_EQ(lost, 0u) << "of the newer half";
}

// Keys of a leaf are then of all ages: one of the older ones goes at once.
TEST_F(OrderRoom, KeysInRandomOrderDisplaceOldOnes) {
  constexpr std::uint64_t stored = 300'000;
  const auto key = [](std::uint64_t i) { return name(i * 0x9e3779b97f4a7c15u % 1'000'000'000'000u); };
  for (std::uint64_t i = 0; i < stored; ++i) {
    put(key(i));
    if (HasFatalFailure()) return;
  }
  const std::uint64_t items = index_.item_count();
  ASSERT_LT(items, stored / 2);
  std::uint64_t lost = 0;
  for (std::uint64_t i = stored - items / 2; i < stored; ++i) lost += find(key(i)) == nullptr ? 1u : 0u;
  EXPECT_LT(lost, items / 50) << "of the newer half";
}

}  // namespace
}  // namespace tandem
