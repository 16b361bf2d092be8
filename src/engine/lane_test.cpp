// The lane's replies are the general path's, to the byte, whatever comes, and so are the counters.
#include "lane/lane.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "engine/lane_input_fixture.hpp"
#include "lane/state.hpp"
#include "task/scan.hpp"

namespace tandem {
namespace {

using std::string;
using namespace lane_test;  // NOLINT(google-build-using-namespace): the test's own

class LaneTest : public OnEachLane {};

TEST_P(LaneTest, AnswersAsTheGeneralPathDoes) {
  constexpr std::size_t sets_percent[] = {2, 50, 90};
  constexpr unsigned seeds = is_sanitized ? 30 : 120;
  std::uint64_t in_lane = 0, sets_in_lane = 0, rows_in_lane = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    EngineOptions engine = engine_options();
    if (seed % 7 == 6) engine.eviction = "s3-fifo";
    LaneHarness harness(instructions(), {}, engine);
    harness.output_bytes_max = seed % 4 == 1 ? 300 : std::size_t{1} << 20;
    const Mix mix{seed % 2 == 0 ? 1000u : 15u, sets_percent[seed % 3], seed % 8 < 4 ? 40u : 3u};
    compare(harness, random, seed % 4 == 3, mix, seed % 5 == 4 ? 3 : 0);
    in_lane += harness.queries_of_lane;
    sets_in_lane += harness.sets_of_lane;
    rows_in_lane += harness.rows_of_lane;
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(in_lane, 20'000u * seeds / 120);
  EXPECT_GT(rows_in_lane, 1'000u * seeds / 120);
  EXPECT_GT(sets_in_lane, 10'000u * seeds / 120);
}

TEST_P(LaneTest, NoMatterWhereTheInputIsCut) {
  const string line = "get k0 k1\r\nget aVeryLongKeyIndeed\r\nmg k2 v\r\nmg k3 v K\r\ngets k0\r\nget k1\r\n";
  for (std::size_t cut = 0; cut <= line.size(); ++cut) {
    LaneHarness harness(instructions(), {}, engine_options());
    harness.exchange(
        "set k0 0 0 1\r\na\r\nset k1 3 0 2\r\nbb\r\nms k2 3\r\nccc\r\nset aVeryLongKeyIndeed 0 0 1\r\nd\r\n");
    const auto first = harness.exchange(line.substr(0, cut));
    EXPECT_EQ(first.with, first.without) << cut;
    const auto second = harness.exchange(line.substr(cut));
    EXPECT_EQ(second.with, second.without) << cut;
    EXPECT_EQ(first.with.size() + second.with.size(), 144u);
    EXPECT_TRUE(cut != 0 || harness.queries_of_lane == 7);
  }
}

TEST_P(LaneTest, NoMatterWhereSetsAreCut) {
  namespace binary = codec::binary;
  const string text =
      "set k0 0 0 1\r\nb\r\nget k0\r\nset k1 3 0 10 noreply\r\n0123456789\r\nget k1\r\nms k2 3\r\nDDD\r\nms k2 4 T9\r\n"
      "EEEE\r\nmg k2 v\r\nset k0 0 100 1\r\nc\r\nset aVeryLongKeyIndeed 7 0 0\r\n\r\ngets aVeryLongKeyIndeed k0 k1\r\n";
  const auto set = [](std::uint8_t opcode, string value) {
    return binary::packet(opcode, {.key = "k0", .extras = binary::store_extras(0), .value = value, .opaque = 5});
  };
  const string packets = set(binary::opcode::set, "b") + binary::packet(binary::opcode::get, {.key = "k0"}) +
                         set(binary::opcode::setq, "longer") + binary::packet(binary::opcode::getk, {.key = "k0"});
  for (const string& input : {text, packets}) {
    std::size_t bytes = 0;
    for (std::size_t cut = 0; cut <= input.size(); cut += is_sanitized ? 3 : 1) {
      LaneHarness harness(instructions(), {}, engine_options());
      harness.exchange(input == text ? "set k0 0 0 1\r\na\r\nset k1 3 0 10\r\n----------\r\n"
                                     : binary::packet(binary::opcode::noop));
      const std::uint64_t sets_before = harness.sets_of_lane;
      const auto first = harness.exchange(input.substr(0, cut));
      EXPECT_EQ(first.with, first.without) << cut;
      const auto second = harness.exchange(input.substr(cut));
      EXPECT_EQ(second.with, second.without) << cut;
      if (cut == 0) {
        bytes = second.with.size();
        EXPECT_EQ(harness.sets_of_lane - sets_before, input == text ? 6u : 2u);
      }
      EXPECT_EQ(first.with.size() + second.with.size(), bytes);
    }
  }
}

// Keys of each form that a tree's nodes tell apart in another way: random ones, such as share more bytes than the lane
// has at hand, long ones, and such as begin with each other.
std::vector<string> keys_of_each_form(Random& random) {
  std::vector<string> keys;
  const auto digits = [&random](std::size_t bytes) {
    string key;
    while (key.size() < bytes) key += static_cast<char>('!' + random.below(94));
    return key;
  };
  for (int i = 0; i < 500; ++i) {
    keys.push_back(digits(1 + random.below(3)));
    keys.push_back(digits(8));
    keys.push_back("twelve-bytes" + digits(random.below(5)));
    keys.push_back("thirteenbytes" + digits(random.below(4)));
    keys.push_back("longer-than-16-bytes" + digits(random.below(30)));
    keys.push_back(digits(1) + "-longer-than-16-bytes" + digits(random.below(30)));
    keys.push_back("row:" + std::to_string(i));
    keys.push_back("row:" + std::to_string(i) + string(random.below(30), '!'));
  }
  return keys;
}

// No key is looked up once more because the search has led elsewhere.
TEST_P(LaneTest, FindsEachKeyByItsFirstSearch) {
  EngineOptions engine = engine_options();
  for (unsigned seed = 0; seed < 4; ++seed) {
    engine.tree = {.leaf_cells = 16, .node_children = seed % 2 == 0 ? 8u : 64u};  // many levels, or several blocks
    LaneHarness harness(instructions(), {}, engine);
    Random random(seed);
    const std::vector<string> keys = keys_of_each_form(random);
    for (const string& key : keys) harness.exchange("set " + key + " 0 0 1\r\nv\r\n");
    const std::uint64_t retries = harness.counters_with().index_retries.get(), reads = harness.queries_of_lane;
    for (int round = 0; round < 3; ++round) {
      string input;
      for (int i = 0; i < 2000; ++i) input += "get " + keys[random.below(keys.size())] + "\r\n";
      const auto [with, without] = harness.exchange(input);
      ASSERT_EQ(with, without);
    }
    EXPECT_EQ(harness.queries_of_lane - reads, 6000u);
    EXPECT_EQ(harness.counters_with().index_retries.get(), retries);
  }
}

// A snapshot of all keys, in order.
std::vector<string> keys_in_order(Context& context) {
  struct Keys final : ItemSink {
    void restart() override { of_part.clear(); }
    bool item(const Item& item, const ItemVersion&, std::uint64_t) override {
      of_part.emplace_back(item.key());
      return true;
    }
    std::vector<string> of_part;
  };
  std::vector<string> keys;
  for (string last;;) {
    Keys part;
    const ScanEnd end = task::scan(context, {.begin = last, .after_begin = true}, 1000, part);
    keys.insert(keys.end(), part.of_part.begin(), part.of_part.end());
    if (end.done) return keys;
    last = end.last_key();
  }
}

// Leaves of 16 cells, which are full after every few sets: a key's leaf may have been divided since it was found.
TEST_P(LaneTest, DividesTheLeavesOfNewKeys) {
  EngineOptions engine = engine_options();
  if (engine.index_kind == "set_associative" || engine.index_kind == "slab_list") GTEST_SKIP() << "has no leaves";
  engine.tree = {.leaf_cells = 16, .node_children = 8};
  engine.ordered = true;
  for (unsigned seed = 0; seed < 4; ++seed) {
    LaneHarness harness(instructions(), {}, engine);
    harness.exchange("mn\r\n");
    Random random(seed);
    const std::vector<string> keys = keys_of_each_form(random);
    for (std::size_t i = 0; i < keys.size();) {
      string input;
      for (const std::size_t end = std::min(i + 1 + random.below(300), keys.size()); i < end; ++i) {
        const std::size_t value_bytes = random.below(30);
        input += "set " + keys[i] + " 0 0 " + std::to_string(value_bytes) + "\r\n" + string(value_bytes, 'v') + "\r\n";
        if (random.one_in(8)) input += "set " + keys[random.below(i + 1)] + " 0 0 3\r\nnew\r\n";
        if (random.one_in(8)) input += "get " + keys[random.below(i + 1)] + "\r\n";
      }
      const auto [with, without] = harness.exchange(input);
      ASSERT_EQ(with, without);
    }
    EXPECT_GT(harness.sets_of_lane, keys.size() * 9 / 10);
    string all;
    for (const string& key : keys) all += "get " + key + "\r\n";
    const auto [with, without] = harness.exchange(all);
    ASSERT_EQ(with, without);
    EXPECT_EQ(keys_in_order(harness.context_with()), keys_in_order(harness.context_without()));
  }
}

// Whatever order: within a strip, and as far behind a set as strips that were searched before it.
TEST_P(LaneTest, GetsSeeTheSetsBeforeThem) {
  for (const string& second : {string("second"), string("of another length, and another class of slots")}) {
    for (std::size_t between = 0; between < 60; ++between) {
      LaneHarness harness(instructions(), {}, engine_options());
      harness.exchange("mn\r\n");
      const auto set = [](string value) {
        return "set key 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
      };
      string gets;
      for (std::size_t i = 0; i < between; ++i) gets += "get other" + std::to_string(i) + "\r\n";
      const auto [with, without] =
          harness.exchange("get key\r\n" + gets + set("-first") + "get key\r\n" + gets + set(second) + gets +
                           "get key\r\nget key\r\n" + gets + set("-third") + "get key\r\n");
      ASSERT_EQ(with, without) << between;
      EXPECT_EQ(harness.sets_of_lane, 3u);
      EXPECT_EQ(harness.queries_of_lane, 8 + 4 * between);
    }
  }
}

// One alone, and one of a whole strip of its kind.
TEST_P(LaneTest, MarksWhatIsReadAfterASet) {
  for (const string& key : {string("key"), string("aKeyLongerThan16Bytes")}) {
    for (const std::size_t gets : {1u, 16u}) {
      LaneHarness harness(instructions(), {}, engine_options());
      harness.exchange("mn\r\n");
      string input = "set " + key + " 0 0 1\r\nv\r\n";
      EXPECT_EQ(harness.exchange(input + "mg " + key + " h\r\n").with, "STORED\r\nHD h0\r\n");
      for (std::size_t i = 0; i < gets; ++i) input += "get " + key + "\r\n";
      const std::uint64_t before = harness.queries_of_lane;
      const auto read = harness.exchange(input);
      EXPECT_EQ(read.with, read.without);
      EXPECT_EQ(harness.queries_of_lane - before, 1 + gets);
      const auto [with, without] = harness.exchange("mg " + key + " h\r\n");
      EXPECT_EQ(with, without);
      EXPECT_EQ(with, "HD h1\r\n");
    }
  }
}

TEST_P(LaneTest, FullStoresRefuseAsTheGeneralPathDoes) {
  EngineOptions engine = engine_options();
  engine.memory_bytes = std::uint64_t{8} << 20;
  engine.evict = false;
  LaneHarness harness(instructions(), {}, engine);
  Random random(1);
  std::uint64_t refused = 0;
  for (int round = 0; round < 60; ++round) {
    string input;
    for (int i = 0; i < 30; ++i) {
      const string key = "key" + std::to_string(random.below(1500)), value(9000, static_cast<char>('a' + round % 26));
      input += "set " + key + " 0 0 9000\r\n" + value + "\r\nget " + key + "\r\n";
    }
    const auto [with, without] = harness.exchange(input);
    ASSERT_EQ(with, without) << round;
    refused += with.find("SERVER_ERROR out of memory") != string::npos ? 1u : 0u;
  }
  EXPECT_GT(refused, 5u);
  EXPECT_GT(harness.sets_of_lane, 400u);
  expect_same_counters(harness);
}

// Which items go is each store's own affair, but what a hit says is what was set last.
TEST_P(LaneTest, FullStoresEvictAndGoOn) {
  EngineOptions engine = engine_options();
  engine.memory_bytes = std::uint64_t{8} << 20;
  codec::ReplyHarness store({}, engine);
  Lane lane(store.context(), store.options(), instructions());
  std::uint64_t in_lane = 0, hits = 0;
  store.ahead = [&](Parser& parser, std::string_view input, Output& out) -> std::size_t {
    if (parser.speaks() == Parser::Speaks::neither) return 0;
    const auto copy = padded(input);
    LaneSegment segment{.begin = copy.get(),
                        .end = copy.get() + input.size(),
                        .parser = &parser,
                        .binary = false,
                        .within_command = !parser.begins_command()};
    lane.run({&segment, 1}, out, std::size_t{1} << 20);
    in_lane += segment.commands[static_cast<std::size_t>(LaneCommand::set)];
    return static_cast<std::size_t>(segment.rest - segment.begin);
  };
  Random random(1);
  std::map<string, string> last;
  for (int round = 0; round < 200; ++round) {
    const string key = "key" + std::to_string(random.below(3000));
    string input, expected;
    for (int i = 0; i < 20; ++i) {
      const string k = "key" + std::to_string(random.below(3000));
      const string value(random.one_in(4) ? 3000 : 5000, static_cast<char>('a' + random.below(26)));
      input += "set " + k + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
      expected += "STORED\r\n";
      last[k] = value;
    }
    ASSERT_EQ(store.exchange(input), expected);
    const string reply = store.exchange("get " + key + "\r\n");
    if (reply == "END\r\n") continue;
    ++hits;
    const string& value = last[key];
    ASSERT_EQ(reply, "VALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nEND\r\n");
  }
  EXPECT_GT(store.context().counters.evictions.get(), 1000u);
  EXPECT_GT(in_lane, 2000u);
  EXPECT_GT(hits, 10u);
}

// What sets replace is given back in time: an epoch ends after a mebibyte of it.
TEST_P(LaneTest, EndsItsEpochWhenSetsHaveRetiredMuch) {
  codec::ReplyHarness store({}, engine_options());
  Lane lane(store.context(), store.options(), instructions());
  Parser parser(store.options(), store.engine().shared().clock);
  string input;
  for (std::size_t i = 0; i < 2000; ++i)
    input += "set key 0 0 " + std::to_string(1100 + i % 2) + "\r\n" + string(1100 + i % 2, 'v') + "\r\n";
  const auto copy = padded(input);
  LaneSegment segment{.begin = copy.get(), .end = copy.get() + input.size(), .parser = &parser, .binary = false};
  Output out;
  EXPECT_EQ(lane.run({&segment, 1}, out, std::size_t{1} << 30), 0u);
  EXPECT_FALSE(segment.stopped);
  EXPECT_GT(segment.queries, 800u);
  EXPECT_LT(segment.queries, 1100u);
  EXPECT_FALSE(store.context().epoch.active());
}

// Nothing but the lane stores, and the index grows all the same.
TEST_P(LaneTest, HasTheIndexGrow) {
  EngineOptions engine = engine_options();
  engine.item_bytes_expected = 1 << 20;
  codec::ReplyHarness store({}, engine);
  Lane lane(store.context(), store.options(), instructions());
  Parser parser(store.options(), store.engine().shared().clock);
  const Index& index = store.engine().shared().index;
  if (!index.grows()) GTEST_SKIP() << "it keeps its size";
  const std::uint64_t before = index.cell_count();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  for (std::uint64_t key = 0; index.cell_count() == before && std::chrono::steady_clock::now() < deadline;) {
    string input;
    for (int i = 0; i < 100; ++i) input += "set key" + std::to_string(key++) + " 0 0 1\r\nv\r\n";
    const auto copy = padded(input);
    LaneSegment segment{.begin = copy.get(), .end = copy.get() + input.size(), .parser = &parser, .binary = false};
    Output out;
    lane.run({&segment, 1}, out, std::size_t{1} << 20);
    if (index.item_count() > before * 95 / 100) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(index.cell_count(), before);
}

const char* left_or_row(Random& random) { return random.one_in(2) ? "verbosity 1\r\n" : "touch k1 0\r\n"; }

TEST_P(LaneTest, ManySegmentsEachWithItsPartOfTheOutput) {
  std::size_t bytes = 0, bytes_taken = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    Random random(seed);
    codec::ReplyHarness store({}, engine_options()), other({}, engine_options());
    Lane lane(store.context(), store.options(), instructions());
    std::deque<Parser> parsers;
    for (int i = 0; i < 30; ++i) {
      const string set = set_of(random);
      EXPECT_EQ(store.exchange(set), other.exchange(set));
    }
    std::vector<string> inputs;
    std::vector<std::unique_ptr<char[]>> copies;
    std::vector<LaneSegment> segments;
    for (std::size_t n = 1 + random.below(40); n != 0; --n) {
      string input;
      for (std::size_t lines = random.below(seed % 2 == 0 ? 3 : 20); lines != 0; --lines)
        input += random.one_in(30) ? left_or_row(random) : get_of(random);
      if (random.one_in(10)) input += "get k";
      copies.push_back(padded(input));
      segments.push_back({.begin = copies.back().get(),
                          .end = copies.back().get() + input.size(),
                          .parser = &parsers.emplace_back(store.options(), store.engine().shared().clock),
                          .binary = false});
      inputs.push_back(input);
    }
    // In as many runs as it takes.
    Output out;
    std::vector<string> replies(segments.size());
    const std::size_t limit = seed % 3 == 0 ? 500 : 1 << 20;
    for (std::size_t done = 0; done < segments.size();) {
      const std::span<LaneSegment> left = std::span(segments).subspan(done);
      const std::size_t more = lane.run(left, out, limit);
      for (std::size_t i = 0; i < left.size(); ++i) {
        replies[done + i] += replies_of(left[i], out, store.engine().shared().heap);
        left[i].resume();
      }
      ASSERT_TRUE(more != 0 || !out.empty());
      done += more;
      out.clear();
    }
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const auto taken = static_cast<std::size_t>(segments[i].begin - copies[i].get());
      EXPECT_EQ(replies[i], other.exchange(inputs[i].substr(0, taken))) << seed;
      bytes_taken += taken;
      bytes += inputs[i].size();
    }
  }
  EXPECT_GT(bytes_taken * 4, bytes);
}

TEST_P(LaneTest, SamplesKeysAndCountsCommands) {
  codec::ReplyHarness store({}, engine_options());
  Lane lane(store.context(), store.options(), instructions());
  Parser parser(store.options(), store.engine().shared().clock);
  store.exchange("set a 0 0 1\r\nA\r\n");
  string input;
  for (int i = 0; i < 20; ++i) input += "get a\r\nmg a v\r\n";
  input += "get a b c\r\n";
  const auto copy = padded(input);
  for (const bool timed : {false, true}) {
    LaneSegment segment{.begin = copy.get(), .end = copy.get() + input.size(), .parser = &parser, .binary = false};
    Output out;
    KeySample keys(64);
    const TaskCounters& tasks = store.context().tasks;
    const std::uint64_t before = tasks.cycles[static_cast<std::size_t>(Task::parse)].get();
    EXPECT_EQ(lane.run({&segment, 1}, out, 1 << 20, timed, &keys), 1u);
    EXPECT_EQ(segment.queries, 43u);
    EXPECT_EQ(segment.commands[static_cast<std::size_t>(LaneCommand::get)], 21u);
    EXPECT_EQ(segment.commands[static_cast<std::size_t>(LaneCommand::meta_read)], 20u);
    EXPECT_EQ(keys.keys().size(), 43u);
    EXPECT_EQ(tasks.cycles[static_cast<std::size_t>(Task::parse)].get() > before, timed);
  }
}

TEST_P(LaneTest, TimesItsTasksInASampleOfTheRuns) {
  codec::ReplyHarness store({}, engine_options());
  Lane lane(store.context(), store.options(), instructions());
  Parser parser(store.options(), store.engine().shared().clock);
  const auto copy = padded("get a\r\n");
  const TaskCounters& tasks = store.context().tasks;
  for (int i = 0; i < 200; ++i) {
    LaneSegment segment{.begin = copy.get(), .end = copy.get() + 7, .parser = &parser, .binary = false};
    Output out;
    lane.run({&segment, 1}, out, 1 << 20);
  }
  EXPECT_EQ(tasks.queries_total.get(), 200u);
  const std::uint64_t sampled = tasks.batches_sampled.get();
  EXPECT_GT(sampled, 4u);
  EXPECT_LT(sampled, 40u);
  for (const Task task : {Task::search, Task::key_compare, Task::write_response}) {
    EXPECT_EQ(tasks.queries[static_cast<std::size_t>(task)].get(), sampled);
    EXPECT_GT(tasks.cycles[static_cast<std::size_t>(task)].get(), 0u);
  }
  const auto insert = static_cast<std::size_t>(Task::insert), compare = static_cast<std::size_t>(Task::key_compare);
  EXPECT_EQ(tasks.queries[insert].get(), 0u);
  const std::uint64_t compared = tasks.queries[compare].get();
  const auto mixed = padded("set a 0 0 1\r\nA\r\nget a\r\n");
  for (int i = 0; i < 200; ++i) {
    LaneSegment segment{.begin = mixed.get(), .end = mixed.get() + 23, .parser = &parser, .binary = false};
    Output out;
    lane.run({&segment, 1}, out, 1 << 20);
    EXPECT_EQ(segment.queries, 2u);
  }
  EXPECT_EQ(tasks.queries[insert].get(), tasks.batches_sampled.get() - sampled);
  EXPECT_EQ(tasks.queries[compare].get() - compared, tasks.batches_sampled.get() - sampled);
  EXPECT_GT(tasks.cycles[insert].get(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, LaneTest, every_lane(), lane_name);

TEST(Lane, KnowsWhatNeedsAMarkAsTheGeneralPathDoes) {
  Random random(1);
  for (int i = 0; i < 200'000; ++i) {
    const auto now_s = static_cast<std::uint32_t>(random.below(std::size_t{1} << (random.one_in(2) ? 32 : 17)));
    std::uint64_t state = random.below(std::numeric_limits<std::size_t>::max());
    state = word::State::put(state, static_cast<std::uint64_t>(ItemState::live));
    state = word::Stale::put(word::Win::put(state, 0), 0);
    if (random.one_in(2)) state |= task::access_marks;
    if (random.one_in(2)) state = word::AccessS::put(state, now_s - random.below(122) + 60);
    ASSERT_EQ(lane::is_marked(state, lane::marked_at(now_s)), !task::needs_mark(state, now_s)) << state << " " << now_s;
  }
}

// Segments of one stream, and another's: what follows a request that the lane leaves is left, too.
TEST(Lane, GoesOnInTheNextSegmentOnlyIfItFollowsNoUnansweredOne) {
  codec::ReplyHarness store;
  Lane lane(store.context(), store.options());
  std::deque<Parser> parsers;
  store.exchange("set a 0 0 1\r\nA\r\n");
  const string inputs[] = {"get a\r\n", "get a\r\nverbosity 1\r\n", "get a\r\n", "get b\r\n"};
  const bool follows[] = {false, true, true, false}, answered[] = {true, false, false, true};
  std::vector<std::unique_ptr<char[]>> copies;
  std::vector<LaneSegment> segments;
  for (std::size_t i = 0; i < std::size(inputs); ++i) {
    copies.push_back(padded(inputs[i]));
    const char* const begin = copies.back().get();
    segments.push_back({.begin = begin,
                        .end = begin + inputs[i].size(),
                        .parser = &parsers.emplace_back(store.options(), store.engine().shared().clock),
                        .binary = false,
                        .follows = follows[i]});
  }
  Output out;
  EXPECT_EQ(lane.run(segments, out, 1 << 20), segments.size());
  for (std::size_t i = 0; i < segments.size(); ++i) EXPECT_EQ(segments[i].is_answered(), answered[i]) << i;
  EXPECT_EQ(segments[1].rest, segments[1].begin + inputs[0].size());
  EXPECT_EQ(segments[2].rest, segments[2].begin);
  EXPECT_FALSE(segments[2].has_replies());
}

TEST(Lane, RefusesUnknownInstructions) {
  codec::ReplyHarness store;
  EXPECT_THROW(Lane(store.context(), store.options(), "mmx"), std::invalid_argument);
}

}  // namespace
}  // namespace tandem
