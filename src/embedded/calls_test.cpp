// Calls of the embedded store: in batches and one by one, which the lane answers without its ring, they come to the
// replies of the same requests executed one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/index_kinds.hpp"
#include "index/lanes_of_test.hpp"
#include "lane/call_query.hpp"
#include "lane/state.hpp"
#include "tandem/store.hpp"
#include "task/one_by_one.hpp"

namespace tandem {
namespace {

[[maybe_unused]] const testing::Environment* const lanes_of_test = testing::AddGlobalTestEnvironment(
    new LanesOfTest([](std::string_view name) { return lane::ops_named(name) != nullptr; }));

struct Answer {
  std::size_t number;
  Code code;
  std::string key, value;
  std::uint32_t flags;
  std::uint64_t cas, count;
  bool operator==(const Answer&) const = default;
};

void append(std::vector<Answer>& answers, std::size_t number, const Reply& r) {
  const bool has_value = r.code == Code::hit && r.value.data() != nullptr;
  answers.push_back(
      {number, r.code, has_value ? std::string(r.key()) : "", std::string(r.value), r.flags, r.cas, r.number});
}

// Requests with keys and values that stay where they are.
class Tape {
 public:
  explicit Tape(std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < 60; ++i) {
      constexpr std::size_t lengths[] = {1, 3, 7, 8, 9, 15, 16, 17, 40, 250};
      std::string key = std::to_string(i) + ":";
      key.resize(std::max(lengths[static_cast<std::size_t>(i) % std::size(lengths)], key.size()), 'k');
      keys_.push_back(key);
    }
    keys_.emplace_back("");
    keys_.emplace_back(251, 'x');
    for (const std::size_t bytes : {0u, 1u, 8u, 63u, 64u, 999u, 1000u, 1024u, 1025u, 5000u, 70'000u})
      values_.emplace_back(bytes, static_cast<char>('a' + bytes % 26));
    values_.emplace_back("41");
  }
  // plain_percent: of gets and sets of keys of the usual lengths.
  Request next(unsigned plain_percent) {
    Request r;
    const bool plain = random_() % 100 < plain_percent;
    r.key = keys_[random_() % (plain ? 60 : keys_.size())];
    if (plain) {
      r.action = random_() % 3 == 0 ? Action::set : Action::get;
      if (r.action == Action::set) r.value = values_[random_() % 6];
      return r;
    }
    r.action = static_cast<Action>(random_() % 11);
    r.value = values_[random_() % values_.size()];
    r.flags = random_() % 2 == 0 ? 0 : static_cast<std::uint32_t>(random_());
    constexpr std::int64_t ttls[] = {0, 0, 0, 1000, -1};
    r.ttl_s = ttls[random_() % std::size(ttls)];
    r.key_check = random_() % 2 == 0 ? KeyCheck::store : KeyCheck::caller;
    r.cas = random_() % 400;
    return r;
  }
  std::size_t below(std::size_t end) { return random_() % end; }
  const std::vector<std::string>& keys() const { return keys_; }

 private:
  std::mt19937_64 random_;
  std::vector<std::string> keys_, values_;
};

class Calls : public testing::TestWithParam<const lane::Ops*> {
 protected:
  void SetUp() override {
    if (!GetParam()->supported()) GTEST_SKIP() << "this processor has no " << GetParam()->name;
    lanes_.emplace(GetParam()->name);
  }
  void TearDown() override { lanes_.reset(); }
  static Options small() { return {.memory_bytes = std::uint64_t{32} << 20, .hash_seed = 5}; }

 private:
  std::optional<WithLanes> lanes_;
};

// A store with calls that never take the lane: each is executed alone.
class General final : ResultSink {
 public:
  explicit General(const Options& o)
      : engine_({.memory_bytes = o.memory_bytes, .hash_seed = o.hash_seed, .index_kind = index_kind_of(o)}),
        context_(engine_.make_context()),
        one_by_one_(*context_) {}

  void execute(std::span<const Request> requests, std::vector<Answer>& answers) {
    constexpr std::size_t batch_queries = 512;
    answers_ = &answers;
    for (std::size_t done = 0; done != requests.size();) {
      first_ = done;
      for (const std::size_t end = std::min(requests.size(), done + batch_queries); done != end; ++done) {
        lane::fill(batch_.next(), requests[done], engine_.shared().clock);
        batch_.commit();
      }
      one_by_one_.run(batch_, *this);
      batch_.clear();
    }
  }
  Stats stats() const {
    const EngineStats s = engine_.stats();
    Stats stats{};
    stats.items = s.items;
    stats.gets = s.counters.cmd_get;
    stats.hits = s.counters.get_hits;
    stats.misses = s.counters.get_misses;
    stats.stores = s.counters.total_items;
    return stats;
  }

 private:
  static std::string_view index_kind_of(const Options& o) {
    return o.index.empty() ? EngineOptions{}.index_kind : index_kind_named(o.index).code->kind;
  }
  void write(Batch& batch, std::uint32_t i) override {
    char copies[lane::copied_bytes_max];
    char* copy = copies;
    Reply reply;
    lane::fill_reply(reply, batch.query(i), batch.result(i), &copy);
    append(*answers_, first_ + i, reply);
  }

  Engine engine_;
  Engine::ContextPtr context_;
  OneByOne one_by_one_;
  Batch batch_{512};
  std::vector<Answer>* answers_ = nullptr;
  std::size_t first_ = 0;
};

void expect_alike(std::string_view how, const std::vector<Request>& requests, const std::vector<Answer>& got,
                  const std::vector<Answer>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(got[i] == wanted[i]) << how << ", request " << i << ": action " << static_cast<int>(requests[i].action)
                                     << ", code " << static_cast<int>(got[i].code) << " and "
                                     << static_cast<int>(wanted[i].code) << ", cas " << got[i].cas << " and "
                                     << wanted[i].cas;
}

void expect_alike(const Stats& a, const Stats& b) {
  EXPECT_EQ(a.items, b.items);
  EXPECT_EQ(a.gets, b.gets);
  EXPECT_EQ(a.hits, b.hits);
  EXPECT_EQ(a.misses, b.misses);
  EXPECT_EQ(a.stores, b.stores);
}

void expect_alike(unsigned plain_percent, const Options& options, int rounds = 300) {
  Store batched(options), single(options);
  General apart(options);
  Tape tape(plain_percent);
  std::vector<Request> requests;
  for (int round = 0; round < rounds; ++round) {
    requests.clear();
    const std::size_t count = 1 + tape.below(round % 10 == 0 ? 1500 : 60);
    for (std::size_t i = 0; i < count; ++i) requests.push_back(tape.next(plain_percent));
    std::vector<Answer> in_batch, one_by_one, wanted;
    batched.execute(requests, [&](std::size_t i, const Reply& r) { append(in_batch, i, r); });
    for (std::size_t i = 0; i < count; ++i)
      single.execute({&requests[i], 1}, [&](std::size_t, const Reply& r) { append(one_by_one, i, r); });
    apart.execute(requests, wanted);
    ASSERT_EQ(wanted.size(), count);
    ASSERT_NO_FATAL_FAILURE(expect_alike("in a batch", requests, in_batch, wanted));
    ASSERT_NO_FATAL_FAILURE(expect_alike("one by one", requests, one_by_one, wanted));
  }
  expect_alike(batched.stats(), apart.stats());
  expect_alike(single.stats(), apart.stats());
}

TEST_P(Calls, PlainOnesAreAnsweredAsByTheGeneralPath) { expect_alike(100, small()); }
TEST_P(Calls, MixedOnesAreAnsweredAsByTheGeneralPath) { expect_alike(80, small()); }
TEST_P(Calls, OddOnesAreAnsweredAsByTheGeneralPath) { expect_alike(20, small()); }
TEST_P(Calls, OtherIndexesAnswerAlike) {
  for (const char* const index : {"set_associative", "hash_tree", "slab_list"}) {
    SCOPED_TRACE(index);
    Options options = small();
    options.index = index;
    expect_alike(20, options, 40);
  }
}

TEST_P(Calls, GetsOfKeysAreAnsweredAsByTheGeneralPath) {
  Store store(small());
  General apart(small());
  Tape tape(3);
  std::vector<std::string> values(60);
  std::vector<Request> sets, gets;
  for (std::size_t i = 0; i < 60; i += 2) {
    values[i] = "value " + std::to_string(i);
    sets.push_back({.action = Action::set, .key = tape.keys()[i], .value = values[i], .flags = 7});
  }
  std::vector<Answer> stored;
  apart.execute(sets, stored);
  store.execute(sets, [](std::size_t, const Reply&) {});
  std::vector<std::string_view> keys;
  for (int i = 0; i < 2000; ++i) keys.emplace_back(tape.keys()[tape.below(tape.keys().size())]);
  std::vector<Answer> in_batch, one_by_one, wanted;
  store.get_batch(keys, [&](std::size_t i, const Reply& r) { append(in_batch, i, r); });
  for (std::size_t i = 0; i < keys.size(); ++i)
    store.get_batch({&keys[i], 1}, [&](std::size_t, const Reply& r) { append(one_by_one, i, r); });
  for (const std::string_view key : keys) gets.push_back({.key = key});
  apart.execute(gets, wanted);
  EXPECT_EQ(in_batch, wanted);
  EXPECT_EQ(one_by_one, wanted);
}

// A flushed item is a row.
TEST_P(Calls, FlushedItemsAreMisses) {
  Store store(small());
  std::vector<Request> sets, gets;
  const Tape tape(4);
  for (std::size_t i = 0; i < 60; ++i) {
    sets.push_back({.action = Action::set, .key = tape.keys()[i], .value = "v"});
    gets.push_back({.key = tape.keys()[i]});
  }
  const auto nothing = [](std::size_t, const Reply&) {};
  store.execute(sets, nothing);
  store.clear();
  std::size_t hits = 0;
  store.execute(gets, [&](std::size_t, const Reply& r) { hits += r.code == Code::hit ? 1 : 0; });
  EXPECT_EQ(hits, 0u);
  store.execute(sets, nothing);
  store.execute(gets, [&](std::size_t, const Reply& r) { hits += r.code == Code::hit ? 1 : 0; });
  EXPECT_EQ(hits, 60u);
}

// A set for which there is no room is executed alone, outside the epoch, and evicts.
TEST_P(Calls, AFullStoreEvicts) {
  Store store({.memory_bytes = std::uint64_t{4} << 20, .hash_seed = 5});
  std::vector<std::string> keys;
  for (int i = 0; i < 20'000; ++i) keys.push_back("key " + std::to_string(i));
  const std::string value(500, 'v');
  std::vector<Request> sets;
  for (const std::string& key : keys) sets.push_back({.action = Action::set, .key = key, .value = value});
  std::size_t stored = 0;
  store.execute(sets, [&](std::size_t, const Reply& r) { stored += r.code == Code::stored ? 1 : 0; });
  EXPECT_EQ(stored, keys.size());
  EXPECT_GT(store.stats().evictions, 0u);
}

INSTANTIATE_TEST_SUITE_P(Lanes, Calls, testing::ValuesIn(lane::ops_built().begin(), lane::ops_built().end()),
                         [](const auto& lanes) {
                           std::string name(lanes.param->name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tandem
