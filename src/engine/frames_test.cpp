// A device's replies to requests that it answers whole are the general path's, to the byte, and so are the counters.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/frames_harness.hpp"
#include "engine/lane_input_fixture.hpp"
#include "index/cuckoo/colliding_keys.hpp"
#include "index/set_associative/set_index.hpp"

namespace tandem {
namespace {

using std::string;
using namespace lane_test;  // NOLINT(google-build-using-namespace): the test's own

// What no device can answer as the item does: the time of its last access, which a mark does not carry.
string without_access_times(string input) {
  for (std::size_t at = 0; (at = input.find(" h l t", at)) != string::npos;) input.replace(at, 6, " h s t");
  return input;
}

string reads_of(Random& random, const Mix& mix, std::size_t lines) {
  string all;
  for (; lines != 0; --lines) {
    if (random.one_in(mix.one_odd_in)) {
      constexpr const char* odd[] = {"get \r\n",     "get\r\n",      "gets\r\n",    "mg \r\n",      "mg k0 v \r\n",
                                     "get k0\n",     "mg k0 v\n",    "get  k0\r\n", "get k0 \r\n",  "get k0\r\r\n",
                                     "mn\r\n",       "get k\t1\r\n", "gett k0\r\n", "mg k0  v\r\n", "mg k0 vv\r\n",
                                     "nonsense\r\n", "\r\n",         "\n"};
      all += random.of(odd);
    } else if (random.one_in(30)) {  // around the longest lines and keys, and the most keys
      all += "get";
      const std::size_t key_bytes = random.one_in(2) ? 236 + random.below(10) : 1 + random.below(40);
      for (std::size_t keys = 1 + random.below(18); keys != 0; --keys) all += " " + string(key_bytes, 'k');
      all += "\r\n";
    } else {
      all += get_of(random, mix);
    }
  }
  return all;
}

TEST(Frames, AnswerAsTheGeneralPathDoes) {
  constexpr std::size_t sets_percent[] = {2, 5, 50};
  constexpr unsigned seeds = is_sanitized ? 16 : 40;
  std::uint64_t keys = 0, hits = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    EngineOptions engine = codec::ReplyHarness::small_engine();
    if (seed % 7 == 6) engine.eviction = "s3-fifo";
    if (seed % 4 == 3) engine.index_kind = SetAssociativeIndex::kind;
    ProtocolOptions options;
    options.cas = seed % 5 != 0;
    FramesHarness harness(options, engine);
    const Mix mix{seed % 2 == 0 ? 1000u : 15u, sets_percent[seed % 3], seed % 8 < 2 ? 40u : 3u};
    compare_frames(harness, random, mix, seed % 5 == 4 ? 3 : 0,
                   [&] { return without_access_times(some_input(random, false, mix)); });
    keys += harness.keys_of_device;
    hits += harness.hits_of_device;
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(keys, 500u * seeds / 40);  // most streams soon have one that is left
  EXPECT_GT(hits, 300u * seeds / 40);
}

// Streams of several tiles, and what the device says about the requests behind those that it leaves.
TEST(Frames, AnswerReadsBehindThoseThatAreLeft) {
  std::uint64_t keys = 0, all = 0;
  for (unsigned seed = 0; seed < (is_sanitized ? 9u : 24u); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    ProtocolOptions options;
    options.cas = seed % 4 != 0;
    EngineOptions engine = codec::ReplyHarness::small_engine();
    if (seed % 3 == 2) engine.index_kind = SetAssociativeIndex::kind;
    FramesHarness harness(options, engine);
    const Mix mix{seed % 2 == 0 ? 10u : 100u, 0, 40};
    std::uint32_t now_s = codec::ReplyHarness::start_s;
    for (int round = 0; round < 6; ++round) {
      string sets;
      for (std::size_t i = 30; i != 0; --i) sets += set_of(random, mix);
      const auto stored = harness.exchange(sets);
      ASSERT_EQ(stored.with, stored.without) << sets;
      harness.skip = random.below(frame_unit_bytes);
      const string reads = reads_of(random, mix, random.one_in(3) ? 1 + random.below(8) : 1 + random.below(400));
      const auto [with, without] = harness.exchange_reads(reads);
      ASSERT_EQ(with, without) << reads;
      harness.set_time(now_s += random.one_in(4) ? 100u : 2u);
      if (harness.closed()) break;
    }
    expect_same_counters(harness);
    keys += harness.keys_of_device;
    all += harness.counters_with().cmd_get.get();
  }
  EXPECT_GT(keys, all / 4) << all;
}

// Whatever could be answered is.
TEST(Frames, LeaveNoPlainGetOfSmallItems) {
  FramesHarness harness;
  Random random(3);
  string sets, gets;
  std::uint64_t keys = 0;
  for (int i = 0; i < 200; ++i) {
    const string key = "key" + std::to_string(i), value(random.below(90), 'v');
    if (i % 4 != 3) sets += set_line(key, value, i % 3 == 0 ? "77 0" : "0 100");
  }
  harness.exchange(sets);
  for (int i = 0; i < 1200; ++i) {
    const auto key = [&] { return " key" + std::to_string(random.below(200)); };
    const std::size_t kind = random.below(4);
    if (kind == 0) {
      gets += "mg" + key() + " v\r\n";
      ++keys;
      continue;
    }
    gets += kind == 1 ? "gets" : "get";
    for (std::size_t n = kind == 2 ? 1 : 1 + random.below(16); n != 0; --n, ++keys) gets += key();
    gets += "\r\n";
    if (gets.size() < FramesHarness::arena_bytes - 2000) continue;
    break;
  }
  const auto [with, without] = harness.exchange(gets);
  EXPECT_EQ(with, without);
  // Tiles of very many keys leave some.
  EXPECT_GE(harness.keys_of_device * 10, keys * 9);
  EXPECT_GT(harness.hits_of_device, keys / 2);
  expect_same_counters(harness);
}

TEST(Frames, AnswerWholeLinesWhereverTheInputIsCut) {
  const string line = "get k0 k1\r\nget aVeryLongKeyIndeed\r\nmg k2 v\r\nmg k3 v\r\ngets k0\r\nget k1\r\n";
  FramesHarness harness;
  harness.exchange(
      "set k0 0 0 1\r\na\r\nset k1 3 0 2\r\nbb\r\nms k2 3\r\nccc\r\nset aVeryLongKeyIndeed 0 0 1\r\nd\r\n");
  std::size_t bytes = 0;
  for (std::size_t cut = 0; cut <= line.size(); ++cut) {
    for (const std::size_t skip : {std::size_t{0}, cut % frame_unit_bytes}) {
      harness.skip = skip;
      const std::uint64_t before = harness.lines_of_device;
      const auto first = harness.exchange(line.substr(0, cut));
      ASSERT_EQ(first.with, first.without) << cut;
      const auto second = harness.exchange(line.substr(cut));
      ASSERT_EQ(second.with, second.without) << cut;
      if (cut == 0) bytes = second.with.size();
      EXPECT_EQ(first.with.size() + second.with.size(), bytes);
      if (cut == 0 || cut == line.size()) {
        EXPECT_EQ(harness.lines_of_device - before, 6u);
      }
    }
  }
}

// At every distance from the ends of pieces and tiles.
TEST(Frames, AnswerAcrossTheEndsOfTiles) {
  FramesHarness harness;
  harness.exchange(set_line("k", "value") + set_line("key", "other", "5 0"));
  for (std::size_t first = 7; first < 7 + 40; ++first) {
    string input = "get " + string(first - 6, 'x') + "\r\n";
    std::uint64_t lines = 1;
    for (std::size_t i = 0; input.size() < 3 * tile_bytes; ++i, ++lines)
      input += i % 3 == 0 ? "get k\r\n" : i % 3 == 1 ? "mg key v\r\n" : "gets key k aKeyThatIsNotThere\r\n";
    const std::uint64_t before = harness.lines_of_device;
    const auto [with, without] = harness.exchange(input);
    ASSERT_EQ(with, without) << first;
    EXPECT_EQ(harness.lines_of_device - before, lines);
  }
  expect_same_counters(harness);
}

TEST(Frames, AnswerLinesUpToTheirLimits) {
  FramesHarness harness;
  const auto lines_of = [&](const string& input) {
    const std::uint64_t before = harness.lines_of_device;
    const auto [with, without] = harness.exchange(input);
    EXPECT_EQ(with, without) << input;
    return harness.lines_of_device - before;
  };
  for (std::size_t n = 1; n <= 251; ++n) {
    const string key(n, 'k');
    if (n <= 250) harness.exchange(set_line(key, n % 2 == 0 ? "" : "v"));
    const bool small = Item::total_bytes(0, n, n % 2) <= 128 || n > 250;
    EXPECT_EQ(lines_of("get " + key + "\r\n"), n <= 240 && small ? 1u : 0u) << n;
    EXPECT_EQ(lines_of("mg " + key + " v\r\n"), n <= 240 && small ? 1u : 0u) << n;
    EXPECT_EQ(lines_of("gets " + string(n, 'm') + "\r\n"), n <= 240 ? 1u : 0u) << n;
  }
  for (std::size_t keys = 1; keys <= 18; ++keys) {
    string line = "gets";
    for (std::size_t i = 0; i < keys; ++i) line += " k";
    EXPECT_EQ(lines_of(line + "\r\n"), keys <= frame_line_keys_max ? 1u : 0u) << keys;
  }
  for (std::size_t length = 505; length <= 520; ++length) {
    const string line = "get " + string(240, 'm') + " " + string(240, 'n') + " " + string(length - 488, 'o') + "\r\n";
    ASSERT_EQ(line.size(), length);
    EXPECT_EQ(lines_of(line), length <= frame_line_bytes_max ? 1u : 0u) << length;
  }
  expect_same_counters(harness);
}

// Flags of `mg` that the item's copy can answer, in every order of up to three beside v; the rest is left.
TEST(Frames, AnswerFlagsOfMetaGets) {
  FramesHarness harness;
  harness.exchange(set_line("plain", "value") + set_line("flags", "v", "77 0") +
                   set_line("expires", "vv", "4294967295 50") + "ms YmluYXJ5 3 b\r\nabc\r\n");
  const auto lines_of = [&](const string& input) {
    const std::uint64_t before = harness.lines_of_device;
    const auto [with, without] = harness.exchange_reads(input);
    EXPECT_EQ(with, without) << input;
    return harness.lines_of_device - before;
  };
  const std::vector<string> flags = {
      "", " v", " k", " K", " f", " s", " c", " t", " q", " O12", " O" + string(31, 'o')};
  std::uint64_t answered = 0;
  for (const string& a : flags) {
    for (const string& b : flags) {
      for (const string& c : flags) {
        const string all = a + b + c;
        const auto times = [&](char flag) { return std::ranges::count(all, flag); };
        bool is_answered = times('v') == 1 && times('k') + times('K') <= 1 && times('O') <= 1;
        for (const char flag : {'f', 's', 'c', 't', 'q'}) is_answered = is_answered && times(flag) <= 1;
        string input;
        for (const char* key : {"plain", "flags", "expires", "none"}) input += "mg " + string(key) + all + "\r\n";
        ASSERT_EQ(lines_of(input), is_answered ? 4u : 0u) << all;
        answered += is_answered ? 4 : 0;
      }
    }
  }
  EXPECT_GT(answered, 1000u);
  EXPECT_EQ(lines_of("mg plain k f s c t O1 q v\r\nmg none k f s c t O1 v\r\nmg none t q v k\r\nmg plain v\r\n"), 4u);
  // Of a key that was stored in base64 the reply has that.
  EXPECT_EQ(lines_of("mg binary v\r\n"), 1u);
  for (const char* line :
       {"mg binary v k\r\n", "mg binary K v\r\n", "mg YmluYXJ5 b v k\r\n", "mg plain v l\r\n", "mg plain v h\r\n",
        "mg plain v u\r\n", "mg plain v T30\r\n", "mg none v N30\r\n", "mg plain vv\r\n", "mg plain v kk\r\n",
        "mg plain v  f\r\n", "mg plain v f \r\n", "mg plain v \r\n", "mg plain v;\r\n", "mg plain v \xf6\r\n",
        "mg plain v O\x01\r\n", "mg plain v f\n", "mg plain v E1\r\n"})
    EXPECT_EQ(lines_of(line), 0u) << line;
  EXPECT_EQ(lines_of("mg plain v O" + string(32, 'o') + "\r\n"), 0u) << "an opaque that is too long";
  expect_same_counters(harness);
}

// A set's value may look like requests: the host finds out where they begin.
TEST(Frames, DoNotTakeValuesForRequests) {
  FramesHarness harness;
  const string value = "x\r\nget k1\r\nmg k1 v\r\n",
               input = "get k1\r\n" + set_line("k1", value) + "get k1\r\nmg k1 v\r\n";
  for (std::size_t cut = 0; cut <= input.size(); ++cut) {
    const auto first = harness.exchange(input.substr(0, cut));
    ASSERT_EQ(first.with, first.without) << cut;
    const auto second = harness.exchange(input.substr(cut));
    ASSERT_EQ(second.with, second.without) << cut;
    harness.exchange("delete k1\r\n");
  }
  EXPECT_GT(harness.lines_of_device, input.size() / 2);
  expect_same_counters(harness);
}

TEST(Frames, KnowWhatIsOver) {
  FramesHarness harness;
  std::uint32_t now_s = codec::ReplyHarness::start_s;
  const string reads = "get short\r\nmg long v\r\ngets stays none\r\nget touched\r\nmg stale v\r\nget gone\r\n";
  const auto same = [&](const string& input) {
    const auto [with, without] = harness.exchange(input);
    EXPECT_EQ(with, without) << input;
    return with;
  };
  const string sets = set_line("short", "1", "0 3") + set_line("long", "2", "0 50") + set_line("stays", "3") +
                      set_line("touched", "4", "0 3") + set_line("stale", "5") + set_line("gone", "6");
  same(sets + reads);
  for (int s = 0; s < 5; ++s) {
    same(reads);
    EXPECT_EQ(same("get short\r\n"), s < 3 ? "VALUE short 0 1\r\n1\r\nEND\r\n" : "END\r\n") << s;
    if (s == 1) same("touch touched 100\r\nmd stale I T30\r\ndelete gone\r\n");
    harness.set_time(++now_s);
  }
  const std::uint64_t hits = harness.hits_of_device;
  same("get long\r\n");
  EXPECT_EQ(harness.hits_of_device, hits + 1);
  // The host would remove what it finds flushed: the device is asked first.
  same("flush_all\r\n");
  EXPECT_EQ(same("get stays\r\n"), "END\r\n");
  EXPECT_EQ(harness.hits_of_device, hits + 1) << "flushed";
  same(reads);
  same(sets);
  EXPECT_EQ(same("get stays\r\n"), "VALUE stays 0 1\r\n3\r\nEND\r\n");
  EXPECT_EQ(harness.hits_of_device, hits + 2);
  expect_same_counters(harness);
}

// One finds the other's item.
TEST(Frames, CompareWholeKeys) {
  EngineOptions engine = codec::ReplyHarness::small_engine();
  engine.item_bytes_expected = 1 << 20;
  std::vector<CollidingKeys> pairs = colliding_keys(engine.hash_seed, 6);
  std::erase_if(pairs, [](const CollidingKeys& keys) { return keys.a.size() != keys.b.size(); });
  ASSERT_FALSE(pairs.empty());
  FramesHarness harness({}, engine);
  for (const auto& [a, b] : pairs) {
    harness.exchange(set_line(a, "of a"));
    const auto [with, without] = harness.exchange("get " + a + "\r\nget " + b + "\r\nmg " + b + " v\r\n");
    EXPECT_EQ(with, without);
    EXPECT_EQ(with, "VALUE " + a + " 0 4\r\nof a\r\nEND\r\nEND\r\nEN\r\n");
  }
  EXPECT_EQ(harness.hits_of_device, pairs.size());
  EXPECT_GE(harness.left[static_cast<std::size_t>(FrameLeft::item)], 2 * pairs.size());
}

// An item that only a device has read counts as read: it was hit before, and the next item in its place was not.
TEST(Frames, MarkWhatTheyRead) {
  FramesHarness harness;
  for (int round = 0; round < 50; ++round) {
    const string key = "key" + std::to_string(round % 3);
    const auto stored = harness.exchange(set_line(key, std::to_string(round)) + "mg " + key + " h\r\n");
    ASSERT_EQ(stored.with, "STORED\r\nHD h0\r\n");
    harness.exchange(set_line(key, std::to_string(round)));
    const std::uint64_t before = harness.hits_of_device;
    harness.exchange("get " + key + "\r\n");
    EXPECT_EQ(harness.hits_of_device, before + 1);
    const auto [with, without] = harness.exchange("mg " + key + " h\r\n");
    EXPECT_EQ(with, without);
    EXPECT_EQ(with, "HD h1\r\n");
  }
}

// What stands behind a line that is left, or in a set's value, counts as read when the host reads it, if it does.
TEST(Frames, MarkNothingThatIsNotTheirs) {
  FramesHarness harness;
  harness.exchange(set_line("key", "1") + set_line("other", "1"));
  const auto [with, without] = harness.exchange("mg key h\r\nget key\r\nmg key h\r\n");
  EXPECT_EQ(with, without);
  EXPECT_TRUE(with.starts_with("HD h0\r\n")) << with;
  const auto in_value = harness.exchange(set_line("key", "\r\nget other\r\n") + "mg other h\r\n");
  EXPECT_EQ(in_value.with, in_value.without);
  EXPECT_TRUE(in_value.with.ends_with("HD h0\r\n")) << in_value.with;
}

// --- behind what a device leaves

// A device answers reads behind the requests that the lane executes, unless they are of the same keys.
TEST(Frames, AnswerBehindSetsOfOtherKeys) {
  struct Case {
    const char* what;
    string input;
    std::uint64_t keys;  // that the device answers
  };
  const string set = set_line("x", "new");
  const Case cases[] = {
      {"reads ahead of and behind a set", "get y\r\n" + set + "get z\r\nmg y v\r\n", 3},
      {"two sets", set + "get y\r\n" + set_line("w", "new") + "get z\r\nget y\r\n", 3},
      {"a set of the same key", set + "get y\r\nget x\r\nget z\r\n", 0},
      {"ahead of it", "get x\r\n" + set + "get y\r\n", 2},
      {"its key in another's", set + "get xy\r\nget y\r\n", 2},
      {"behind reads of the set's key", set + "get x\r\n" + set_line("w", "new") + "get z\r\n", 1},
      {"a key that was read with the set's", set + "get x\r\nget y\r\n" + set_line("w", "new") + "get y\r\n", 0},
      {"the set's key behind another one", set + "get y x\r\n" + set_line("w", "new") + "mg x v k\r\nget z\r\n", 0},
      {"flags that are the set's key", set_line("k", "new") + "mg x v k\r\nget z\r\n", 2},
      {"a later set of the same key", "get y\r\n" + set + "get z\r\n" + set_line("y", "new") + "get y\r\nget z\r\n", 2},
      {"meta set", "ms x 3 T0\r\nnew\r\nget y\r\n", 1},
      {"no reply", "set x 0 0 3 noreply\r\nnew\r\nget y\r\n", 1},
      {"requests in a value", set_line("x", "\r\nget z\r\nget y\r\n") + "get y\r\n", 1},
      {"a value that reads like the request behind it", set_line("x", "get y") + "get y\r\n", 0},
      {"a delete between", set + "delete w\r\nget y\r\n", 1},
      {"another command at the end", set + "get y\r\nmn\r\n", 1},
      {"an incomplete value", "get y\r\nset x 0 0 30\r\nget y\r\nget z\r\n", 1},
      {"a read that the device leaves, of the same key", "gets " + string(245, 'k') + " y\r\nget z\r\nget y\r\n", 0},
      {"several keys", "get " + string(245, 'k') + " y\r\nget z w\r\n", 2},
      {"many sets",
       [&] {
         string many;
         for (int i = 0; i < 40; ++i) many += set_line("x" + std::to_string(i), "new") + "get y\r\n";
         return many;
       }(),
       40},
      {"many reads of the set's key",
       [&] {
         string many = set;
         for (int i = 0; i < 12; ++i) many += "get x\r\n" + set_line("w", "new");
         return many + "get y\r\n";
       }(),
       0},
  };
  for (const Case& c : cases) {
    FramesHarness harness;
    for (const char* key : {"x", "y", "z", "w", "xy"}) harness.exchange(set_line(key, "old"));
    const std::uint64_t before = harness.keys_of_device;
    const auto [with, without] = harness.exchange(c.input);
    EXPECT_EQ(with, without) << c.what;
    EXPECT_EQ(harness.keys_of_device - before, c.keys) << c.what;
    EXPECT_EQ(harness.counters_with().cmd_get.get(), harness.counters_without().cmd_get.get()) << c.what;
    EXPECT_EQ(harness.counters_with().get_hits.get(), harness.counters_without().get_hits.get()) << c.what;
  }
}

// The lane's run ends in a stream after it has read on in later ones, at any place: what it has executed ahead counts.
TEST(Frames, AnswerNothingBehindASetThatAnEarlierRunExecuted) {
  for (const std::size_t output_bytes : {1u, 200u}) {
    for (std::size_t between = 0; between < 36; ++between) {
      FramesHarness harness;
      harness.output_bytes = output_bytes;
      std::vector<string> streams(4);
      for (std::size_t i = 0; i < streams.size(); ++i) {
        const string x = "x" + std::to_string(i), w = "w" + std::to_string(i);
        harness.exchange(set_line(x, "old") + set_line("y", "old"));
        streams[i] = set_line(x, "new");
        for (std::size_t n = 0; n < between; ++n) streams[i] += "get y\r\n" + set_line(w, "new");
        streams[i] += "get y\r\nget " + x + "\r\n" + set_line(w, "last") + "get " + x + "\r\n";
      }
      const auto answers = harness.exchange_streams(streams);
      for (std::size_t i = 0; i < streams.size(); ++i)
        ASSERT_EQ(answers[i].with, answers[i].without) << output_bytes << " " << between << " " << i;
      expect_same_counters(harness);
    }
  }
}

// Replies that are lent count towards what ends a run of the lane, so that the first client does not wait for the last.
TEST(Frames, FillTheOutputWithWhatTheyLend) {
  FramesHarness harness;
  harness.exchange(set_line("y", string(300, 'v')));
  string input;
  constexpr unsigned rounds = 40;
  for (unsigned i = 0; i < rounds; ++i) {
    input += set_line("w", "new");
    for (int n = 0; n < 8; ++n) input += "get y\r\n";
  }
  const unsigned before = harness.runs_of_lane();
  const auto [with, without] = harness.exchange(input);
  EXPECT_EQ(with, without);
  EXPECT_GE(harness.runs_of_lane() - before, rounds / 2);
}

// A stream with more executed keys than are noted is the host's from there on, and the next one is not.
TEST(Frames, AnswerNothingBehindTooManyExecutedKeys) {
  for (const std::size_t sets : {LeftKeys::keys_max / 2, LeftKeys::keys_max + 1}) {
    FramesHarness harness;
    harness.exchange(set_line("y", "old"));
    string input;
    for (std::size_t i = 0; i < sets; ++i) input += "ms k" + std::to_string(i) + " 1\r\nv\r\n";
    const auto [with, without] = harness.exchange(input + "get y\r\n" + set_line("w", "new") + "get y\r\n");
    EXPECT_TRUE(with == without) << sets;
    EXPECT_EQ(harness.keys_of_device, sets < LeftKeys::keys_max ? 2u : 0u);
    harness.exchange(set_line("w", "new") + "get y\r\n");
    EXPECT_EQ(harness.keys_of_device, sets < LeftKeys::keys_max ? 3u : 1u);
  }
}

// --- datagrams

string datagram(std::string_view line, unsigned id = 0x1234, unsigned total = 1, unsigned sequence = 0) {
  string all;
  for (const unsigned n : {id, sequence, total, 0u})
    all.append({static_cast<char>(n >> 8), static_cast<char>(n & 0xff)});
  return all.append(line);
}

TEST(Frames, AnswerDatagramsWholeOrNotAtAll) {
  FramesHarness harness;
  string sets;
  for (int i = 0; i < 16; ++i) sets += set_line("key" + std::to_string(i), string(80, static_cast<char>('a' + i)));
  harness.exchange(sets + set_line("k", "v") + set_line("long", string(3000, 'l')));
  const auto gets = [](int keys) {
    string line = "get";
    for (int i = 0; i < keys; ++i) line += " key" + std::to_string(i);
    return line + "\r\n";
  };
  const std::vector<string> answered = {"get k\r\n",
                                        "mg k v\r\n",
                                        "mg none v\r\n",
                                        "mg k k f O7 v c\r\n",
                                        "mg none k v\r\n",
                                        "gets k key1\r\n",
                                        gets(12),
                                        gets(1),
                                        "get none\r\n",
                                        "gets none k none\r\n",
                                        "get key1 key1\r\n",
                                        "mg key3 v\r\n",
                                        "get " + string(240, 'm') + "\r\n"};
  const std::vector<string> left = {"get k",
                                    "get k\n",
                                    "get k\r\nget k\r\n",
                                    "get k\r\nx",
                                    "get k\r\n\r\n",
                                    "\r\nget k\r\n",
                                    gets(14),
                                    "get long\r\n",
                                    "get k long\r\n",
                                    "mg none v q\r\n",
                                    "set k 0 0 1\r\nv\r\n",
                                    "",
                                    "\r\n",
                                    string("get k\0\r\n", 8),
                                    string(7, '\0'),
                                    string(300, '\0'),
                                    "get " + string(241, 'm') + "\r\n",
                                    "version\r\n"};
  std::vector<string> datagrams;
  unsigned id = 0;
  for (const string& line : answered) datagrams.push_back(datagram(line, 0xfff0 + ++id));
  for (const string& line : left) datagrams.push_back(datagram(line));
  for (const unsigned total : {0u, 2u, 0x100u, 0x101u}) datagrams.push_back(datagram("get k\r\n", 1, total));
  for (const string& part : {string("get k\r\n"), string(8, '\0'), string(1, '\0')}) datagrams.push_back(part);
  for (std::size_t skip = 0; skip < 3; ++skip) {
    const std::vector<string> replies = harness.ask(datagrams);
    id = 0;
    for (std::size_t i = 0; i < datagrams.size(); ++i) {
      const bool is_answered = i < answered.size();
      ASSERT_EQ(replies[i], is_answered ? datagram(harness.ask_host(answered[i]), 0xfff0 + ++id) : string())
          << i << " " << datagrams[i];
    }
    datagrams.insert(datagrams.begin() + static_cast<std::ptrdiff_t>(answered.size()), string(5, 'x'));
  }
  EXPECT_EQ(harness.counters_with().cmd_get.get(), harness.counters_without().cmd_get.get());
  EXPECT_EQ(harness.counters_with().get_hits.get(), harness.counters_without().get_hits.get());
  EXPECT_GT(harness.left[static_cast<std::size_t>(FrameLeft::length)], 0u);
  EXPECT_GT(harness.left[static_cast<std::size_t>(FrameLeft::item)], 0u);
}

// Whatever the request's number is, also where its bytes look like the end of a line.
TEST(Frames, AnswerDatagramsOfEveryNumber) {
  FramesHarness harness;
  harness.exchange(set_line("k", "v"));
  for (unsigned first = 0; first < 0x10000; first += 0x100) {
    std::vector<string> datagrams;
    for (unsigned id = first; id < first + 0x100; ++id) datagrams.push_back(datagram("get k\r\n", id));
    const std::vector<string> replies = harness.ask(datagrams);
    for (unsigned i = 0; i < 0x100; ++i)
      ASSERT_EQ(replies[i], datagram("VALUE k 0 1\r\nv\r\nEND\r\n", first + i)) << first + i;
  }
}

}  // namespace
}  // namespace tandem
