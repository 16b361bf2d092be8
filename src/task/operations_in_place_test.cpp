// Sets in place: when an item is rewritten, when it is replaced, and what concurrent readers see.
#include <atomic>
#include <map>
#include <optional>
#include <thread>

#include "base/hash.hpp"
#include "task/operations_fixture.hpp"

namespace tandem {
namespace {

class StoreInPlace : public OperationsTest {
 protected:
  Location location(std::string_view key) {
    ItemVersion seen;
    context_.enter();
    const Item* const item = index_.find(fingerprint_of(key, 7), key, seen);
    context_.epoch.exit();
    return item == nullptr ? no_location : heap_.location_of(item);
  }
  // Whether the set rewrites the existing item of "k" in place.
  bool rewrites(const std::function<void()>& add_set) {
    const Location before = location("k");
    add_set();
    EXPECT_EQ(one().status, Status::stored);
    return location("k") == before;
  }
};

TEST_F(StoreInPlace, AValueOfTheSameLengthGoesWhereTheOldOneIs) {
  set("k", "old");
  const std::uint64_t cas = get("k").cas;
  EXPECT_TRUE(rewrites([&] { store("k", "new"); }));
  const Answer a = get("k");
  EXPECT_EQ(a.value, "new");
  EXPECT_GT(a.cas, cas);
  EXPECT_EQ(word::Fetched::get(a.state), 0u) << "a new item to its readers";
  EXPECT_EQ(context_.counters.cmd_set.get(), 2u);
  EXPECT_EQ(context_.counters.total_items.get(), 2u);
  EXPECT_EQ(heap_.retired_bytes(), 0u);
}

TEST_F(StoreInPlace, ItTakesItsExpiry) {
  set("k", "old");
  EXPECT_TRUE(rewrites([&] { store("k", "new").expiry_s = 2000; }));
  EXPECT_EQ(Item::expiry_of(get("k").state), 2000u);
  // A reader that has judged the old version copies the new one without checking its expiry.
  EXPECT_FALSE(rewrites([&] { store("k", "two").expiry_s = 1; })) << "a time that has passed";
  EXPECT_EQ(get("k").status, Status::miss);
}

TEST_F(StoreInPlace, OtherSetsReplaceTheItem) {
  set("k", "old");
  EXPECT_FALSE(rewrites([&] { store("k", "older"); })) << "another length in one class";
  EXPECT_FALSE(rewrites([&] { store("k", "newer").client_flags = 1; })) << "flags where there were none";
  EXPECT_TRUE(rewrites([&] { store("k", "later").client_flags = 1; }));
  EXPECT_FALSE(rewrites([&] { store("k", "later").client_flags = 2; })) << "other flags";
  EXPECT_EQ(get("k").flags, 2u);
  EXPECT_FALSE(rewrites([&] { store("k", "again", StoreMode::set, option::binary_key).client_flags = 2; }));
  EXPECT_FALSE(rewrites([&] { store("k", "again", StoreMode::replace, option::binary_key).client_flags = 2; }));
  const std::uint64_t cas = get("k").cas;
  EXPECT_FALSE(rewrites([&] {
    Query& q = store("k", "again", StoreMode::set, option::binary_key | option::compare_cas);
    q.client_flags = 2;
    q.cas = cas;
  }));
}

TEST_F(StoreInPlace, UpToOneKibibyte) {
  set("k", std::string(rewritten_value_bytes_max, 'a'));
  EXPECT_TRUE(rewrites([&] { store("k", std::string(rewritten_value_bytes_max, 'b')); }));
  EXPECT_EQ(get("k").value, std::string(rewritten_value_bytes_max, 'b'));
  set("k", std::string(rewritten_value_bytes_max + 1, 'a'));
  EXPECT_FALSE(rewrites([&] { store("k", std::string(rewritten_value_bytes_max + 1, 'b')); }));
}

TEST_F(StoreInPlace, NotAnItemThatIsOver) {
  store("k", "old").expiry_s = 1001;
  ASSERT_EQ(one().status, Status::stored);
  clock_.freeze_for_test(1001);
  EXPECT_FALSE(rewrites([&] { store("k", "new"); }));
  EXPECT_EQ(get("k").value, "new");
  shared_.flush_cas = shared_.take_cas_ids(1);
  EXPECT_FALSE(rewrites([&] { store("k", "two"); }));
  EXPECT_EQ(get("k").value, "two");
}

TEST_F(StoreInPlace, NotAStaleItem) {
  set("k", "old");
  add(Opcode::remove, "k", {}, option::invalidate);
  ASSERT_EQ(one().status, Status::removed);
  EXPECT_FALSE(rewrites([&] { store("k", "new"); }));
}

TEST_F(StoreInPlace, NotUnderAnObserver) {
  struct : Observer {
    void looked_up(const Query&, Lookup lookup, const Item*) noexcept override { found += lookup == Lookup::found; }
    void evicted(Location, const Item*, std::uint64_t) noexcept override {}
    void page_moved(SizeClass, SizeClass) noexcept override {}
    int found = 0;
  } observer;
  set("k", "old");
  context_.observer = &observer;
  EXPECT_FALSE(rewrites([&] { store("k", "new"); }));
  EXPECT_EQ(observer.found, 1);
  context_.observer = nullptr;
}

TEST_F(StoreInPlace, ManySetsInOneBatch) {
  std::map<std::string, std::string> model;
  for (std::size_t round = 0; round < 3; ++round) {
    std::vector<std::optional<std::string>> expected;  // of gets; empty for sets
    std::vector<bool> is_get;
    for (std::size_t i = 0; i < 200; ++i) {
      // Some grow, some are new, some are rewritten, some are read before.
      const std::string key = "k" + std::to_string(i % (50 + round));
      if (i % 3 == 0) {
        add(Opcode::get, key);
        is_get.push_back(true);
        expected.push_back(model.contains(key) ? std::optional(model[key]) : std::nullopt);
      }
      model[key] = std::to_string(100 + i) + (i % 7 == 0 ? std::string(round, '.') : "");
      store(key, model[key]);
      is_get.push_back(false);
      expected.emplace_back();
    }
    const std::vector<Answer> answers = run();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const Status right = !is_get[i] ? Status::stored : expected[i] ? Status::hit : Status::miss;
      ASSERT_EQ(answers[i].status, right) << i;
      if (expected[i]) {
        ASSERT_EQ(answers[i].value, *expected[i]) << i;
      }
    }
  }
}

TEST_F(StoreInPlace, IdsGrowAcrossWorkers) {
  Context other(shared_);
  OneByOne second(other);
  std::uint64_t last = 0;
  for (int i = 0; i < 300; ++i) {
    store("k", std::to_string(1000 + i));
    if (i % 3 == 0) {
      ASSERT_EQ(one().status, Status::stored);
    } else {
      Recorder recorder;
      second.run(batch_, recorder);
      ASSERT_EQ(recorder.answers.at(0).status, Status::stored);
      batch_.clear();
    }
    const std::uint64_t cas = get("k").cas;
    ASSERT_GT(cas, last);
    last = cas;
  }
}

// A compare-and-set, an append or an increment starts over if its item was rewritten after it read it.
TEST_F(StoreInPlace, ConditionalWritesNeverOverlookASet) {
  set("n", "0000000000000000");
  std::atomic<std::uint64_t> sets{0};
  // Another worker sets numbers far apart; this one increments by one. An increment that missed a set would leave a
  // number below the set's.
  constexpr std::uint64_t apart = 1'000'000;
  std::jthread setter([&](const std::stop_token& stop) {
    Context context(shared_);
    OneByOne worker(context);
    Batch batch(8);
    for (std::uint64_t i = 1; !stop.stop_requested(); ++i) {
      char text[32];
      std::snprintf(text, sizeof text, "%016llu", static_cast<unsigned long long>(i) * apart);
      Query& q = batch.next();
      q = {};
      q.key = "n";
      q.key_bytes = 1;
      q.value = text;
      q.value_bytes = 16;
      q.opcode = Opcode::store;
      q.mode = StoreMode::set;
      batch.commit();
      Recorder recorder;
      worker.run(batch, recorder);
      batch.clear();
      sets.fetch_add(1, std::memory_order_relaxed);
    }
  });
  std::uint64_t last = 0;
  for (int i = 0; i < 20'000 || sets.load(std::memory_order_relaxed) < 100; ++i) {
    add(Opcode::arithmetic, "n");
    const Answer a = one();
    ASSERT_EQ(a.status, Status::number);
    ASSERT_TRUE(a.number == last + 1 || a.number / apart > last / apart) << a.number << " after " << last;
    last = a.number;
  }
}

}  // namespace
}  // namespace tandem
