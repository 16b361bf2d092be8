// The body of a set: what each outcome leaves of its slot and of the old item.
#include "task/store_plain-inl.hpp"
#include "task/task_fixture.hpp"

namespace tandem {
namespace {

class StorePlain : public TaskTest {
 protected:
  task::SetOperation operation(std::string_view value) {
    const Item* const item = find("k");
    return {{"k", value, 0, Clock::never, false},
            fingerprint_of("k", shared_.hash_seed),
            {now_s, shared_.flush_cas.load()},
            item != nullptr ? heap_.location_of(item) : no_location};
  }
  bool store(const task::SetOperation& op) {
    context_.enter();
    const bool done = shared_.code.store_plain(context_, op, stored_);
    context_.epoch.exit();
    return done;
  }
  // Of the class of "k" with a value of up to 8 bytes.
  std::uint64_t slots_at_hand() const {
    return heap_.slots_at_hand(context_.cache, heap_.size_class(Item::total_bytes(0, 1, 8)));
  }

  ItemVersion stored_{};
};

TEST_F(StorePlain, InPlaceItTakesNoSlot) {
  set("k", "old");
  const Item* const item = find("k");
  const std::uint64_t slots = slots_at_hand();
  EXPECT_TRUE(store(operation("new")));
  EXPECT_EQ(find("k"), item);
  EXPECT_EQ(value_of("k"), "new");
  EXPECT_EQ(stored_.cas(), item->cas(item->state_acquire()));
  EXPECT_EQ(slots_at_hand(), slots);
  EXPECT_EQ(context_.displaced_count, 0u);
}

TEST_F(StorePlain, BesideTheNextOneRetiresWhatThisOneDisplaced) {
  set("k", "old");
  const Location first = heap_.location_of(find("k"));
  EXPECT_TRUE(store(operation("longer")));
  EXPECT_EQ(value_of("k"), "longer");
  EXPECT_EQ(stored_.cas(), find("k")->cas(find("k")->state_acquire()));
  ASSERT_EQ(context_.displaced_count, 1u);
  EXPECT_EQ(context_.displaced[0], first);
  EXPECT_EQ(context_.retired_bytes, 0u);
  const Location second = heap_.location_of(find("k"));
  EXPECT_TRUE(store(operation("long")));
  ASSERT_EQ(context_.displaced_count, 1u);
  EXPECT_EQ(context_.displaced[0], second);
  EXPECT_NE(context_.retired_bytes, 0u);
  context_.retire_displaced();
  EXPECT_EQ(context_.displaced_count, 0u);
}

TEST_F(StorePlain, MoreItemsThanAreNotedAreRetiredAtOnce) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i <= context_.displaced.size(); ++i) keys.push_back("k" + std::to_string(i));
  for (const std::string& key : keys) set(key, "v");
  Location last = no_location;
  context_.enter();
  for (const std::string& key : keys) {
    CuckooIndex::Guard guard = index_.lock(fingerprint_of(key, shared_.hash_seed));
    const Item* const item = guard.find(key);
    ASSERT_TRUE(item != nullptr && guard.erase());
    context_.displace(item);
    last = heap_.location_of(item);
  }
  context_.epoch.exit();
  ASSERT_EQ(context_.displaced_count, 1u);
  EXPECT_EQ(context_.displaced[0], last);
  EXPECT_NE(context_.retired_bytes, 0u);
  context_.retire_displaced();
}

TEST_F(StorePlain, AFlushSinceItsStripBeganGivesItsSlotBack) {
  set("k", "old");
  const std::uint64_t slots = slots_at_hand();
  const task::SetOperation op = operation("longer");
  shared_.flush_cas = shared_.take_cas_ids(1);
  EXPECT_FALSE(store(op));
  EXPECT_EQ(slots_at_hand(), slots);
  EXPECT_EQ(context_.displaced_count, 0u);
  EXPECT_EQ(value_of("k"), "old");
}

TEST_F(StorePlain, ALargerItemThanThePolicyTakesIsLeftToMM) {
  shared_.policy.item_bytes_max = 100;
  const std::string value(200, 'x');
  EXPECT_FALSE(store(operation(value)));
  EXPECT_EQ(find("k"), nullptr);
}

// MM takes a slot ahead of the search, so it is left over where the set goes in place, or `add` finds an item.
TEST_F(StorePlain, ASlotThatIsNotNeededComesBack) {
  set("k", "old");
  const Item* const item = find("k");
  const std::uint64_t slots = slots_at_hand();
  EXPECT_EQ(set("k", "new"), Status::stored);
  EXPECT_EQ(find("k"), item);
  EXPECT_EQ(set("k", "other", StoreMode::add), Status::not_stored);
  add(Opcode::store, "k", "other", option::compare_cas).cas = 1;
  write();
  EXPECT_EQ(batch_.result(0).status, Status::exists);
  EXPECT_EQ(slots_at_hand(), slots);
  EXPECT_EQ(value_of("k"), "new");
}

}  // namespace
}  // namespace tandem
