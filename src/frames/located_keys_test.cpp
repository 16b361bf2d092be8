// Which keys a device locates, and how a reader finds them.
#include "frames/located_keys.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "codec/ethernet_builder.hpp"
#include "frames/frames_rig.hpp"

namespace tandem {
namespace {

using std::string;

// What a reader that stands at the beginning of each line is told, and what of it is left.
string told(LocatedKeys& keys, const FramesRig& rig, std::uint64_t begin, std::uint64_t end) {
  string all;
  for (const char* at = rig.input.data() + begin; at < rig.input.data() + end;) {
    const auto* const line_end =
        static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(rig.input.data() + end - at)));
    if (line_end == nullptr) return all;
    if (keys.find(at, false)) {
      const LocatedKey* next = keys.next();
      bool is_last = false;
      for (; !is_last; ++next) {
        EXPECT_EQ(next->location, no_location);
        is_last = (next->kind & LocatedKey::last_of_line) != 0;
        all += ((next->kind & LocatedKey::continues) != 0     ? "+"
                : (next->kind & LocatedKey::begins_many) != 0 ? "*"
                                                              : "") +
               string(keys.key_of(*next), next->key_bytes) + std::to_string(next->kind & 7) + " ";
      }
      keys.pass(next);
    } else {
      all += "? ";
    }
    at = line_end + 1;
  }
  return all;
}

TEST(LocatedKeys, AreThoseOfPlainLines) {
  FramesRig rig(1 << 16);
  const string input =
      "get a\r\ngets bb ccc d\r\nmg e v\r\nmg e v k\r\nset x 0 0 7\r\nget y\r\n\r\nget z\r\nmg f v\r\nget  g\r\nget "
      "h\r\nms i 1 T0\r\nset j\r\nset  k 0 0 1\r\nms \r\nset l what follows\r\nset m 0 0 1";
  rig.put(128, input);
  ASSERT_TRUE(rig.columns.add_stream(128, input.size()));
  ASSERT_TRUE(rig.columns.add_datagram(1024, 20));
  rig.launch(FrameAnswers::locations);
  LocatedKeys keys(rig.columns, rig.input.data());
  keys.go_to(rig.input.data() + 128);
  EXPECT_EQ(told(keys, rig, 128, 128 + input.size()), "a0 *bb1 +ccc1 +d1 e2 ? x5 y0 ? z0 f2 ? h0 i6 ? ? ? l5 ");
  EXPECT_EQ(keys.next_line(), nullptr);
  EXPECT_EQ(rig.columns.keys(), 12u);
  // In the middle of a line, and behind what the reader has passed by itself.
  keys.go_to(rig.input.data() + 128);
  const char* const at = rig.input.data() + 128;
  EXPECT_TRUE(keys.find(at + input.find("ccc"), true));
  EXPECT_FALSE(keys.find(at + input.find("mg e v k"), false));
  EXPECT_EQ(keys.next_line(), at + input.find("set x"));
  EXPECT_TRUE(keys.find(at + input.find("get z"), false));
  EXPECT_FALSE(keys.find(at + input.size(), false));
}

TEST(LocatedKeys, AreFoundFromAnyTileOn) {
  FramesRig rig(1 << 18, 1 << 14);
  std::mt19937 random(4);
  std::vector<std::uint64_t> streams, lines;
  std::uint64_t at = 64;
  for (int stream = 0; stream < 300; ++stream) {
    string input;
    const std::size_t first = lines.size();
    for (auto n = 1 + random() % 40; n != 0; --n) {
      lines.push_back(at + input.size());
      input += random() % 9 != 0 ? "get key" + std::to_string(random() % 1000) + "\r\n" : "delete key\r\n";
    }
    rig.put(at, input);
    ASSERT_TRUE(rig.columns.add_stream(at, input.size())) << first;
    at = (at + input.size() + 63) / 64 * 64;
  }
  rig.launch(FrameAnswers::locations);
  LocatedKeys keys(rig.columns, rig.input.data());
  std::size_t found = 0;
  for (int round = 0; round < 300; ++round) {
    std::size_t i = random() % lines.size();
    keys.go_to(rig.input.data() + lines[i]);
    for (; i < lines.size(); i += 1 + random() % 3) {
      const char* const line = rig.input.data() + lines[i];
      ASSERT_EQ(keys.find(line, false), *line == 'g') << round << " " << i;
      if (*line == 'g') keys.pass(keys.next() + 1);
      found += *line == 'g' ? 1u : 0u;
    }
  }
  EXPECT_GT(found, 100'000u);
}

// Keys behind which a reader need not look for its place are marked by what they are not: behind a gap.
TEST(LocatedKeys, TellWhereLinesAreLeft) {
  FramesRig rig(1 << 16);
  const string input = "get a\r\nget b c\r\nset d 0 0 1\r\nv\r\nget e\r\nget f\r\nmn\r\nget g\r\n";
  rig.put(64, input);
  ASSERT_TRUE(rig.columns.add_stream(64, input.size()));
  rig.put(512, "\r\nv\r\n\r\n");
  ASSERT_TRUE(rig.columns.add_stream(512, 7));  // without keys
  rig.launch(FrameAnswers::locations);
  FrameColumns::Place place;
  const FrameRun* const run = rig.columns.next_run(place);
  ASSERT_NE(run, nullptr);
  ASSERT_EQ(run->begin, 64u);
  ASSERT_EQ(run->keys, 7u) << "one run for the piece";
  const auto* const keys = reinterpret_cast<const LocatedKey*>(rig.columns.reply(*run));
  string gaps;
  for (std::size_t i = 0; i < run->keys; ++i) {
    gaps += input[keys[i].at];
    if ((keys[i].kind & LocatedKey::behind_gap) != 0) gaps += '|';
  }
  EXPECT_EQ(gaps, "a|bcde|fg|");
  const FrameRun* const empty = rig.columns.next_run(place);
  ASSERT_NE(empty, nullptr);
  EXPECT_EQ(empty->keys, 0u);
  EXPECT_EQ(rig.columns.next_run(place), nullptr);
}

TEST(LocatedKeys, HaveNoRawFrames) {
  FramesRig rig(1 << 16);
  const string frame = ethernet::frame_of(string("\1\n\0\0\0\1\0\0", 8) + "get a\r\n");
  rig.put(64, frame);
  ASSERT_TRUE(rig.columns.add_frame(64, frame.size()));
  rig.launch(FrameAnswers::locations);
  EXPECT_EQ(rig.columns.keys(), 0u);
  FrameColumns::Place place;
  EXPECT_EQ(rig.columns.next_run(place), nullptr);
}

}  // namespace
}  // namespace tandem
