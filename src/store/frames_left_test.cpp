// What becomes of a device's replies behind requests that the lane does not answer as usual.
#include <gtest/gtest.h>

#include <string>

#include "store/frames_harness.hpp"
#include "store/lane_input_fixture.hpp"

namespace tandem {
namespace {

using namespace lane_test;  // NOLINT(google-build-using-namespace): the test's own

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

}  // namespace
}  // namespace tandem
