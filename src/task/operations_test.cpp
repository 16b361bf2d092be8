#include <random>
#include <unordered_map>

#include "task/operations_fixture.hpp"

namespace tandem {
namespace {

TEST_F(OperationsTest, SetGetDelete) {
  EXPECT_EQ(get("k").status, Status::miss);
  store("k", "value").client_flags = 77;
  EXPECT_EQ(one().status, Status::stored);
  const Answer a = get("k");
  EXPECT_EQ(a.status, Status::hit);
  EXPECT_EQ(a.value, "value");
  EXPECT_EQ(a.flags, 77u);
  add(Opcode::remove, "k");
  EXPECT_EQ(one().status, Status::removed);
  EXPECT_EQ(get("k").status, Status::miss);
  add(Opcode::remove, "k");
  EXPECT_EQ(one().status, Status::miss);
}

TEST_F(OperationsTest, PipelinedReadsAndWritesOfOneKeySeeTheOrderOfTheBatch) {
  add(Opcode::get, "k");
  store("k", "1");
  add(Opcode::get, "k");
  store("k", "2");
  add(Opcode::get, "k");
  add(Opcode::remove, "k");
  add(Opcode::get, "k");
  const auto a = run();
  EXPECT_EQ(a[0].status, Status::miss);
  EXPECT_EQ(a[2].value, "1");
  EXPECT_EQ(a[4].value, "2");
  EXPECT_EQ(a[6].status, Status::miss);
}

TEST_F(OperationsTest, ReadsOfOneStripKeepTheValueTheySawThoughAWriteFollows) {
  set("k", "old");
  add(Opcode::get, "k");
  store("k", "new");
  const auto a = run();
  EXPECT_EQ(a[0].value, "old");
  EXPECT_EQ(get("k").value, "new");
}

TEST_F(OperationsTest, AddReplace) {
  store("k", "1", StoreMode::replace);
  EXPECT_EQ(one().status, Status::not_stored);
  store("k", "1", StoreMode::add);
  EXPECT_EQ(one().status, Status::stored);
  store("k", "2", StoreMode::add);
  EXPECT_EQ(one().status, Status::not_stored);
  store("k", "3", StoreMode::replace);
  EXPECT_EQ(one().status, Status::stored);
  EXPECT_EQ(get("k").value, "3");
}

TEST_F(OperationsTest, CompareAndSet) {
  store("k", "x", StoreMode::set, option::compare_cas).cas = 1;
  EXPECT_EQ(one().status, Status::not_found);
  set("k", "1");
  const std::uint64_t cas = get("k").cas;
  store("k", "2", StoreMode::set, option::compare_cas).cas = cas + 1;
  EXPECT_EQ(one().status, Status::exists);
  store("k", "2", StoreMode::set, option::compare_cas).cas = cas;
  EXPECT_EQ(one().status, Status::stored);
  store("k", "3", StoreMode::set, option::compare_cas).cas = cas;
  EXPECT_EQ(one().status, Status::exists);
  EXPECT_EQ(get("k").value, "2");
  EXPECT_GT(get("k").cas, cas);
}

TEST_F(OperationsTest, AnOlderInvalidatingSetStoresItsValueStale) {
  set("k", "1");
  const std::uint64_t old = get("k").cas;
  set("k", "2");
  store("k", "3", StoreMode::set, option::compare_cas | option::invalidate).cas = old;
  EXPECT_EQ(one().status, Status::stored);
  const Answer first = get("k", option::meta);
  EXPECT_EQ(first.value, "3");
  EXPECT_EQ(first.outcome, outcome::stale | outcome::won);
  EXPECT_EQ(get("k", option::meta).outcome, outcome::stale | outcome::win_sent);
}

TEST_F(OperationsTest, AppendPrependKeepFlagsAndExpiry) {
  store("k", "x", StoreMode::append);
  EXPECT_EQ(one().status, Status::not_stored);
  Query& q = store("k", "mid");
  q.client_flags = 5;
  q.expiry_s = 1100;
  run();
  store("k", ">", StoreMode::append).client_flags = 9;
  EXPECT_EQ(one().status, Status::stored);
  store("k", "<", StoreMode::prepend);
  EXPECT_EQ(one().status, Status::stored);
  const Answer a = get("k");
  EXPECT_EQ(a.value, "<mid>");
  EXPECT_EQ(a.flags, 5u);
  EXPECT_EQ(Item::expiry_of(a.state), 1100u);
}

TEST_F(OperationsTest, AppendsThatOutgrowTheirClassInOneBatch) {
  set("k", "");
  std::string want;
  for (int i = 0; i < 300; ++i) {
    const std::string piece(static_cast<std::size_t>(i % 50), static_cast<char>('a' + i % 26));
    want += piece;
    store("k", piece, StoreMode::append);
  }
  for (const Answer& a : run()) EXPECT_EQ(a.status, Status::stored);
  EXPECT_EQ(get("k").value, want);
}

TEST_F(OperationsTest, Arithmetic) {
  add(Opcode::arithmetic, "n");
  EXPECT_EQ(one().status, Status::miss);
  set("n", "10");
  add(Opcode::arithmetic, "n").delta = 90;
  EXPECT_EQ(one().number, 100u);
  add(Opcode::arithmetic, "n", {}, option::decrement).delta = 95;
  EXPECT_EQ(one().number, 5u);
  EXPECT_EQ(get("n").value, "5  ") << "a shorter number is padded";
  add(Opcode::arithmetic, "n", {}, option::decrement).delta = 95;
  EXPECT_EQ(one().number, 0u);
  set("n", "18446744073709551615");
  add(Opcode::arithmetic, "n").delta = 2;
  EXPECT_EQ(one().number, 1u);
  set("n", "ten");
  add(Opcode::arithmetic, "n");
  EXPECT_EQ(one().status, Status::not_a_number);
}

TEST_F(OperationsTest, ArithmeticCreatesOnAMiss) {
  Query& q = add(Opcode::arithmetic, "n", "13", option::vivify);
  q.vivify_expiry_s = 1050;
  const Answer a = one();
  EXPECT_EQ(a.status, Status::number);
  EXPECT_EQ(a.number, 13u);
  EXPECT_EQ(a.outcome, outcome::created);
  EXPECT_EQ(Item::expiry_of(get("n").state), 1050u);
}

TEST_F(OperationsTest, ExpiryIsHonoured) {
  store("k", "v").expiry_s = 1010;
  run();
  clock_.freeze_for_test(1009);
  EXPECT_EQ(get("k").status, Status::hit);
  clock_.freeze_for_test(1010);
  EXPECT_EQ(get("k").status, Status::miss);
  EXPECT_EQ(context_.counters.get_expired.get(), 1u);
  EXPECT_EQ(index_.item_count(), 0u) << "what a read finds expired is removed";
  store("k", "v", StoreMode::add).expiry_s = Clock::already_expired;
  EXPECT_EQ(one().status, Status::stored);
  EXPECT_EQ(get("k").status, Status::miss);
  store("k", "w", StoreMode::replace);
  EXPECT_EQ(one().status, Status::not_stored);
}

TEST_F(OperationsTest, TouchAndGetAndTouch) {
  add(Opcode::touch, "k").expiry_s = 1100;
  EXPECT_EQ(one().status, Status::miss);
  set("k", "v");
  const std::uint64_t cas = get("k").cas;
  add(Opcode::touch, "k").expiry_s = 1100;
  EXPECT_EQ(one().status, Status::hit);
  Query& q = add(Opcode::get, "k", {}, option::touch);
  q.expiry_s = 1200;
  const Answer a = one();
  EXPECT_EQ(a.value, "v");
  EXPECT_EQ(Item::expiry_of(a.state), 1100u) << "the word from before";
  const Answer b = get("k");
  EXPECT_EQ(Item::expiry_of(b.state), 1200u);
  EXPECT_EQ(b.cas, cas) << "touch does not change the CAS id";
}

TEST_F(OperationsTest, VivifyGivesTheTokenToOneClient) {
  const auto vivify = [&] {
    add(Opcode::get, "k", {}, option::vivify | option::meta).vivify_expiry_s = 1030;
    return one();
  };
  const Answer first = vivify();
  EXPECT_EQ(first.status, Status::hit);
  EXPECT_EQ(first.outcome, outcome::created | outcome::won);
  EXPECT_EQ(first.value, "");
  EXPECT_EQ(vivify().outcome, outcome::win_sent);
  set("k", "fresh");
  EXPECT_EQ(vivify().outcome, 0);
}

TEST_F(OperationsTest, RecacheWinsOnceWhenTimeRunsOut) {
  store("k", "v").expiry_s = 1050;
  run();
  const auto recache = [&](std::uint32_t ttl_s) {
    add(Opcode::get, "k", {}, option::recache | option::meta).recache_ttl_s = ttl_s;
    return one().outcome;
  };
  EXPECT_EQ(recache(30), 0);
  EXPECT_EQ(recache(60), outcome::won);
  EXPECT_EQ(recache(60), outcome::win_sent);
}

TEST_F(OperationsTest, InvalidateMarksStaleWithANewCas) {
  set("k", "v");
  const Answer before = get("k");
  Query& q = add(Opcode::remove, "k", {}, option::invalidate | option::touch);
  q.expiry_s = 1030;
  EXPECT_EQ(one().status, Status::removed);
  const Answer a = get("k", option::meta);
  EXPECT_EQ(a.value, "v");
  EXPECT_GT(a.cas, before.cas);
  EXPECT_EQ(a.outcome, outcome::stale | outcome::won);
  EXPECT_EQ(Item::expiry_of(a.state), 1030u);
  EXPECT_EQ(get("k", option::meta).outcome, outcome::stale | outcome::win_sent);
}

TEST_F(OperationsTest, RemoveComparesCas) {
  set("k", "v");
  const std::uint64_t cas = get("k").cas;
  add(Opcode::remove, "k", {}, option::compare_cas).cas = cas + 1;
  EXPECT_EQ(one().status, Status::exists);
  add(Opcode::remove, "k", {}, option::compare_cas).cas = cas;
  EXPECT_EQ(one().status, Status::removed);
}

TEST_F(OperationsTest, TooLargeIsRefusedAndTheOldValueIsGone) {
  set("k", "small");
  const std::string big(shared_.policy.item_bytes_max, 'x');
  store("k", big);
  EXPECT_EQ(one().status, Status::too_large);
  EXPECT_EQ(get("k").status, Status::miss);
  set("k", "small");
  store("k", big, StoreMode::append);
  EXPECT_EQ(one().status, Status::not_stored);
  EXPECT_EQ(get("k").value, "small");
}

TEST_F(OperationsTest, FlushedItemsAreGoneAndLaterOnesStay) {
  set("a", "1");
  shared_.flush_cas.store(shared_.cas_next.fetch_add(1));
  set("b", "2");
  EXPECT_EQ(get("a").status, Status::miss);
  EXPECT_EQ(get("b").status, Status::hit);
  store("a", "3", StoreMode::add);
  EXPECT_EQ(one().status, Status::stored);
  EXPECT_EQ(get("a").value, "3");
}

TEST_F(OperationsTest, ControlQueriesRunAloneAndInOrder) {
  store("k", "1");
  add(Opcode::control, "");
  add(Opcode::get, "k");
  Recorder recorder;
  bool epoch_free = false;
  recorder.on_control = [&] {
    epoch_free = !context_.epoch.active();
    shared_.flush_cas.store(shared_.cas_next.fetch_add(1));
  };
  runs_.run(batch_, recorder);
  ASSERT_EQ(recorder.answers.size(), 3u);
  EXPECT_EQ(recorder.answers[0].status, Status::stored);
  EXPECT_EQ(recorder.answers[2].status, Status::miss);
  EXPECT_TRUE(epoch_free);
}

TEST_F(OperationsTest, NothingQueriesPassThrough) {
  set("k", "v");
  add(Opcode::nothing, "");
  batch_.query(0).key = nullptr;
  add(Opcode::get, "k");
  const auto a = run();
  EXPECT_EQ(a[0].status, Status::none);
  EXPECT_EQ(a[1].value, "v");
}

TEST_F(OperationsTest, HitsMarkTheItemOnce) {
  set("k", "v");
  const Answer first = get("k");
  EXPECT_EQ(word::Fetched::get(first.state), 0u) << "the word from before the hit";
  const Answer second = get("k");
  EXPECT_EQ(word::Fetched::get(second.state), 1u);
  EXPECT_EQ(word::Accessed::get(second.state), 1u);
  set("k", "v");
  get("k", option::no_bump);
  EXPECT_EQ(word::Fetched::get(get("k", option::no_bump).state), 0u);
}

TEST_F(OperationsTest, SlotsAreNeitherLostNorUsedTwice) {
  std::unordered_map<std::string, std::string> model;
  std::mt19937 rng(1);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::pair<std::string, std::optional<std::string>>> reads;
    const int n = 1 + static_cast<int>(rng() % 300);
    std::vector<std::size_t> read_at;
    for (int i = 0; i < n; ++i) {
      const std::string key = "key" + std::to_string(rng() % 500);
      const std::string value(rng() % 2000, static_cast<char>('a' + rng() % 26));
      switch (rng() % 6) {
        case 0:
          store(key, value);
          model[key] = value;
          break;
        case 1:
          store(key, value, StoreMode::add);
          model.try_emplace(key, value);
          break;
        case 2:
          add(Opcode::remove, key);
          model.erase(key);
          break;
        case 3:
          store(key, "+", StoreMode::append);
          if (const auto it = model.find(key); it != model.end()) it->second += '+';
          break;
        default:
          add(Opcode::get, key);
          const auto it = model.find(key);
          reads.emplace_back(key, it == model.end() ? std::nullopt : std::optional(it->second));
          read_at.push_back(static_cast<std::size_t>(i));
      }
    }
    const auto answers = run();
    for (std::size_t i = 0; i < reads.size(); ++i) {
      const Answer& a = answers[read_at[i]];
      ASSERT_EQ(a.status == Status::hit, reads[i].second.has_value()) << reads[i].first;
      if (reads[i].second) {
        ASSERT_EQ(a.value, *reads[i].second);
      }
    }
  }
  EXPECT_EQ(index_.item_count(), model.size());
  EXPECT_EQ(context_.counters.evictions.get(), 0u);
  std::uint64_t used = 0;
  for (std::uint32_t c = 0; c < heap_.class_count(); ++c)
    used += heap_.class_stats(static_cast<SizeClass>(c)).slots_used;
  // Retired slots that wait for their epoch count as used.
  for (int i = 0; i < 3; ++i) {
    const Heap::Cache::Lock lock(context_.cache);
    heap_.reclaim(context_.cache);
  }
  EXPECT_GE(used, model.size());
}

TEST_F(OperationsTest, LargeValuesReceivedIntoTheHeapAreStoredAppendedOrGivenBack) {
  const std::string large(100000, 'L');
  const auto received = [&](std::string_view key, StoreMode mode) {
    const Location l = task::allocate(context_, Item::total_bytes(0, key.size(), large.size()), true);
    Item* const item = heap_.format(l, key, 0, large.size(), 0, 1000, false);
    std::memcpy(item->value(), large.data(), large.size());
    const std::uint32_t i = batch_.size();
    Query& q = store(key, {}, mode, option::prefilled);
    q.value = nullptr;
    q.value_bytes = static_cast<std::uint32_t>(large.size());
    batch_.filled()[i] = l;
  };
  const auto used = [&] {
    for (int i = 0; i < 3; ++i) {
      const Heap::Cache::Lock lock(context_.cache);
      heap_.reclaim_all(context_.cache);
    }
    return heap_.class_stats(heap_.size_class(large.size())).slots_used;
  };
  received("k", StoreMode::append);
  EXPECT_EQ(one().status, Status::not_stored);
  EXPECT_EQ(used(), 0u);
  set("k", "<");
  received("k", StoreMode::append);
  received("k", StoreMode::prepend);
  received("other", StoreMode::set);
  for (const Answer& a : run()) EXPECT_EQ(a.status, Status::stored);
  EXPECT_EQ(get("k").value, large + "<" + large);
  EXPECT_EQ(get("other").value, large);
  received("other", StoreMode::add);
  EXPECT_EQ(one().status, Status::not_stored);
}

TEST_F(OperationsTest, ADebugQueryLeavesTheItemAsItWas) {
  set("k", "v");
  for (int i = 0; i < 2; ++i) {
    add(Opcode::debug, "k", {}, option::meta);
    EXPECT_EQ(word::Fetched::get(one().state), 0u);
  }
  EXPECT_EQ(word::Fetched::get(get("k").state), 0u) << "the word is that before the get";
  add(Opcode::debug, "k", {}, option::meta);
  EXPECT_EQ(word::Fetched::get(one().state), 1u);
}

}  // namespace
}  // namespace tandem
