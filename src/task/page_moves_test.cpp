// A page that moves with more items than its class has free slots for.
#include "task/page_moves.hpp"

#include <algorithm>
#include <vector>

#include "task/task_fixture.hpp"

namespace tandem {
namespace {

class PageMoves : public TaskTest {
 protected:
  static std::string name(unsigned i) { return "key" + std::to_string(i); }
  // In order of their keys, which fill pages one after another.
  void fill(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      add(Opcode::store, name(i), std::string(20'000, 'v'));
      ASSERT_EQ(write(), task::Settled::done);
      clear();
    }
  }
  SizeClass class_of_key(unsigned i) { return heap_.class_of(heap_.location_of(find(name(i)))); }
  PageId page_of_key(unsigned i) { return page_of(heap_.location_of(find(name(i)))); }
  std::vector<unsigned> lost(unsigned count) {
    std::vector<unsigned> keys;
    for (unsigned i = 0; i < count; ++i) {
      if (find(name(i)) == nullptr) keys.push_back(i);
    }
    return keys;
  }
  const SizeClass to_ = heap_.size_class(64);
};

TEST_F(PageMoves, TheClassLosesWhatClockReachesNextNotTheNewest) {
  fill(1);
  const unsigned slots = heap_.classes()[class_of_key(0)].slots_per_page, count = 4 * slots;
  fill(count);
  const unsigned newest = count - 1;
  const PageId page = page_of_key(newest);
  ASSERT_NE(page, page_of_key(2 * slots));
  ASSERT_TRUE(task::move_this_page(context_, page, to_, task::Loses::any));
  const std::vector<unsigned> gone = lost(count);
  EXPECT_FALSE(gone.empty());
  for (const unsigned i : gone) EXPECT_LT(i, 2 * slots) << "of " << count;
  EXPECT_EQ(context_.counters.slab_reassign_evictions_nomem.get(), gone.size());
}

TEST_F(PageMoves, ThePageMovesIfItsNewerItemsFindRoom) {
  fill(1);
  const unsigned slots = heap_.classes()[class_of_key(0)].slots_per_page, count = 4 * slots;
  fill(count);
  ASSERT_TRUE(task::move_this_page(context_, page_of_key(count - 1), to_, task::Loses::oldest));
  for (unsigned i = 2 * slots; i < count; ++i) EXPECT_NE(find(name(i)), nullptr) << i;
}

// Nothing is evicted elsewhere for an old page's items.
TEST_F(PageMoves, TheOldestPageGoesWithItsItems) {
  fill(1);
  const unsigned slots = heap_.classes()[class_of_key(0)].slots_per_page, count = 4 * slots;
  fill(count);
  const PageId page = page_of_key(0);
  std::vector<unsigned> there;
  for (unsigned i = 0; i < count; ++i) {
    if (page_of_key(i) == page) there.push_back(i);
  }
  ASSERT_TRUE(task::move_this_page(context_, page, to_, task::Loses::any));
  for (const unsigned i : lost(count)) EXPECT_TRUE(std::ranges::find(there, i) != there.end()) << i;
}

TEST_F(PageMoves, AClassesOnlyPageMovesWithoutItsItems) {
  fill(20);
  const PageId page = page_of_key(0);
  ASSERT_TRUE(task::move_this_page(context_, page, to_, task::Loses::any));
  EXPECT_EQ(lost(20).size(), 20u);
}

TEST_F(PageMoves, NothingIsLostWhereNothingMayBeEvicted) {
  fill(1);
  const SizeClass c = class_of_key(0);
  const unsigned slots = heap_.classes()[c].slots_per_page, count = 3 * slots - 5;
  fill(count);
  ASSERT_EQ(heap_.class_stats(c).pages, 3u);
  EXPECT_FALSE(task::move_this_page(context_, page_of_key(slots), to_, task::Loses::nothing));
  EXPECT_FALSE(task::empty_page(context_, c));
  EXPECT_TRUE(lost(count).empty());
}

}  // namespace
}  // namespace tandem
