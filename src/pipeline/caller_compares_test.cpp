// Reads with option::caller_compares: the only wrong answer they may give is another key's item.
#include <random>
#include <unordered_map>

#include "index/cuckoo/colliding_keys.hpp"
#include "pipeline/executor_fixture.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t hash_seed = 7;
constexpr std::uint16_t any = option::caller_compares;

const std::vector<CollidingKeys>& pairs() {
  static const std::vector<CollidingKeys> all = colliding_keys(hash_seed, 3);
  return all;
}

class CallerComparesTest : public ExecutorTest {
 protected:
  CallerComparesTest() : ExecutorTest(std::uint64_t{32} << 20, {}, 512) {}

  // `a` and `b` collide; `a` comes first, and was read.
  void set_both() {
    set(a, "value of a");
    ASSERT_EQ(get(a).key, a);
    set(b, "value of b");
    ASSERT_EQ(get(b).key, b);
  }
  const std::string& a = pairs()[0].a;
  const std::string& b = pairs()[0].b;
};

TEST_F(CallerComparesTest, ReturnsWhatHasTheFingerprintWithItsOwnKey) {
  set_both();
  const Answer of_a = get(a, any);
  EXPECT_EQ(of_a.key, a);
  EXPECT_EQ(of_a.value, "value of a");
  const Answer of_b = get(b, any);
  EXPECT_EQ(of_b.status, Status::hit);
  EXPECT_EQ(of_b.key, a) << "nobody compared";
  EXPECT_EQ(of_b.value, "value of a") << "key and value are of one item";
  EXPECT_EQ(get(b).value, "value of b");
}

TEST_F(CallerComparesTest, WhatIsNotStoredMayBeAnsweredSoToo) {
  set(a, "value of a");
  get(a);
  EXPECT_EQ(get(b, any).key, a);
  EXPECT_EQ(get(b).status, Status::miss);
  EXPECT_EQ(get("other", any).status, Status::miss);
}

TEST_F(CallerComparesTest, AnItemOfAnotherKeyIsNeverMarked) {
  set(a, "value of a");
  set(b, "value of b");
  // `a` was not read yet: reading it sets its mark, so the keys are compared.
  EXPECT_EQ(get(b, any).key, b);
  EXPECT_EQ(word::Fetched::get(get(a, option::no_bump).state), 0u);
  EXPECT_EQ(get(b, any).key, b) << "still unread";
  EXPECT_EQ(get(b, any | option::no_bump).key, a) << "a read that marks nothing";
  get(a);
  EXPECT_EQ(get(b, any).key, a);
  // A minute later a read updates the access time.
  clock_.freeze_for_test(1060);
  EXPECT_EQ(get(b, any).key, b);
  EXPECT_EQ(word::AccessS::get(get(a, option::no_bump).state), 1000u);
}

TEST_F(CallerComparesTest, ItemsThatAreOverAreNeverAnswers) {
  set_both();
  store(a, "short").expiry_s = 1010;
  ASSERT_EQ(one().status, Status::stored);
  EXPECT_EQ(get(a).value, "short");
  clock_.freeze_for_test(1010);
  EXPECT_EQ(get(b, any).key, b);
  EXPECT_EQ(get(a, any).status, Status::miss);
  EXPECT_EQ(get(b, any).value, "value of b");
  set(a, "again");
  get(a);
  shared_.flush_cas = shared_.take_cas_ids(1);
  EXPECT_EQ(get(a, any).status, Status::miss);
  EXPECT_EQ(get(b, any).status, Status::miss);
}

TEST_F(CallerComparesTest, ReplacedAndRemovedItemsAreNeverAnswers) {
  set_both();
  set(a, "second value of a");
  EXPECT_EQ(get(a, any).value, "second value of a");
  add(Opcode::remove, a);
  EXPECT_EQ(one().status, Status::removed);
  get(b);
  const Answer of_a = get(a, any);
  EXPECT_TRUE(of_a.status == Status::miss || of_a.key == b);
  EXPECT_EQ(get(a).status, Status::miss);
  EXPECT_EQ(get(b, any).value, "value of b");
}

TEST_F(CallerComparesTest, TheTokenToRecacheGoesToWhoAskedForTheStaleItemItself) {
  set_both();
  add(Opcode::remove, a, {}, option::meta | option::invalidate);
  ASSERT_EQ(one().status, Status::removed);
  EXPECT_EQ(get(b, any | option::meta).key, b);
  const Answer won = get(a, any | option::meta);
  EXPECT_EQ(won.key, a);
  EXPECT_NE(won.outcome & outcome::won, 0);
  EXPECT_EQ(get(b, any | option::meta).key, b) << "the token is out: stale items are compared still";
}

TEST_F(CallerComparesTest, CountsAsTheGetThatItIs) {
  set_both();
  const std::uint64_t gets = context_.counters.cmd_get.get(), hits = context_.counters.get_hits.get();
  get(b, any);
  get("other", any);
  EXPECT_EQ(context_.counters.cmd_get.get(), gets + 2);
  EXPECT_EQ(context_.counters.get_hits.get(), hits + 1);
}

// Both kinds of reads among writes of all kinds, alone and in batches of plain reads: the right answer, or that of the
// other key of the pair.
TEST_F(CallerComparesTest, RightOrOfAnotherKeyOverRandomOperations) {
  std::mt19937 random(1);
  std::unordered_map<std::string, std::string> model;
  std::vector<std::string> keys;
  for (const CollidingKeys& pair : pairs()) keys.insert(keys.end(), {pair.a, pair.b});
  std::uint64_t others = 0, right = 0;
  for (int round = 0; round < 4000; ++round) {
    struct Asked {
      std::string key, expected;  // empty: a miss
      bool by_caller;
    };
    std::vector<std::optional<Asked>> asked;
    std::unordered_map<std::string, std::vector<std::string>> values = {};
    const bool reads_only = random() % 2 == 0;
    for (std::size_t i = random() % 20 + 1; i != 0; --i) {
      const std::string& key = keys[random() % keys.size()];
      const auto what = reads_only ? 9u : random() % 10;
      if (what < 2) {
        model[key] = "v" + std::to_string(random());
        store(key, model[key]);
        asked.emplace_back();
      } else if (what < 3) {
        model.erase(key);
        add(Opcode::remove, key);
        asked.emplace_back();
      } else {
        const bool by_caller = random() % 3 != 0;
        add(Opcode::get, key, {}, by_caller ? any : std::uint16_t{0});
        asked.push_back(Asked{key, model.contains(key) ? model[key] : "", by_caller});
      }
      for (const auto& [k, v] : model) values[k].push_back(v);
    }
    const std::vector<Answer> answers = run();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (!asked[i]) continue;
      const Answer& answer = answers[i];
      if (answer.status == Status::miss) {
        EXPECT_EQ(asked[i]->expected, "");
      } else if (answer.key == asked[i]->key) {
        EXPECT_EQ(answer.value, asked[i]->expected);
        right += asked[i]->by_caller;
      } else {
        EXPECT_TRUE(asked[i]->by_caller);
        // A complete item: one that its key had at some time of this batch.
        const std::vector<std::string>& had = values[answer.key];
        EXPECT_NE(std::ranges::find(had, answer.value), had.end());
        ++others;
      }
    }
  }
  EXPECT_GT(others, 100u) << "the pairs did not collide";
  EXPECT_GT(right, 100u);
}

}  // namespace
}  // namespace tandem
