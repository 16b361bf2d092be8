// KC: which candidates answer a plain read, what it counts, and what it writes to the item.
#include "task/task_fixture.hpp"

namespace tandem {
namespace {

class KeyCompare : public TaskTest {
 protected:
  // The batch's queries, which are plain reads, through Search and KC. The results stay in the batch.
  void read() {
    context_.enter();
    for (std::uint32_t i = 0; i != batch_.size(); ++i) {
      QueryState state = look(i);
      ASSERT_TRUE(state.plain_read);
      search(state);
      task::key_compare<CuckooIndex>(context_, batch_, state);
    }
    context_.epoch.exit();
  }
  Status get(std::string_view key, std::uint16_t options = 0) {
    clear();
    add(Opcode::get, key, {}, options);
    read();
    return batch_.result(0).status;
  }
};

TEST_F(KeyCompare, AHitIsTheItemAndAMissIsNone) {
  set("a", "one");
  set("b", "three");
  add(Opcode::get, "a");
  add(Opcode::get, "absent");
  add(Opcode::get, "b");
  read();
  EXPECT_EQ(batch_.result(0).status, Status::hit);
  EXPECT_EQ(batch_.result(0).value_bytes, 3u);
  EXPECT_EQ(batch_.result(1).status, Status::miss);
  EXPECT_EQ(batch_.result(2).status, Status::hit);
  EXPECT_EQ(batch_.result(2).value_bytes, 5u);
  EXPECT_EQ(context_.counters.cmd_get.get(), 3u);
  EXPECT_EQ(context_.counters.get_hits.get(), 2u);
  EXPECT_EQ(context_.counters.get_misses.get(), 1u);
}

TEST_F(KeyCompare, ACandidateOfAnotherKeyIsNoHit) {
  set("a", "one");
  add(Opcode::get, "b");
  QueryState state = look();
  context_.enter();
  search(state);
  // Simulates two keys with one signature.
  batch_.locations()[0] = heap_.location_of(find("a"));
  task::key_compare<CuckooIndex>(context_, batch_, state);
  context_.epoch.exit();
  EXPECT_EQ(batch_.result(0).status, Status::miss);
  EXPECT_EQ(context_.counters.index_retries.get(), 1u);  // the index was asked again
}

TEST_F(KeyCompare, AnExpiredItemIsAMissAndIsRemoved) {
  add(Opcode::store, "k", "v").expiry_s = now_s + 10;
  ASSERT_EQ(write(), task::Settled::done);
  clock_.freeze_for_test(now_s + 9);
  EXPECT_EQ(get("k"), Status::hit);
  clock_.freeze_for_test(now_s + 10);
  EXPECT_EQ(get("k"), Status::miss);
  EXPECT_EQ(context_.counters.get_expired.get(), 1u);
  EXPECT_EQ(find("k"), nullptr);
}

TEST_F(KeyCompare, AFlushedItemIsAMissAndALaterOneIsNot) {
  set("old", "v");
  shared_.flush_cas.store(shared_.take_cas_ids(1));
  EXPECT_EQ(get("old"), Status::miss);
  EXPECT_EQ(context_.counters.get_flushed.get(), 1u);
  EXPECT_EQ(find("old"), nullptr);
  set("new", "v");
  EXPECT_EQ(get("new"), Status::hit);
}

TEST_F(KeyCompare, AHitMarksTheItemUnlessTheQueryForbidsIt) {
  set("k", "v");
  const auto marks = [this] { return find("k")->state_acquire() & task::access_marks; };
  const std::uint64_t before = marks();
  ASSERT_NE(before, task::access_marks);
  EXPECT_EQ(get("k", option::no_bump), Status::hit);
  EXPECT_EQ(marks(), before);
  EXPECT_EQ(get("k"), Status::hit);
  EXPECT_EQ(marks(), task::access_marks);
}

TEST_F(KeyCompare, TheAccessSecondIsRefreshedOnceAMinute) {
  set("k", "v");
  EXPECT_EQ(get("k"), Status::hit);
  const auto second = [this] { return word::AccessS::get(find("k")->state_acquire()); };
  const std::uint64_t first = second();
  clock_.freeze_for_test(now_s + task::access_refresh_s - 1);
  EXPECT_EQ(get("k"), Status::hit);
  EXPECT_EQ(second(), first);
  clock_.freeze_for_test(now_s + task::access_refresh_s);
  EXPECT_EQ(get("k"), Status::hit);
  EXPECT_EQ(second(), first + task::access_refresh_s);
}

}  // namespace
}  // namespace tandem
