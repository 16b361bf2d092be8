// A device's replies to raw frames are frames, to the byte: the general path's reply behind headers and checksums that
// code of the test's own has written (codec/ethernet_builder.hpp). What is no plain request in a right frame is left.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "codec/ethernet_builder.hpp"
#include "engine/frames_harness.hpp"
#include "engine/lane_input_fixture.hpp"

namespace tandem {
namespace {

using lane_test::Random;
using std::string;

string message(std::string_view line, unsigned id = 0x1234, unsigned total = 1) {
  string all;
  for (const unsigned n : {id, 0u, total, 0u}) all.append({static_cast<char>(n >> 8), static_cast<char>(n & 0xff)});
  return all.append(line);
}
string raw(std::string_view line, unsigned id = 0x1234) { return ethernet::frame_of(message(line, id)); }

void store_item(FramesHarness& harness, const string& key, const string& value) {
  const string reply = "STORED\r\n";
  const auto stored = harness.exchange("set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n");
  ASSERT_EQ(stored.with, reply);
  ASSERT_EQ(stored.without, reply);
}

std::uint64_t left(const FramesHarness& harness, FrameLeft why) { return harness.left[static_cast<std::size_t>(why)]; }

TEST(RawFrames, AreAnsweredWholeOrNotAtAll) {
  FramesHarness harness;
  for (int i = 0; i < 16; ++i) store_item(harness, "key" + std::to_string(i), string(80, static_cast<char>('a' + i)));
  store_item(harness, "k", "v");
  store_item(harness, "long", string(3000, 'l'));
  const auto gets = [](int keys) {
    string line = "get";
    for (int i = 0; i < keys; ++i) line += " key" + std::to_string(i);
    return line + "\r\n";
  };
  const std::vector<string> answered = {
      "get k\r\n",       "mg k v\r\n", "mg none v\r\n", "mg k k f O7 v c\r\n",  "mg none k v\r\n",
      "gets k key1\r\n", gets(12),     "get none\r\n",  "gets none k none\r\n", "get " + string(240, 'm') + "\r\n"};
  const std::vector<string> not_answered = {"get k",
                                            "get k\n",
                                            "get k\r\nget k\r\n",
                                            "get k\r\nx",
                                            "\r\nget k\r\n",
                                            gets(14),
                                            "get long\r\n",
                                            "mg none v q\r\n",
                                            "mg k q v\r\n",
                                            "set k 0 0 1\r\nv\r\n",
                                            "",
                                            "\r\n",
                                            string("get k\0\r\n", 8),
                                            "get " + string(241, 'm') + "\r\n",
                                            "get " + string(300, 'm') + "\r\n",
                                            string(600, 'x') + "\r\n",
                                            "version\r\n"};
  std::vector<string> frames;
  unsigned id = 0xfff0;
  for (const string& line : answered) frames.push_back(raw(line, ++id));
  for (const string& line : not_answered) frames.push_back(raw(line));
  frames.push_back(ethernet::frame_of(message("get k\r\n", 1, 2)));
  frames.push_back(ethernet::frame_of("get k\r\n"));
  for (const std::size_t gap : {0u, 1u, 16u, 64u, 1000u}) {
    for (harness.skip = 0; harness.skip < frame_unit_bytes; ++harness.skip) {
      const std::vector<string> replies = harness.ask_raw(frames, gap);
      for (std::size_t i = 0; i < frames.size(); ++i) {
        const bool is_answered = i < answered.size();
        ASSERT_EQ(replies[i], is_answered ? harness.host_frame(frames[i]) : string()) << i << " " << gap;
        ASSERT_EQ(replies[i].empty(), !is_answered);
      }
    }
  }
  EXPECT_GT(left(harness, FrameLeft::length), 0u);
  EXPECT_GT(left(harness, FrameLeft::item), 0u);
  EXPECT_GT(left(harness, FrameLeft::other), 0u);
  EXPECT_EQ(left(harness, FrameLeft::checksum) + left(harness, FrameLeft::headers), 0u);
  EXPECT_EQ(harness.counters_with().cmd_get.get(), harness.counters_without().cmd_get.get());
  EXPECT_EQ(harness.counters_with().get_hits.get(), harness.counters_without().get_hits.get());
}

TEST(RawFrames, WithoutGapsAreOneRun) {
  FramesHarness harness;
  store_item(harness, "0123456789abcdef", "vv");
  const std::vector<string> frames(40, raw("get 0123456789abcdef\r\n"));
  ASSERT_EQ(frames[0].size(), 72u);
  const std::vector<string> replies = harness.ask_raw(frames);
  EXPECT_EQ(harness.runs_of_device, 1u);
  EXPECT_EQ(replies, std::vector<string>(40, harness.host_frame(frames[0])));
  EXPECT_EQ(replies[0].size(), 87u);
  EXPECT_EQ(harness.ask_raw(frames, 1), replies);
  EXPECT_EQ(harness.runs_of_device, 41u);
}

// Each bit of two neighbours is wrong in turn: no reply but where no checksum is over it, and the other frames have
// theirs.
TEST(RawFrames, WithAWrongBitAreNotAnswered) {
  FramesHarness harness;
  store_item(harness, "key", "value");
  const string good = raw("get key\r\n");
  std::uint64_t wrong_frames = 0;
  for (std::size_t byte = 0; byte < good.size(); ++byte) {
    std::vector<string> frames;
    for (unsigned bit = 0; bit < 8; ++bit) {
      frames.push_back(good);
      frames.push_back(good);
      frames.back()[byte] = static_cast<char>(good[byte] ^ (1 << bit));
    }
    const std::vector<string> replies = harness.ask_raw(frames);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const bool is_answered = ethernet::read_frame(frames[i].data(), static_cast<std::uint32_t>(good.size())).fault ==
                               ethernet::Fault::none;
      ASSERT_EQ(replies[i], is_answered ? harness.host_frame(frames[i]) : string()) << byte << " " << i;
      wrong_frames += is_answered ? 0u : 1u;
      ASSERT_EQ(is_answered, i % 2 == 0 || (byte < 12 && !(byte % 6 == 0 && i == 1))) << byte << " " << i;
    }
  }
  EXPECT_EQ(left(harness, FrameLeft::checksum) + left(harness, FrameLeft::headers) + left(harness, FrameLeft::other),
            wrong_frames);
  EXPECT_GE(left(harness, FrameLeft::checksum), (good.size() - 42) * 7) << "of the payload at least";
  EXPECT_EQ(harness.counters_with().device_left_checksum.get(), left(harness, FrameLeft::checksum));
  EXPECT_EQ(harness.counters_with().device_left_headers.get(), left(harness, FrameLeft::headers));
}

TEST(RawFrames, MayHaveNoUdpChecksumOrPadding) {
  FramesHarness harness;
  store_item(harness, "k", "v");
  string without = raw("get k\r\n");
  ethernet::put_big(without, 40, 0);
  const std::vector<string> frames = {without, raw("get k\r\n") + string(3, '\n'), raw("get k\r\n") + string(3, '\xff'),
                                      raw("get k\r\n") + string(40, ' ')};
  for (harness.skip = 0; harness.skip < frame_unit_bytes; ++harness.skip) {
    const std::vector<string> replies = harness.ask_raw(frames);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      ASSERT_EQ(replies[i], harness.host_frame(frames[i])) << i;
      ASSERT_FALSE(replies[i].empty());
    }
  }
}

TEST(RawFrames, ThatAreNotPlainUdpAreLeft) {
  FramesHarness harness;
  store_item(harness, "key", "value");
  const string good = raw("get key\r\n");
  std::vector<string> frames;
  const auto add = [&](std::size_t at, std::string_view bytes) {
    frames.push_back(good);
    frames.back().replace(at, bytes.size(), bytes);
    ethernet::seal(frames.back());
  };
  add(12, "\x86\xdd");
  add(14, "\x46");
  add(14, "\x4f");
  add(20, std::string_view("\x20\0", 2));
  add(20, std::string_view("\0\x01", 2));
  add(23, "\x06");
  add(0, "\xff");
  add(26, "\xe0");
  frames.push_back(good);
  frames.back().insert(12, std::string_view("\x81\0\0\x05", 4));
  for (std::size_t bytes = raw_frame_bytes_min; bytes < good.size(); ++bytes) frames.push_back(good.substr(0, bytes));
  for (const unsigned length : {0u, 19u, 27u, 28u, 36u, 0xffffu}) {
    frames.push_back(good);
    ethernet::put_big(frames.back(), 16, length);
  }
  for (const unsigned length : {0u, 7u, 8u, 16u, 100u, 0xffffu}) {
    frames.push_back(good);
    ethernet::put_big(frames.back(), 38, length);
  }
  for (harness.skip = 0; harness.skip < frame_unit_bytes; ++harness.skip) {
    const std::vector<string> replies = harness.ask_raw(frames);
    for (std::size_t i = 0; i < frames.size(); ++i) ASSERT_EQ(replies[i], "") << i;
  }
  EXPECT_GE(left(harness, FrameLeft::headers), (frames.size() - 6) * frame_unit_bytes);
}

// Replies of more bytes than a tile's window, which frames do not cross.
TEST(RawFrames, MayHaveLongReplies) {
  FramesHarness harness;
  string keys;
  for (int i = 0; i < 13; ++i) {
    const string key = "k" + std::to_string(i);
    store_item(harness, key, string(static_cast<std::size_t>(60 + 3 * i), static_cast<char>('a' + i)));
    keys += " " + key;
  }
  Random random(1);
  for (int round = 0; round < 60; ++round) {
    std::vector<string> frames;
    for (std::size_t bytes = 0; frames.size() < 200 && bytes < 16000; bytes += frames.back().size()) {
      string line = random.one_in(2) ? "get" : "gets";
      for (std::size_t n = 1 + random.below(round % 2 == 0 ? 13 : 3); n != 0; --n)
        line += " k" + std::to_string(random.below(14));
      frames.push_back(raw(line + "\r\n", static_cast<unsigned>(frames.size())) + string(random.below(3), 'p'));
    }
    harness.skip = random.below(frame_unit_bytes);
    const std::vector<string> replies = harness.ask_raw(frames);
    std::size_t answered = 0;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const string expected = harness.host_frame(frames[i]);
      ASSERT_EQ(replies[i], expected.size() <= 42 + 1400 ? expected : string()) << i;
      answered += replies[i].empty() ? 0u : 1u;
    }
    EXPECT_GT(answered, frames.size() / 2);
  }
}

// Bytes changed anywhere, also with checksums that are right again: the host's reply, or none.
TEST(RawFrames, AreAnsweredAsTheHostDoes) {
  FramesHarness harness;
  for (int i = 0; i < 10; ++i)
    store_item(harness, "k" + std::to_string(i), string(static_cast<std::size_t>(9 * i), 'v'));
  std::uint64_t answered = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    Random random(seed);
    std::vector<string> frames;
    while (frames.size() < 60) {
      string line = random.one_in(3) ? "gets" : "get";
      for (std::size_t n = 1 + random.below(3); n != 0; --n) line += " k" + std::to_string(random.below(12));
      if (random.one_in(4)) line = "mg k" + std::to_string(random.below(12)) + " v";
      string frame = raw(line + "\r\n", static_cast<unsigned>(random.below(0x10000)));
      for (std::size_t n = random.one_in(3) ? 1 + random.below(3) : 0; n != 0; --n)
        frame[random.below(frame.size())] =
            random.one_in(2) ? static_cast<char>(random.below(256)) : "\r\n k\0\x1"[random.below(6)];
      if (random.one_in(2) && ethernet::big(frame, 38) + 34u <= frame.size()) ethernet::seal(frame);
      frames.push_back(frame);
    }
    const std::vector<string> replies = harness.ask_raw(frames, random.one_in(2) ? 0 : random.below(40));
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if (replies[i].empty()) continue;
      ++answered;
      ASSERT_EQ(replies[i], harness.host_frame(frames[i]));
    }
  }
  EXPECT_GT(answered, 4000u);
}

}  // namespace
}  // namespace tandem
