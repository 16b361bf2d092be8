// The lane's replies are the general path's, to the byte, whatever comes, and so are the counters.
#include "lane/lane.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "codec/packet_builder.hpp"
#include "lane/lane_harness.hpp"
#include "lane/state.hpp"

namespace tandem {
namespace {

using std::string;

class LaneTest : public testing::TestWithParam<string> {
 protected:
  void SetUp() override {
    if (lane::ops_named(GetParam()) == nullptr) GTEST_SKIP() << "not on this processor";
  }
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine_); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <std::size_t N>
  const char* of(const char* const (&all)[N]) {
    return all[below(N)];
  }

 private:
  std::mt19937 engine_;
};

// Of a few dozen, of all lengths.
string key_of(Random& random) {
  const std::size_t n = random.below(40);
  string key = "k" + std::to_string(n);
  if (n % 3 == 1) key.resize(1 + n % 16, 'x');
  if (n % 3 == 2) key.resize(17 + 7 * n % 234, static_cast<char>('a' + n % 26));
  if (random.one_in(60)) key.resize(245 + random.below(10), 'l');
  return key;
}

string number(Random& random) { return std::to_string(random.one_in(2) ? 0 : random.below(70000)); }

string set_of(Random& random) {
  constexpr const char* exptimes[] = {"0", "0", "0", "5", "100", "-1"};
  const std::size_t sizes[] = {0, 1, 8, 16, 64, 200, 999, 1000, 5000, 17000};
  const string value(random.one_in(3) ? sizes[random.below(10)] : random.below(100), 'v');
  if (random.one_in(4)) {
    return "ms " + key_of(random) + " " + std::to_string(value.size()) + (random.one_in(3) ? " T4" : "") + "\r\n" +
           value + "\r\n";
  }
  return "set " + key_of(random) + " " + number(random) + " " + random.of(exptimes) + " " +
         std::to_string(value.size()) + (random.one_in(5) ? " noreply" : "") + "\r\n" + value + "\r\n";
}

string get_of(Random& random) {
  switch (random.below(8)) {
    case 0:
    case 1:
    case 2:
      return "get " + key_of(random) + "\r\n";
    case 3: {
      string line = random.one_in(2) ? "get" : "gets";
      for (std::size_t keys = 1 + random.below(random.one_in(5) ? 60 : 5); keys != 0; --keys)
        line += " " + key_of(random);
      return line + "\r\n";
    }
    case 4:
      return "gets " + key_of(random) + "\r\n";
    case 5:
      return "mg " + key_of(random) + " v K\r\n";
    default:
      return "mg " + key_of(random) + " v\r\n";
  }
}

string other_of(Random& random) {
  constexpr const char* flags[] = {" ", " v K q", " K v", " s v t", " v N30", " k", " q v", " v h l t f c", "", " b v"};
  switch (random.below(9)) {
    case 0:
      return "mg " + key_of(random) + random.of(flags) + "\r\n";
    case 1:
      return "md " + key_of(random) + (random.one_in(2) ? " I T9\r\n" : "\r\n");
    case 2:
      return "touch " + key_of(random) + " 3\r\n";
    case 3:
      return random.one_in(10) ? "flush_all\r\n" : "mn\r\n";
    case 4:
      return "delete " + key_of(random) + "\r\n";
    case 5:
      return "ms " + string(random.one_in(2) ? "azE=" : "Zm9v") + " 2 b\r\nhi\r\n";
    case 6:
      return random.one_in(2) ? "get  " + key_of(random) + "\r\n" : "get " + key_of(random) + " \r\n";
    case 7:
      return "get " + key_of(random) + (random.one_in(2) ? "\n" : "\r\r\n");
    default:
      return random.one_in(2) ? "incr " + key_of(random) + " 1\r\n" : "nonsense\r\n";
  }
}

string packet_of(Random& random) {
  namespace binary = codec::binary;
  constexpr std::uint8_t gets[] = {binary::opcode::get, binary::opcode::getq, binary::opcode::getk,
                                   binary::opcode::getkq};
  const string key = key_of(random).substr(0, 250);
  if (random.one_in(12)) {
    const string value(random.one_in(3) ? random.below(3000) : 8, 'b'),
        extras = binary::store_extras(random.one_in(2) ? 7 : 0);
    return binary::packet(random.one_in(2) ? binary::opcode::set : binary::opcode::setq,
                          {.key = key, .extras = extras, .value = value});
  }
  if (random.one_in(12)) return binary::packet(binary::opcode::noop);
  return binary::packet(gets[random.below(4)], {.key = key, .opaque = static_cast<std::uint32_t>(random.below(99))});
}

string some_input(Random& random, bool binary, std::size_t one_odd_in) {
  string all;
  for (std::size_t n = random.below(120); n != 0; --n) {
    if (binary) {
      all += packet_of(random);
    } else if (random.one_in(one_odd_in)) {
      all += other_of(random);
    } else {
      all += random.one_in(60) ? set_of(random) : get_of(random);
    }
  }
  return all;
}

void expect_same_counters(LaneHarness& harness) {
  const StoreCounters& a = harness.counters_with();
  const StoreCounters& b = harness.counters_without();
  EXPECT_EQ(a.cmd_get.get(), b.cmd_get.get());
  EXPECT_EQ(a.get_hits.get(), b.get_hits.get());
  EXPECT_EQ(a.get_misses.get(), b.get_misses.get());
  EXPECT_EQ(a.get_expired.get(), b.get_expired.get());
  EXPECT_EQ(a.get_flushed.get(), b.get_flushed.get());
  EXPECT_EQ(a.cmd_set.get(), b.cmd_set.get());
  EXPECT_EQ(a.cmd_touch.get(), b.cmd_touch.get());
}

// Generated input in random parts; `mutations` of its bytes are changed.
void compare(LaneHarness& harness, Random& random, bool binary, std::size_t one_odd_in, std::size_t mutations) {
  std::uint32_t now_s = codec::ReplyHarness::start_s;
  for (int round = 0; round < 30 && !harness.closed(); ++round) {
    string sets, input = some_input(random, binary, one_odd_in);
    for (std::size_t i = binary ? 0 : random.below(10); i != 0; --i) sets += set_of(random);
    const auto stored = harness.exchange(sets);
    ASSERT_EQ(stored.with, stored.without) << sets;
    for (std::size_t i = 0; i < mutations && !input.empty(); ++i)
      input[random.below(input.size())] = "\r\n \x01m0g9\xff"[random.below(10)];
    for (std::size_t at = 0; at < input.size();) {
      const std::size_t part = random.one_in(3) ? 1 + random.below(20) : 1 + random.below(input.size());
      const auto [with, without] = harness.exchange(std::string_view(input).substr(at, part));
      ASSERT_EQ(with, without) << input;
      at += part;
    }
    if (random.one_in(3)) harness.set_time(now_s += random.one_in(4) ? 100u : 2u);
  }
  expect_same_counters(harness);
}

TEST_P(LaneTest, AnswersAsTheGeneralPathDoes) {
  std::uint64_t in_lane = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    LaneHarness harness(GetParam());
    harness.output_bytes_max = seed % 4 == 1 ? 300 : std::size_t{1} << 20;
    compare(harness, random, seed % 4 == 3, seed % 2 == 0 ? 1000 : 15, seed % 5 == 4 ? 3 : 0);
    in_lane += harness.queries_of_lane;
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(in_lane, 10'000u);
}

TEST_P(LaneTest, NoMatterWhereTheInputIsCut) {
  const string line = "get k0 k1\r\nget aVeryLongKeyIndeed\r\nmg k2 v\r\nmg k3 v K\r\ngets k0\r\nget k1\r\n";
  for (std::size_t cut = 0; cut <= line.size(); ++cut) {
    LaneHarness harness(GetParam());
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

TEST_P(LaneTest, ManySegmentsEachWithItsPartOfTheOutput) {
  std::size_t bytes = 0, bytes_taken = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    Random random(seed);
    codec::ReplyHarness store, other;
    Lane lane(store.context(), store.options(), GetParam());
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
        input += random.one_in(30) ? "version\r\n" : get_of(random);
      if (random.one_in(10)) input += "get k";
      copies.push_back(padded(input));
      segments.push_back({.begin = copies.back().get(), .end = copies.back().get() + input.size(), .binary = false});
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
        replies[done + i].append(out.data() + left[i].output_begin, left[i].output_end - left[i].output_begin);
        left[i] = {.begin = left[i].rest, .end = left[i].end, .binary = false};
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
  codec::ReplyHarness store;
  Lane lane(store.context(), store.options(), GetParam());
  store.exchange("set a 0 0 1\r\nA\r\n");
  string input;
  for (int i = 0; i < 20; ++i) input += "get a\r\nmg a v\r\n";
  input += "get a b c\r\n";
  const auto copy = padded(input);
  for (const bool timed : {false, true}) {
    LaneSegment segment{.begin = copy.get(), .end = copy.get() + input.size(), .binary = false};
    Output out;
    std::vector<std::string_view> keys;
    const TaskCounters& tasks = store.context().tasks;
    const std::uint64_t before = tasks.cycles[static_cast<std::size_t>(Task::parse)].get();
    EXPECT_EQ(lane.run({&segment, 1}, out, 1 << 20, timed, &keys), 1u);
    EXPECT_EQ(segment.queries, 43u);
    EXPECT_EQ(segment.commands[static_cast<std::size_t>(LaneCommand::get)], 21u);
    EXPECT_EQ(segment.commands[static_cast<std::size_t>(LaneCommand::meta_get)], 20u);
    EXPECT_EQ(keys.size(), 43u);
    EXPECT_EQ(tasks.cycles[static_cast<std::size_t>(Task::parse)].get() > before, timed);
  }
}

TEST_P(LaneTest, TimesItsTasksInASampleOfTheRuns) {
  codec::ReplyHarness store;
  Lane lane(store.context(), store.options(), GetParam());
  const auto copy = padded("get a\r\n");
  const TaskCounters& tasks = store.context().tasks;
  for (int i = 0; i < 200; ++i) {
    LaneSegment segment{.begin = copy.get(), .end = copy.get() + 7, .binary = false};
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
}

INSTANTIATE_TEST_SUITE_P(Instructions, LaneTest, testing::Values("scalar", "avx2", "avx512", "avx512-vaes", "neon"),
                         [](const auto& i) {
                           string name = i.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Lane, RefusesUnknownInstructions) {
  codec::ReplyHarness store;
  EXPECT_THROW(Lane(store.context(), store.options(), "mmx"), std::invalid_argument);
}

}  // namespace
}  // namespace tandem
