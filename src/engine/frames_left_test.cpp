// What becomes of a device's replies behind requests that the lane does not answer as usual.
#include <gtest/gtest.h>

#include <string>

#include "engine/frames_harness.hpp"
#include "engine/lane_input_fixture.hpp"

namespace tandem {
namespace {

using namespace lane_test;             // NOLINT(google-build-using-namespace): the test's own
using namespace std::string_literals;  // NOLINT(google-build-using-namespace): s

// The lane meets an expired item only when it executes the read: it answers that, and goes on with the device's
// answers.
TEST(Frames, AnswerBehindAnItemThatHasExpired) {
  FramesHarness harness;
  constexpr std::uint32_t life_s = 10;
  harness.exchange(set_line("short", "v", "0 10") + set_line("x", "v") + set_line("y", "v"));
  harness.set_time(codec::ReplyHarness::start_s + life_s + 1);
  const std::uint64_t before = harness.keys_of_device;
  const auto [with, without] =
      harness.exchange("get y\r\nget short\r\nget y\r\n" + set_line("x", "new") + "get y\r\nmg y h\r\n");
  EXPECT_EQ(with, without);
  EXPECT_EQ(harness.keys_of_device - before, 3u);
}

// It leaves a set for which there is no slot: what the device has answered behind that is dropped.
TEST(Frames, AnswerNothingBehindWhereTheLaneStops) {
  EngineOptions engine = codec::ReplyHarness::small_engine();
  engine.memory_bytes = std::uint64_t{8} << 20;
  engine.evict = false;
  FramesHarness harness({}, engine);
  harness.exchange(set_line("y", "v"));
  const std::string value(9000, 'v'), full = "SERVER_ERROR out of memory storing object\r\n";
  bool is_full = false;
  for (int i = 0; i < 5000 && !is_full; ++i) {
    const auto [with, without] = harness.exchange(set_line("k" + std::to_string(i), value));
    is_full = with == full && without == full;
  }
  ASSERT_TRUE(is_full);
  const std::uint64_t before = harness.keys_of_device;
  const auto [with, without] = harness.exchange("get y\r\n" + set_line("new", value) + "get y\r\nmg y v\r\n");
  EXPECT_EQ(with, without);
  EXPECT_NE(with.find(full), std::string::npos);
  EXPECT_EQ(harness.keys_of_device - before, 1u);
}

// Rows among what the device has answered: one request in ten, of other keys, or without a key.
TEST(Frames, AnswerBehindRowsOfOtherKeys) {
  FramesHarness harness;
  harness.exchange(set_line("x", "1") + set_line("y", "v"));
  std::string input;
  std::size_t gets = 0;
  for (const std::string& row : {"mg x T0 v\r\n"s, "touch x 0\r\n"s, "mn\r\n"s, "nonsense\r\n"s, "incr x 1\r\n"s,
                                 "gat 0 x x\r\n"s, "append x 0 0 18\r\n1\r\nget y\r\nmg y v\r\n\r\n"s}) {
    for (int i = 0; i < 9; ++i, ++gets) input += i % 2 == 0 ? "get y\r\n" : "mg y v\r\n";
    input += row;
  }
  const std::uint64_t before = harness.keys_of_device;
  const auto [with, without] = harness.exchange(input);
  EXPECT_EQ(with, without);
  EXPECT_EQ(harness.keys_of_device - before, gets);
}

// Behind a row of its key a read is the host's. The row notes the key as it is stored: on the line it may be encoded.
TEST(Frames, AnswerNothingBehindARowOfTheirKey) {
  FramesHarness harness;
  for (const std::string& row : {"incr abc 1\r\n"s, "ms YWJj 1 b\r\n7\r\n"s, "touch abc 1\r\n"s, "gat 0 other abc\r\n"s,
                                 "md YWJj b q\r\n"s, "me abc\r\n"s}) {
    SCOPED_TRACE(row);
    harness.exchange(set_line("abc", "1") + set_line("other", "2"));
    const std::uint64_t before = harness.keys_of_device;
    const auto [with, without] = harness.exchange("get y\r\n" + row + "get abc\r\n");
    EXPECT_EQ(with, without);
    EXPECT_EQ(harness.keys_of_device - before, 1u);
  }
}

}  // namespace
}  // namespace tandem
