// Sets that a later one of the same batch overwrites (docs/decisions/0026): what a client can see is the same.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "engine/lane_input_fixture.hpp"
#include "lane/run.hpp"

namespace tandem {
namespace {

using std::string;
using namespace lane_test;  // NOLINT(google-build-using-namespace): the test's own

string plain_set(const string& key, const string& value) {
  return "set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

class LaneDeferTest : public OnEachLane {
 protected:
  // Of the last exchange, which was answered as the general path does.
  static std::uint64_t deferred_by(LaneHarness& harness, const string& input) {
    harness.lane().always_defer();
    const std::uint64_t before = harness.counters_with().set_overwritten.get();
    const auto [with, without] = harness.exchange(input);
    EXPECT_EQ(with, without) << input;
    return harness.counters_with().set_overwritten.get() - before;
  }
};

TEST_P(LaneDeferTest, OnlyTheLastSetOfAKeyIsExecuted) {
  LaneHarness harness(instructions(), {}, engine_options());
  harness.exchange(plain_set("k", "0") + plain_set("other", "x"));
  const string three = plain_set("k", "1") + "ms k 1\r\n2\r\n" + plain_set("other", "y") + "get other\r\n" +
                       "set k 0 0 1 noreply\r\n3\r\n" + "get k\r\n";
  EXPECT_EQ(harness.exchange(three).with,
            "STORED\r\nHD\r\nSTORED\r\nVALUE other 0 1\r\ny\r\nEND\r\nVALUE k 0 1\r\n3\r\nEND\r\n");
  EXPECT_EQ(harness.counters_with().set_overwritten.get(), 0U);  // no other thread sets it
  EXPECT_EQ(deferred_by(harness, three), 2U);
  EXPECT_EQ(harness.exchange("get k\r\n").with, "VALUE k 0 1\r\n3\r\nEND\r\n");
  expect_same_counters(harness);
  // Over several strips, too, but no further than those that are hashed.
  string many = plain_set("k", "a"), far = many;
  for (int i = 0; i < 12; ++i) many += "get other\r\n";
  for (int i = 0; i < 64; ++i) far += "get other\r\n";
  EXPECT_EQ(deferred_by(harness, many + plain_set("k", "b")), 1U);
  EXPECT_EQ(deferred_by(harness, far + plain_set("k", "c")), 0U);
  EXPECT_EQ(harness.exchange("get k\r\n").with, "VALUE k 0 1\r\nc\r\nEND\r\n");
}

TEST_P(LaneDeferTest, NothingIsDeferredThatMayBeSeen) {
  LaneHarness harness(instructions(), {}, engine_options());
  harness.exchange(plain_set("k", "0") + plain_set("aVeryLongKeyIndeed", "0"));
  EXPECT_EQ(deferred_by(harness, plain_set("k", "1") + "get k\r\n" + plain_set("k", "2")), 0U);
  EXPECT_EQ(deferred_by(harness, plain_set("k", "1") + "mg k v\r\n" + plain_set("k", "2")), 0U);
  EXPECT_EQ(deferred_by(harness, plain_set("k", "1") + plain_set("k", "22")), 0U);  // goes beside, and may be refused
  EXPECT_EQ(deferred_by(harness, plain_set("k", "11") + "set k 7 0 2\r\n22\r\n"), 0U);
  EXPECT_EQ(deferred_by(harness, "set k 7 0 2\r\n11\r\n" + plain_set("k", "22")), 0U);
  EXPECT_EQ(deferred_by(harness, plain_set("aVeryLongKeyIndeed", "1") + plain_set("aVeryLongKeyIndeed", "2")), 0U);
  EXPECT_EQ(deferred_by(harness, plain_set("new", "1") + plain_set("new", "2")), 0U);  // there is no item to rewrite
  EXPECT_EQ(deferred_by(harness, "set k 0 2592001 2\r\n33\r\n" + plain_set("k", "44")), 0U);  // expires at once
  EXPECT_EQ(deferred_by(harness, plain_set("k", "55") + "set k 0 2592001 2\r\n66\r\n" + "get k\r\n"), 1U);
  expect_same_counters(harness);

  EngineOptions engine = engine_options();
  engine.evict = false;
  LaneHarness without_eviction(instructions(), {}, engine);
  without_eviction.exchange(plain_set("k", "0"));
  EXPECT_EQ(deferred_by(without_eviction, plain_set("k", "1") + plain_set("k", "2")), 0U);
}

// They are deferred when one in 64 of the last sets was overwritten by another worker's, or by another of the batch.
TEST_P(LaneDeferTest, SetsAreDeferredWhileWorkersMeet) {
  LaneHarness harness(instructions(), {}, engine_options());
  harness.exchange(plain_set("k", "0"));
  StoreCounters& counters = harness.context_with().counters;
  string same, others;
  for (int i = 0; i < 300; ++i) {
    same += plain_set("k", "1");
    others += plain_set("k" + std::to_string(i), "1");
  }
  const auto overwritten_by = [&](const string& input) {
    const std::uint64_t before = counters.set_overwritten.get();
    harness.exchange(input);
    return counters.set_overwritten.get() - before;
  };
  EXPECT_EQ(overwritten_by(same), 0U);
  EXPECT_EQ(overwritten_by(same), 0U);
  counters.set_overwritten.add(4);
  EXPECT_EQ(overwritten_by(same), 0U);  // too few of 300
  counters.set_overwritten.add(5);
  EXPECT_GT(overwritten_by(same), 250U);
  EXPECT_GT(overwritten_by(same), 250U);
  EXPECT_EQ(overwritten_by(others), 0U);
  EXPECT_EQ(overwritten_by(others), 0U);
  EXPECT_EQ(overwritten_by(same), 0U);  // that is over
}

// What a client can see but CAS ids, of which there are fewer.
TEST_P(LaneDeferTest, AnswersAsTheGeneralPathDoes) {
  std::uint64_t deferred = 0;
  for (unsigned seed = 0; seed < (is_sanitized ? 20u : 60u); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    EngineOptions engine = engine_options();
    engine.memory_bytes = std::uint64_t{8} << 20;
    LaneHarness harness(instructions(), {}, engine);
    harness.output_bytes_max = seed % 3 == 1 ? 1 + random.below(200) : std::size_t{1} << 20;
    const std::size_t keys = 1 + random.below(seed % 5 == 4 ? 200 : 6), odd = seed % 2 == 0 ? 12 : 400;
    const bool is_long = seed % 4 == 3;  // so that the ring is, too
    for (int round = 0; round < (is_long ? 8 : 20); ++round) {
      string input;
      for (std::size_t n = is_long ? 300 + random.below(500) : random.below(150); n != 0; --n) {
        const string key = "k" + std::to_string(random.below(keys));
        const string value(random.one_in(30) ? 3 : 2, static_cast<char>('a' + random.below(26)));
        if (random.one_in(odd)) {
          constexpr const char* others[] = {"delete ", "incr ", "touch ", "md ", "append "};
          const string other = random.of(others);
          input += other + key +
                   (other == "md "       ? " I T9"
                    : other == "delete " ? ""
                    : other == "append " ? " 0 0 1\r\nx"
                                         : " 5") +
                   "\r\n";
        } else if (random.one_in(5)) {
          input += (random.one_in(2) ? "get " + key : "mg " + key + " v") + "\r\n";
        } else {
          input += random.one_in(2) ? plain_set(key, value)
                                    : "ms " + key + " " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
        }
      }
      deferred += deferred_by(harness, input);
      if (HasFailure()) return;
    }
    expect_same_counters(harness);
  }
  EXPECT_GT(deferred, 5'000U);
}

// The run ends, or another connection stops, before the later set: the first one is executed after all.
TEST_P(LaneDeferTest, ASetWhoseSuccessorIsLeftIsExecuted) {
  for (const bool is_full : {false, true}) {
    codec::ReplyHarness store({}, engine_options());
    Lane lane(store.context(), store.options(), instructions());
    store.exchange(plain_set("k", "0"));
    lane.always_defer();
    // The lane leaves the item of so many pages, and what follows it.
    const string huge = plain_set("huge", string(700'000, 'v'));
    const string first = plain_set("k", "1"), last = (is_full ? "" : huge) + plain_set("k", "2");
    string gets;
    for (int i = 0; i < 9; ++i) gets += "get k9\r\n";
    const std::vector<string> inputs = {first, gets, last};
    std::vector<std::unique_ptr<char[]>> copies;
    std::vector<LaneSegment> segments;
    std::deque<Parser> parsers;
    for (const string& input : inputs) {
      copies.push_back(padded(input));
      segments.push_back({.begin = copies.back().get(),
                          .end = copies.back().get() + input.size(),
                          .parser = &parsers.emplace_back(store.options(), store.engine().shared().clock),
                          .binary = false});
    }
    Output out;
    lane.run(segments, out, is_full ? 1 : 1 << 20);
    EXPECT_EQ(store.context().counters.set_overwritten.get(), 0U);
    EXPECT_EQ(segments[0].rest, segments[0].end);
    EXPECT_EQ(segments[2].rest, segments[2].begin);
    EXPECT_EQ(store.exchange("get k\r\n"), "VALUE k 0 1\r\n1\r\nEND\r\n");
  }
}

// A flush that takes its mark refuses the later set, and would refuse the first one: that has been answered, so its key
// is evicted at once. The value before it must not come back.
TEST_P(LaneDeferTest, ASetBeforeARefusedOneIsNotForgotten) {
  codec::ReplyHarness store({}, engine_options());
  store.exchange(plain_set("k", "0"));
  const auto context = store.engine().make_context();  // it has no CAS ids yet
  Lane lane(*context, store.options(), instructions());
  lane.always_defer();
  const string first = plain_set("k", "1"), input = first + plain_set("k", "2");
  const auto copy = padded(input);
  Parser parser(store.options(), store.engine().shared().clock);
  LaneSegment segment{.begin = copy.get(), .end = copy.get() + input.size(), .parser = &parser, .binary = false};
  Output out;
  store.engine().shared().flush_begins.store(true);
  lane.run({&segment, 1}, out, 1 << 20);
  store.engine().shared().flush_begins.store(false);
  EXPECT_TRUE(segment.stopped);
  EXPECT_EQ(string(out.data(), out.size()), "STORED\r\n");
  EXPECT_EQ(segment.rest, segment.begin + first.size());
  EXPECT_EQ(store.exchange("get k\r\n"), "END\r\n");
}

class DeferredSet : public testing::TestWithParam<string> {
 protected:
  // The value of `n` when a set of 77 is executed that found it, and meanwhile other threads did something.
  string after(const string& meanwhile, const string& ahead = plain_set("n", "10")) {
    store_.exchange(ahead);
    const auto context = store_.engine().make_context();
    lane::State state(*context, store_.options());
    const Fingerprint f = fingerprint_of("n", store_.engine().shared().hash_seed);
    lane::run_in_epoch(state, [&] {
      ItemVersion seen;
      Item* const item = store_.engine().shared().index.find(f, "n", seen, no_location);
      ASSERT_NE(item, nullptr);
      store_.exchange(meanwhile);
      if (takes_all_slots_) take_all_slots(*context);
      lane::execute_deferred(state, {nullptr, 0, f, item, {"n", "77", 0, Clock::never, false, false}});
    });
    evictions_ = context->counters.evictions.get();
    for (const Location slot : taken_) {
      const Heap::Cache::Lock lock(context->cache);
      store_.engine().shared().heap.release(context->cache, slot);
    }
    taken_.clear();
    const string reply = store_.exchange("mg n v\r\n");
    return reply.substr(0, reply.size() - 2);
  }
  static EngineOptions options(std::uint64_t memory_bytes = std::uint64_t{32} << 20) {
    EngineOptions options = codec::ReplyHarness::small_engine();
    options.index_kind = GetParam();
    options.memory_bytes = memory_bytes;
    return options;
  }
  // Those of the class of `n`.
  void take_all_slots(Context& context) {
    Heap& heap = context.shared.heap;
    const std::uint64_t bytes = Item::total_bytes(0, 1, 2);
    const Heap::Cache::Lock lock(context.cache);
    for (;;) {
      const Location slot = heap.allocate(context.cache, heap.size_class(bytes), bytes);
      if (slot == no_location) return;
      taken_.push_back(slot);
    }
  }
  codec::ReplyHarness store_{{}, options(std::uint64_t{8} << 20)};
  bool takes_all_slots_ = false;
  std::vector<Location> taken_;
  std::uint64_t evictions_ = 0;  // by the context that executed the set
};

// Whatever other threads did meanwhile was before it. If a flush is among it the set cannot be executed, and is evicted
// at once, with what other threads set since.
TEST_P(DeferredSet, IsExecutedAsAnyOther) {
  const string others[] = {"",
                           "get n\r\n",
                           plain_set("n", "55"),
                           "incr n 1\r\n",
                           "append n 0 0 1\r\n1\r\n",
                           plain_set("n", "555"),
                           "delete n\r\n",
                           "touch n 100\r\n",
                           "md n I T30\r\n",
                           "delete n\r\n" + plain_set("n", "1")};
  for (const string& other : others) EXPECT_EQ(after(other), "VA 2\r\n77") << other;
  EXPECT_EQ(after("flush_all\r\n"), "EN");
  EXPECT_EQ(after("flush_all\r\n" + plain_set("n", "55")), "EN");
  // A flush that takes its mark refuses ids to threads that need new ones.
  store_.exchange(plain_set("n", "10"));
  store_.engine().shared().flush_begins.store(true);
  const string taking = after("", "get n\r\n");
  store_.engine().shared().flush_begins.store(false);
  EXPECT_EQ(taking, "EN");
}

// No slot is at hand for an item beside: the key is gone, as if it had been evicted behind the set.
TEST_P(DeferredSet, WithoutASlotIsEvictedAtOnce) {
  for (int i = 0; store_.context().counters.evictions.get() == 0; ++i) {
    ASSERT_LT(i, 1'000'000);
    store_.exchange(plain_set("fill" + std::to_string(i), "10"));
  }
  takes_all_slots_ = true;
  EXPECT_EQ(after("append n 0 0 1\r\n1\r\n"), "EN");
  EXPECT_EQ(evictions_, 1U);
  EXPECT_EQ(store_.exchange(plain_set("n", "5") + "get n\r\n"), "STORED\r\nVALUE n 0 1\r\n5\r\nEND\r\n");
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeferredSet, testing::Values("cuckoo", "set_associative", "hash_tree", "slab_list"),
                         [](const auto& param) { return param.param; });

// Each thread sets a few keys again and again, in batches. No thread sees another's values go back, and what a key has
// in the end is the last value of one of them.
TEST_P(LaneDeferTest, NoSetIsLostBesideOthers) {
  constexpr int rounds = is_sanitized ? 60 : 600;
  constexpr std::size_t threads = 4, keys = 3;
  Engine engine(engine_options());
  const ProtocolOptions options;
  std::array<std::array<std::atomic<int>, keys>, threads> last{};
  std::atomic<std::uint64_t> deferred{0};
  const auto value_of = [](std::size_t thread, int n) {
    const string number = std::to_string(n);
    return string(1, static_cast<char>('a' + thread)) + string(7 - number.size(), '0') + number;
  };
  const auto work = [&](std::size_t thread) {
    const auto context = engine.make_context();
    Lane lane(*context, options, instructions());
    lane.always_defer();
    Random random(static_cast<unsigned>(thread));
    std::array<std::array<int, threads>, keys> seen{};
    int n = 0;
    for (int round = 0; round < rounds; ++round) {
      string input;
      std::vector<std::size_t> asked;
      const std::size_t batch = round % 8 < 2 ? 400 : 60;  // with the long ring, and without
      for (std::size_t i = 0; i < batch; ++i) {
        const std::size_t key = random.below(keys);
        if (random.one_in(6)) {
          input += "get k" + std::to_string(key) + "\r\n";
          asked.push_back(key);
        } else {
          last[thread][key].store(++n, std::memory_order_relaxed);
          input += plain_set("k" + std::to_string(key), value_of(thread, n));
        }
      }
      const auto copy = padded(input);
      Parser parser(options, engine.shared().clock);
      LaneSegment segment{.begin = copy.get(), .end = copy.get() + input.size(), .parser = &parser, .binary = false};
      const std::uint64_t before = context->counters.set_overwritten.get();
      string replies;
      while (segment.rest != segment.end) {
        Output out;
        lane.run({&segment, 1}, out, round % 2 == 0 && batch == 60 ? 100 : 1 << 20);
        ASSERT_FALSE(segment.stopped);
        replies.append(out.data(), out.size());
        segment.begin = segment.rest;
      }
      deferred.fetch_add(context->counters.set_overwritten.get() - before);
      std::size_t at = 0;
      for (const std::size_t key : asked) {
        at = replies.find(" 8\r\n", at);
        ASSERT_NE(at, string::npos);
        at += 4;
        const std::size_t who = static_cast<std::size_t>(replies[at] - 'a');
        ASSERT_LT(who, threads);
        const int number = std::stoi(replies.substr(at + 1, 7));
        ASSERT_GE(number, seen[key][who]);
        seen[key][who] = number;
      }
    }
  };
  {
    const auto context = engine.make_context();
    Lane lane(*context, options, instructions());
    string input;
    for (std::size_t key = 0; key < keys; ++key) input += plain_set("k" + std::to_string(key), value_of(0, 0));
    const auto copy = padded(input);
    Parser parser(options, engine.shared().clock);
    LaneSegment segment{.begin = copy.get(), .end = copy.get() + input.size(), .parser = &parser, .binary = false};
    Output out;
    lane.run({&segment, 1}, out, 1 << 20);
    ASSERT_EQ(segment.rest, segment.end);
    std::vector<std::thread> all;
    for (std::size_t t = 0; t < threads; ++t) all.emplace_back(work, t);
    for (std::thread& t : all) t.join();
    for (std::size_t key = 0; key < keys; ++key) {
      const string get = "get k" + std::to_string(key) + "\r\n";
      const auto request = padded(get);
      segment = {.begin = request.get(), .end = request.get() + get.size(), .parser = &parser, .binary = false};
      out.clear();
      lane.run({&segment, 1}, out, 1 << 20);
      const string reply(out.data(), out.size());
      bool is_last = false;
      for (std::size_t t = 0; t < threads; ++t)
        is_last = is_last || reply.find(value_of(t, last[t][key].load())) != string::npos;
      EXPECT_TRUE(is_last) << reply;
    }
  }
  EXPECT_GT(deferred.load(), std::uint64_t{threads} * rounds * 10);
}

INSTANTIATE_TEST_SUITE_P(All, LaneDeferTest, every_lane(), lane_name);

}  // namespace
}  // namespace tandem
