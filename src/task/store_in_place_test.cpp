// Sets in place that meet another one.
#include "task/store_in_place.hpp"

#include <atomic>
#include <thread>
#include <vector>

#include "task/task_fixture.hpp"

namespace tandem {
namespace {

using task::PlainSet;
using task::Rewritten;

class SetsInPlace : public TaskTest {
 protected:
  SetsInPlace() {
    EXPECT_EQ(set("k", "old"), Status::stored);
    context_.enter();
    item_ = const_cast<Item*>(find("k"));
  }
  ~SetsInPlace() override { context_.epoch.exit(); }

  static PlainSet set_of(std::string_view value) { return {"k", value, 0, 0, false, false}; }
  task::StripTime time() const { return {now_s, 0}; }
  std::uint64_t overwritten() const { return context_.counters.set_overwritten.get(); }

  Item* item_ = nullptr;
};

// At each moment of another set: `meanwhile` runs under its lock, when it has written all but the state word.
TEST_F(SetsInPlace, OneThatBeganBeforeAnotherWroteIsOverwrittenByIt) {
  const ItemVersion before = ItemVersion::of(item_);
  ItemVersion seen = before, mine, others;
  ASSERT_TRUE(task::try_store_in_place(context_, item_, set_of("two"), time(), others, [&](const ItemVersion&) {
    EXPECT_TRUE(is_rewriting(item_->state_acquire()));
    EXPECT_EQ(task::rewrite_item(context_, item_, seen, set_of("one"), time(), mine, task::tell_nobody),
              Rewritten::done);
  }));
  EXPECT_EQ(overwritten(), 1u);
  EXPECT_EQ(value_of("k"), "two");
  // One with an id that is shown has one between the rest.
  PlainSet shown = set_of("one");
  shown.shows_id = true;
  seen = before;
  ASSERT_TRUE(task::try_store_in_place(context_, item_, set_of("two"), time(), others, [&](const ItemVersion&) {
    EXPECT_EQ(task::rewrite_item(context_, item_, seen, shown, time(), mine, task::tell_nobody), Rewritten::changed);
  }));
  EXPECT_EQ(overwritten(), 1u);
  EXPECT_EQ(ItemVersion::of(item_).cas(), others.cas());
}

TEST_F(SetsInPlace, OneThatFindsTheLockAndNoLaterVersionIsNot) {
  ItemVersion seen = ItemVersion::of(item_), locked = seen, mine;
  ASSERT_TRUE(lock_item(item_, locked));
  EXPECT_EQ(task::rewrite_item(context_, item_, seen, set_of("one"), time(), mine, task::tell_nobody),
            Rewritten::changed);
  unlock_item(item_, locked.state);
  EXPECT_EQ(overwritten(), 0u);
  EXPECT_EQ(value_of("k"), "old");
}

// A reader's lock, or a mark, is no set.
TEST_F(SetsInPlace, AMarkThatChangesDoesNotOverwrite) {
  ItemVersion seen = ItemVersion::of(item_), mine;
  item_->state_word.fetch_or(word::Accessed::mask);
  EXPECT_EQ(task::rewrite_item(context_, item_, seen, set_of("one"), time(), mine, task::tell_nobody),
            Rewritten::changed);
  ASSERT_TRUE(task::try_store_in_place(context_, item_, set_of("one"), time(), mine));
  EXPECT_EQ(overwritten(), 0u);
  EXPECT_EQ(value_of("k"), "one");
}

// A set that a device has to be told of is never left out.
TEST_F(SetsInPlace, OneThatTellsIsNotOverwritten) {
  ItemVersion seen = ItemVersion::of(item_), mine, others;
  ASSERT_TRUE(task::try_store_in_place(context_, item_, set_of("two"), time(), others, [&](const ItemVersion&) {
    const auto tell = [](const ItemVersion&) {};
    EXPECT_EQ(task::rewrite_item(context_, item_, seen, set_of("one"), time(), mine, tell), Rewritten::changed);
  }));
  EXPECT_EQ(overwritten(), 0u);
}

// What a thread reads behind its own set is its value or another thread's, never one that it wrote before.
TEST_F(SetsInPlace, ManyOfOneKeyByManyThreads) {
  constexpr std::uint64_t threads = 4, turns = 100'000;
  std::atomic<std::uint64_t> wrong{0}, overwritten_sets{0};
  std::vector<std::thread> all;
  for (std::uint64_t t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      Context context(shared_);
      for (std::uint64_t n = 1; n <= turns; ++n) {
        char value[3] = {static_cast<char>(t), static_cast<char>(n & 0xff), static_cast<char>(n >> 8)};
        context.enter();
        ItemVersion stored;
        if (!task::try_store_in_place(context, item_, set_of({value, 3}), time(), stored)) ++wrong;
        char read[3];
        copy_validated(item_, stored.state, [&](const ItemVersion&) { racing_copy(read, item_->value(), 3); });
        if (read[0] == value[0] && std::memcmp(read, value, 3) != 0) ++wrong;
        context.epoch.exit();
      }
      overwritten_sets += context.counters.set_overwritten.get();
    });
  }
  for (std::thread& t : all) t.join();
  EXPECT_EQ(wrong.load(), 0u);
  RecordProperty("overwritten", static_cast<int>(overwritten_sets.load()));
}

}  // namespace
}  // namespace tandem
