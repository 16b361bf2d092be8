// Writes under their key's stripe: each operation's outcome, and its request when MM's slot does not fit.
#include "task/task_fixture.hpp"

namespace tandem {
namespace {

class WriteOperation : public TaskTest {
 protected:
  Result run() {
    EXPECT_EQ(write(), task::Settled::done);
    const Result r = batch_.result(0);
    clear();
    return r;
  }
};

TEST_F(WriteOperation, EachStoreModeStoresOnItsOwnCondition) {
  EXPECT_EQ(set("k", "1", StoreMode::replace), Status::not_stored);
  EXPECT_EQ(set("k", "1", StoreMode::append), Status::not_stored);
  EXPECT_EQ(set("k", "1", StoreMode::prepend), Status::not_stored);
  EXPECT_EQ(set("k", "b", StoreMode::add), Status::stored);
  EXPECT_EQ(set("k", "2", StoreMode::add), Status::not_stored);
  EXPECT_EQ(set("k", "c", StoreMode::append), Status::stored);
  EXPECT_EQ(set("k", "a", StoreMode::prepend), Status::stored);
  EXPECT_EQ(value_of("k"), "abc");
  EXPECT_EQ(set("k", "r", StoreMode::replace), Status::stored);
  EXPECT_EQ(value_of("k"), "r");
  EXPECT_EQ(set("k", "s"), Status::stored);
  EXPECT_EQ(value_of("k"), "s");
}

TEST_F(WriteOperation, CompareAndSwapTakesTheIdThatTheItemHas) {
  add(Opcode::store, "k", "x", option::compare_cas).cas = 1;
  EXPECT_EQ(run().status, Status::not_found);
  set("k", "old");
  const Item* const item = find("k");
  const std::uint64_t cas = item->cas(item->state_acquire());
  add(Opcode::store, "k", "x", option::compare_cas).cas = cas + 1;
  EXPECT_EQ(run().status, Status::exists);
  EXPECT_EQ(value_of("k"), "old");
  add(Opcode::store, "k", "new", option::compare_cas).cas = cas;
  const Result stored = run();
  EXPECT_EQ(stored.status, Status::stored);
  EXPECT_GT(stored.number, cas);
  EXPECT_EQ(value_of("k"), "new");
  add(Opcode::store, "k", "again", option::compare_cas).cas = cas;
  EXPECT_EQ(run().status, Status::exists);
}

TEST_F(WriteOperation, RemoveComparesTheId) {
  set("k", "v");
  const Item* const item = find("k");
  const std::uint64_t cas = item->cas(item->state_acquire());
  add(Opcode::remove, "k", {}, option::compare_cas).cas = cas + 1;
  EXPECT_EQ(run().status, Status::exists);
  EXPECT_EQ(value_of("k"), "v");
  add(Opcode::remove, "k", {}, option::compare_cas).cas = cas;
  EXPECT_EQ(run().status, Status::removed);
  EXPECT_EQ(find("k"), nullptr);
}

TEST_F(WriteOperation, RemoveTakesTheItemOrMarksItStale) {
  add(Opcode::remove, "k");
  EXPECT_EQ(run().status, Status::miss);
  set("k", "v");
  add(Opcode::remove, "k", {}, option::invalidate);
  EXPECT_EQ(run().status, Status::removed);
  ASSERT_NE(find("k"), nullptr);
  EXPECT_NE(word::Stale::get(find("k")->state_acquire()), 0u);
  add(Opcode::remove, "k");
  EXPECT_EQ(run().status, Status::removed);
  EXPECT_EQ(find("k"), nullptr);
}

TEST_F(WriteOperation, ArithmeticCountsAndWrapsAsMemcachedDoes) {
  add(Opcode::arithmetic, "n");
  EXPECT_EQ(run().status, Status::miss);
  set("n", "9");
  add(Opcode::arithmetic, "n").delta = 3;
  Result r = run();
  EXPECT_EQ(r.status, Status::number);
  EXPECT_EQ(r.number, 12u);
  EXPECT_EQ(value_of("n"), "12");
  add(Opcode::arithmetic, "n", {}, option::decrement).delta = 20;
  r = run();
  EXPECT_EQ(r.number, 0u);
  EXPECT_EQ(value_of("n"), "0 ");  // as wide as it was
  set("n", "18446744073709551615");
  add(Opcode::arithmetic, "n").delta = 2;
  EXPECT_EQ(run().number, 1u);
  set("n", "text");
  add(Opcode::arithmetic, "n");
  EXPECT_EQ(run().status, Status::not_a_number);
  EXPECT_EQ(value_of("n"), "text");
}

TEST_F(WriteOperation, VivifyMakesTheItemThatIsMissing) {
  add(Opcode::arithmetic, "n", "41", option::vivify);
  Result r = run();
  EXPECT_EQ(r.status, Status::number);
  EXPECT_EQ(r.number, 41u);
  EXPECT_NE(r.outcome & outcome::created, 0);
  EXPECT_EQ(value_of("n"), "41");
  add(Opcode::get, "empty", {}, option::vivify | option::meta).vivify_expiry_s = now_s + 30;
  r = run();
  EXPECT_EQ(r.status, Status::hit);
  EXPECT_EQ(r.outcome, outcome::created | outcome::won);
  EXPECT_EQ(Item::expiry_of(find("empty")->state_acquire()), now_s + 30);
}

TEST_F(WriteOperation, TouchSetsTheExpiryAlone) {
  add(Opcode::touch, "k").expiry_s = now_s + 5;
  EXPECT_EQ(run().status, Status::miss);
  set("k", "v");
  const Item* const item = find("k");
  add(Opcode::touch, "k").expiry_s = now_s + 5;
  EXPECT_EQ(run().status, Status::hit);
  EXPECT_EQ(find("k"), item);
  EXPECT_EQ(Item::expiry_of(item->state_acquire()), now_s + 5);
  clock_.freeze_for_test(now_s + 5);
  add(Opcode::touch, "k").expiry_s = now_s + 50;
  EXPECT_EQ(run().status, Status::miss);
}

TEST_F(WriteOperation, AskForALargerSlotWhenTheItemGrewSinceMM) {
  set("k", "short");
  add(Opcode::store, "k", "+").mode = StoreMode::append;
  QueryState state = look();
  ASSERT_TRUE(task::prepare_write(context_, batch_, state));
  // Another client's write between MM and this query's turn. A batch has one context, so the store changes only the
  // slot.
  Batch other(4);
  const std::string value(500, 'x');
  Query& q = other.next();
  q = {};
  q.key = "k";
  q.key_bytes = 1;
  q.value = value.data();
  q.value_bytes = static_cast<std::uint32_t>(value.size());
  q.opcode = Opcode::store;
  other.commit();
  QueryState others;
  others.now_s = now_s;
  Context second(shared_);
  others.plain_read = false;
  other.fingerprints()[0] = fingerprint_of(q.key, q.key_bytes, shared_.hash_seed);
  ASSERT_TRUE(task::prepare_write(second, other, others));
  second.enter();
  search(other, others);
  ASSERT_EQ(task::write_operation<CuckooIndex>(second, other, others), task::Settled::done);
  task::release_slots(second, others);
  second.retire_displaced();
  second.epoch.exit();

  context_.enter();
  search(state);
  EXPECT_EQ(task::write_operation<CuckooIndex>(context_, batch_, state), task::Settled::needs_slot);
  task::release_unused(context_, batch_, state);
  context_.epoch.exit();
  EXPECT_EQ(value_of("k"), value);  // nothing was changed
  EXPECT_EQ(write(), task::Settled::done);
  EXPECT_EQ(value_of("k"), value + "+");
}

TEST_F(WriteOperation, ReclaimsTheGarbageOfItsKeyAlone) {
  add(Opcode::store, "k", "v").expiry_s = now_s + 1;
  run();
  set("other", "v");
  const Location seen = heap_.location_of(find("k"));
  const Fingerprint f = fingerprint_of("k", shared_.hash_seed);
  task::remove_garbage<CuckooIndex>(context_, f, "k", seen);
  EXPECT_NE(find("k"), nullptr);  // it is still good
  clock_.freeze_for_test(now_s + 1);
  task::remove_garbage<CuckooIndex>(context_, f, "k", seen);
  EXPECT_EQ(find("k"), nullptr);
  EXPECT_NE(find("other"), nullptr);
}

}  // namespace
}  // namespace tandem
