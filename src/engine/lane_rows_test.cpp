// Rows of the lane: commands without a plain form. Their replies are the general path's, to the byte, and so are the
// counters.
#include <gtest/gtest.h>

#include <string>

#include "engine/lane_input_fixture.hpp"
#include "lane/lane.hpp"

namespace tandem {
namespace {

using std::string;
using namespace lane_test;  // NOLINT(google-build-using-namespace): the test's own

class LaneRowsTest : public OnEachLane {};

// Every second command is a row: between cuts, in runs that end where the output is full, beside sets that are
// deferred.
TEST_P(LaneRowsTest, TakesRowsInTheirTurn) {
  constexpr unsigned seeds = is_sanitized ? 12 : 48;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(1000 + seed);
    LaneHarness harness(instructions(), {}, engine_options());
    harness.output_bytes_max = seed % 3 == 1 ? 200 : std::size_t{1} << 20;
    const Mix mix{2, 50, seed % 2 == 0 ? 5u : 40u};
    compare(harness, random, seed % 6 == 5, mix, seed % 8 == 7 ? 2 : 0);
    EXPECT_GT(harness.rows_of_lane, 100u);
    if (HasFatalFailure()) return;
  }
}

// A row leaves nothing to the general path, whatever it is answered with, and whatever follows.
TEST_P(LaneRowsTest, AnswersRowsToTheEnd) {
  codec::ReplyHarness store({}, engine_options()), other({}, engine_options());
  Lane lane(store.context(), store.options(), instructions());
  Parser parser(store.options(), store.engine().shared().clock);
  const string long_value(20'000, 'v'), longer_value(40'000, 'w');
  const string filled = set_line("a", "1") + set_line("b", "22", "0 5") + set_line("long", long_value) +
                        set_line("longer", longer_value) + set_line("stale", "3") + "md stale I\r\n";
  EXPECT_EQ(store.exchange(filled), other.exchange(filled));
  store.set_time(codec::ReplyHarness::start_s + 9);
  other.set_time(codec::ReplyHarness::start_s + 9);
  const string input =
      "get a b long stale\r\nmg b v\r\nget long\r\nmg long v K\r\ngets longer a\r\nmg stale v\r\nmg stale v K\r\n"
      "incr a 5\r\nget a\r\ngat 0 a b long a\r\nappend a 0 0 2\r\n77\r\nget a\r\nnonsense\r\n\r\nmn\r\nversion\r\n"
      "set a 0 0 3\r\nxyz!\r\nget a\r\nmg a s v\r\nme long\r\nme none\r\ndelete a noreply\r\nget a\r\n";
  const auto copy = padded(input);
  for (const bool timed : {false, true}) {
    LaneSegment segment{.begin = copy.get(), .end = copy.get() + input.size(), .parser = &parser, .binary = false};
    string replies;
    Output out;
    for (std::size_t runs = 0; !segment.is_answered(); ++runs) {
      ASSERT_LT(runs, 9u);
      lane.run({&segment, 1}, out, 30'000, timed);
      ASSERT_FALSE(segment.stopped);
      EXPECT_LT(out.size() + out.external_bytes(), 75'000u) << "it ends behind what fills it";
      replies += replies_of(segment, out, store.engine().shared().heap);
      out.clear();
      if (segment.rest == segment.end) break;
      segment.resume();
    }
    EXPECT_EQ(replies, other.exchange(input));
    expect_same_counters(store.context().counters, other.context().counters);
  }
}

TEST_P(LaneRowsTest, TakesStripsOfRowsWithoutKeys) {
  for (const bool defers : {false, true}) {
    LaneHarness harness(instructions(), {}, engine_options());
    if (defers) harness.lane().always_defer();
    harness.exchange(set_line("a", "1"));
    string input;
    for (const char* line : {"mn\r\n", "version\r\n", "\r\n", "nonsense\r\n", "mn\r\n"})
      for (int i = 0; i < 24; ++i) input += line;
    const auto [with, without] = harness.exchange(input + "get a\r\n");
    EXPECT_EQ(with, without);
    EXPECT_EQ(harness.rows_of_lane, 120u);
  }
}

// A row for which there is no slot is the general path's, and is counted there alone.
TEST_P(LaneRowsTest, CountsNoRowThatItLeaves) {
  EngineOptions engine = engine_options();
  engine.evict = false;
  engine.memory_bytes = std::uint64_t{8} << 20;
  codec::ReplyHarness store({}, engine);
  Lane lane(store.context(), store.options(), instructions());
  Parser parser(store.options(), store.engine().shared().clock);
  const string value(9000, 'v');
  string reply;
  for (int i = 0; i < 5000 && !reply.starts_with("SERVER_ERROR"); ++i)
    reply = store.exchange(set_line("k" + std::to_string(i), value));
  ASSERT_TRUE(reply.starts_with("SERVER_ERROR")) << reply;
  const string input = "add new 0 0 9000\r\n" + value + "\r\n";
  const auto copy = padded(input);
  const TaskCounters& tasks = store.context().tasks;
  const auto queries_of = [&](Task task) { return tasks.queries[static_cast<std::size_t>(task)].get(); };
  const std::uint64_t compared = queries_of(Task::key_compare), inserted = queries_of(Task::insert);
  for (int i = 0; i < 200; ++i) {
    LaneSegment segment{.begin = copy.get(), .end = copy.get() + input.size(), .parser = &parser, .binary = false};
    Output out;
    lane.run({&segment, 1}, out, 1 << 20, true);
    ASSERT_TRUE(segment.stopped);
    EXPECT_EQ(segment.rest, segment.begin);
    EXPECT_EQ(segment.rows, 0u);
  }
  EXPECT_EQ(queries_of(Task::key_compare), compared);
  EXPECT_EQ(queries_of(Task::insert), inserted);
}

INSTANTIATE_TEST_SUITE_P(All, LaneRowsTest, every_lane(), lane_name);

}  // namespace
}  // namespace tandem
