// Items of a page that moves to another class.
#include <vector>

#include "task/rescue-inl.hpp"
#include "task/task_fixture.hpp"

namespace tandem {
namespace {

class Rescue : public TaskTest {
 protected:
  static constexpr unsigned count = 150;  // some pages' worth
  static std::string name(unsigned i) { return "key" + std::to_string(i); }
  static std::string value(unsigned i) { return std::string(20'000, static_cast<char>('a' + i % 26)); }

  void fill(std::uint32_t expiry_s = Clock::never) {
    for (unsigned i = 0; i < count; ++i) {
      add(Opcode::store, name(i), value(i)).client_flags = i;
      batch_.query(0).expiry_s = expiry_s;
      ASSERT_EQ(write(), task::Settled::done);
      clear();
    }
  }
  void remove(std::string_view key) {
    add(Opcode::remove, key);
    ASSERT_EQ(write(), task::Settled::done);
    clear();
  }
  PageId page_of_key(unsigned i) { return page_of(heap_.location_of(find(name(i)))); }
  // Closes the page and rescues its items. Returns those left.
  std::size_t rescue(PageId page, std::size_t& left) {
    EXPECT_TRUE(heap_.close_page(page));
    context_.enter();
    std::vector<Location> found;
    heap_.for_each_live(page, [&](Location l) { found.push_back(l); });
    std::span<Location> items(found);
    const std::size_t rescued = task::rescue<CuckooIndex>(context_, items);
    left = items.size();
    context_.epoch.exit();
    return rescued;
  }
};

TEST_F(Rescue, MovesItemsToFreeSlotsAsTheyAre) {
  fill(now_s + 50);
  for (unsigned i = 1; i < count; i += 2) remove(name(i));
  const PageId page = page_of_key(0);
  std::vector<unsigned> moved;
  std::vector<ItemVersion> before;
  for (unsigned i = 0; i < count; i += 2) {
    if (page_of_key(i) != page) continue;
    moved.push_back(i);
    before.push_back(ItemVersion::of(find(name(i))));
  }
  std::size_t left = 0;
  EXPECT_EQ(rescue(page, left), moved.size());
  EXPECT_EQ(left, 0u);
  for (std::size_t k = 0; k < moved.size(); ++k) {
    const Item* const item = find(name(moved[k]));
    ASSERT_NE(item, nullptr);
    EXPECT_NE(page_of(heap_.location_of(item)), page);
    const ItemVersion now = ItemVersion::of(item);
    EXPECT_EQ(now.state, before[k].state) << "expiry, marks and CAS id";
    EXPECT_EQ(now.fixed, before[k].fixed);
    EXPECT_EQ(item->client_flags(), moved[k]);
    EXPECT_EQ(value_of(name(moved[k])), value(moved[k]));
  }
  // Nothing holds the page any more.
  epochs_.synchronize();
  const auto finishes = [&] { return heap_.finish_page(page, heap_.size_class(64)); };
  EXPECT_TRUE(finishes() || finishes());
  EXPECT_EQ(context_.counters.slab_reassign_rescues.get(), moved.size());
}

TEST_F(Rescue, LeavesWhatFindsNoSlotWithoutANewPage) {
  fill();
  const std::uint64_t used = budget_.used_bytes();
  std::size_t left = 0;
  // The last page of the class has free slots.
  const std::size_t rescued = rescue(page_of_key(0), left);
  EXPECT_GT(left, 0u);
  EXPECT_LT(rescued, 53u);
  EXPECT_EQ(budget_.used_bytes(), used);
  for (unsigned i = 0; i < count; ++i) EXPECT_EQ(value_of(name(i)), value(i)) << i;
}

TEST_F(Rescue, LeavesWhatHasExpired) {
  fill(now_s + 50);
  for (unsigned i = 1; i < count; i += 2) remove(name(i));
  const PageId page = page_of_key(0);
  clock_.freeze_for_test(now_s + 50);
  std::size_t left = 0;
  EXPECT_EQ(rescue(page, left), 0u);
  EXPECT_GT(left, 0u);
}

// An append near the memory limit may move a page to get its own memory.
TEST_F(Rescue, TheItemThatAnAppendAddsToIsFollowedAndNotEvicted) {
  fill(now_s + 50);
  for (unsigned i = 1; i < count; i += 2) remove(name(i));
  context_.spared = heap_.location_of(find(name(0)));
  std::size_t left = 0;
  ASSERT_GT(rescue(page_of_key(0), left), 0u);
  const Location now = heap_.location_of(find(name(0)));
  EXPECT_EQ(context_.spared, now);
  context_.enter();
  EXPECT_EQ(task::unlink<CuckooIndex>(context_, {&now, 1}, Spare::none, false), 0u);
  context_.spared = no_location;
  EXPECT_EQ(task::unlink<CuckooIndex>(context_, {&now, 1}, Spare::none, false), 1u);
  context_.epoch.exit();
}

}  // namespace
}  // namespace tandem
