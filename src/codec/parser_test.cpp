// Framing: all cuts of the input and all batch sizes give the same queries.
#include <gtest/gtest.h>

#include <string>

#include "codec/parse_harness.hpp"

namespace tandem::codec {
namespace {

using Queries = std::vector<std::string>;

ProtocolOptions small_options() {
  ProtocolOptions options;
  options.item_bytes_max = 4096;
  options.large_value_bytes = 16;
  return options;
}

Queries parse_whole(std::string_view input, const ProtocolOptions& options = small_options(),
                    std::uint32_t batch = 64) {
  ParseHarness harness(options, batch);
  harness.offer(input);
  return harness.queries;
}

const std::string long_key(251, 'k');
const std::string longest_key(250, 'k');
const std::string large_value(100, 'L');
const std::string too_large_value(5000, 'X');

// Pieces without after-effects; any sequence of them is a conversation.
const std::vector<std::string>& pieces() {
  static const std::vector<std::string> all = {
      "get a\r\n",
      "gets abc\r\n",
      "get a bb ccc dddd\r\n",
      "get " + longest_key + "\r\n",
      "get " + long_key + "\r\n",
      "get a " + long_key + " b\r\n",
      "get  two   spaces \r\n",
      "  get leading\r\n",
      "get a\n",
      "get a\tb c\x01\x7f\x80\r\n",
      std::string("get a\0b\r\n", 9),
      "gat 100 a b c\r\n",
      "gats -1 a\r\n",
      "gat x a\r\n",
      "gat 5 a\r\n",
      "gats 5 a noreply\r\n",
      "gat 0\r\n",
      "bget a b\r\n",
      "get\r\n",
      "set k 0 0 3\r\nabc\r\n",
      "set k 0 0 0\r\n\r\n",
      "set k 4294967295 100 3 noreply\r\nabc\r\n",
      "set k 0 0 3\nabc\r\n",
      "set k 0 0 3\r\n\r\n\n\r\n",
      "set k 0 0 16\r\nAAAAAAAAAAAAAAAA\r\n",
      "set k 0 0 17\r\nAAAAAAAAAAAAAAAAA\r\n",
      "set k 7 -5 100\r\n" + large_value + "\r\n",
      "add k 7 0 100 noreply\r\n" + large_value + "\r\n",
      "cas k 1 2 3 4\r\nabc\r\n",
      "append k 1 2 100\r\n" + large_value + "\r\n",
      "set k 0 0 5000\r\n" + too_large_value + "\r\n",
      "add k 0 0 5000 noreply\r\n" + too_large_value + "\r\n",
      "set k 0 0 3\r\nabcd\r\n",
      "set k 0 0 3 noreply\r\nabcd\r\n",
      "set k 0 0 100\r\n" + large_value + "xx",
      "set k 0 0 -1\r\n",
      "set k a 0 3\r\nabc\r\n",
      "replace k 0 0 2\r\nab\r\nprepend k 0 0 2\r\ncd\r\n",
      "delete k\r\n",
      "delete k 0 noreply\r\n",
      "delete k 5\r\n",
      "incr k 5\r\n",
      "decr k 18446744073709551615 noreply\r\n",
      "incr k x\r\n",
      "incr k 9999999999999999999\r\ndecr k 99999999999999999999\r\n",
      "cas k 1 2 3 18446744073709551615\r\nabc\r\n",
      "delete  k\r\n",
      "touch k 5 5\r\n",
      "touch k 100\r\n",
      "touch k 100 noreply\r\n",
      "mg k v\r\n",
      "mg k\r\n",
      "mg k t f c v s h l k q Oopaque T30 R60\r\n",
      "mg k N30 v T60 u\r\n",
      "mg Zm9v b k v\r\n",
      "mg k v v\r\n",
      "mg k O" + std::string(32, 'o') + "\r\n",
      "mg\r\n",
      "ms k 3\r\nabc\r\n",
      "ms k 3 T100 F5 c k Oo q\r\nabc\r\n",
      "ms Zm9v 100 b MA C5 I\r\n" + large_value + "\r\n",
      "ms k 3 MZ\r\nabc\r\n",
      "ms k 100 z\r\n" + large_value + "\r\n",
      "ms k 5000 q\r\n" + too_large_value + "\r\n",
      "ms k 3\r\nabcd\r\n",
      "ms k x\r\n",
      "md k q I T30 C9\r\n",
      "ma k N60 J13 D2 MD T30 v q\r\n",
      "me k\r\n",
      "me Zm9v b\r\n",
      "mn\r\n",
      "mn x\r\n",
      "\r\n",
      "\n",
      " \r\n",
      "x\r\n",
      "unknown command\r\n",
      "GET a\r\n",
      "version\r\n",
      "flush_all\r\n",
      "flush_all 10 noreply\r\n",
      "verbosity 1\r\n",
      "stats settings\r\n",
      "m\xffk v\r\n",
      "\x80\r\n",
  };
  return all;
}

std::string conversation() {
  std::string input;
  for (const std::string& piece : pieces()) input += piece;
  return input;
}

TEST(Parser, EveryCommandSplitAtEveryByte) {
  for (const std::string& piece : pieces()) {
    const std::string input = "mn\r\n" + piece + "mn\r\n";
    const Queries whole = parse_whole(input);
    ASSERT_FALSE(whole.empty());
    for (std::size_t at = 1; at < input.size(); ++at) {
      ParseHarness harness(small_options());
      harness.offer(std::string_view(input).substr(0, at));
      harness.offer(std::string_view(input).substr(at));
      ASSERT_EQ(harness.queries, whole) << "cut at " << at << " of " << piece.substr(0, 60);
      ASSERT_EQ(harness.kept_bytes(), 0u);
    }
  }
}

TEST(Parser, ByteByByte) {
  const std::string input = conversation();
  const Queries whole = parse_whole(input);
  ParseHarness harness(small_options());
  for (const char& byte : input) harness.offer({&byte, 1});
  EXPECT_EQ(harness.queries, whole);
  EXPECT_EQ(harness.kept_bytes(), 0u);
}

TEST(Parser, EveryBatchSize) {
  const std::string input = conversation();
  const Queries whole = parse_whole(input, small_options(), 4096);
  ASSERT_GT(whole.size(), pieces().size());
  for (std::uint32_t capacity = 1; capacity <= 70; ++capacity) {
    ASSERT_EQ(parse_whole(input, small_options(), capacity), whole) << "batch of " << capacity;
  }
}

TEST(Parser, MultigetOfAnyLengthThroughBatchesOfAnySize) {
  for (const std::uint32_t keys : {1u, 2u, 22u, 23u, 24u, 46u, 47u, 1000u}) {
    for (const char* command : {"get", "gets", "gat 5", "gats 5"}) {
      std::string input = command;
      for (std::uint32_t i = 0; i < keys; ++i) input += " key" + std::to_string(i);
      input += "\r\nmn\r\n";
      const Queries whole = parse_whole(input, small_options(), 2048);
      ASSERT_EQ(whole.size(), keys + 1);
      for (const std::uint32_t capacity : {1u, 2u, 3u, 23u, 128u}) {
        ASSERT_EQ(parse_whole(input, small_options(), capacity), whole) << keys << " keys, batch of " << capacity;
      }
      // A bad key ends the line with an error, however small the batch: the keys before it are looked up and say
      // nothing, those behind it are not looked up.
      input.insert(input.size() - 6, " " + long_key + " behind");
      const Queries refused = parse_whole(input, small_options(), 2048);
      ASSERT_EQ(refused.size(), keys + 2);
      ASSERT_NE(refused[keys].find("CLIENT_ERROR bad command line format"), std::string::npos);
      for (const std::uint32_t capacity : {1u, 2u, 23u, 64u}) {
        ASSERT_EQ(parse_whole(input, small_options(), capacity), refused) << keys << " keys, batch of " << capacity;
      }
    }
  }
}

TEST(Parser, LongMultigetInSmallPiecesTakesLinearTime) {
  // Quadratic work would be 2^43 steps here.
  std::string line = "get";
  while (line.size() < (1u << 22)) line += " 0123456789abcdef";
  line += "\r\n";
  const ProtocolOptions options = small_options();
  const Clock clock;
  Parser parser(options, clock);
  Batch batch(1024);
  std::size_t consumed = 0, keys = 0;
  for (std::size_t size = 1; size < line.size(); ++size) {
    ASSERT_EQ(parser.parse(line.data(), line.data() + size, batch, consumed), ParseStop::need_more);
    ASSERT_EQ(consumed, 0u);
  }
  const char* p = line.data();
  const char* const end = p + line.size();
  ParseStop stop = ParseStop::batch_full;
  while (stop == ParseStop::batch_full) {
    stop = parser.parse(p, end, batch, consumed);
    p += consumed;
    keys += batch.size();
    batch.clear();
  }
  EXPECT_EQ(stop, ParseStop::need_more);
  EXPECT_EQ(p, end);
  EXPECT_EQ(keys, (line.size() - 5) / 17);
}

TEST(Parser, LineLimits) {
  const auto closes = [](const std::string& input) {
    ParseHarness harness(ProtocolOptions{});
    harness.offer(input);
    return harness.closed();
  };
  EXPECT_FALSE(closes(std::string(2048, 'a')));
  EXPECT_TRUE(closes(std::string(2049, 'a')));
  EXPECT_FALSE(closes(std::string(5000, 'a') + "\r\n")) << "a long line that is there is only unknown";
  EXPECT_FALSE(closes("get " + std::string(5000, 'a')));
  EXPECT_FALSE(closes("gets " + std::string(5000, 'a')));
  EXPECT_TRUE(closes("gat 0 " + std::string(5000, 'a')));
  EXPECT_TRUE(closes("get\t" + std::string(5000, 'a')));
  EXPECT_FALSE(closes(std::string(100, ' ') + "get " + std::string(5000, 'a')));
  EXPECT_TRUE(closes(std::string(101, ' ') + "get " + std::string(5000, 'a')));
  EXPECT_TRUE(closes(std::string(5000, ' ')));
  ProtocolOptions options;
  options.multiget_line_bytes_max = 10000;
  for (const char* end : {"", "\r\n"}) {
    ParseHarness harness(options);
    harness.offer("get " + std::string(10001, 'a') + end);
    EXPECT_TRUE(harness.closed());
  }
}

TEST(Parser, Closes) {
  EXPECT_EQ(parse_whole("mn\r\nquit\r\nmn\r\n").size(), 2u);
  EXPECT_EQ(parse_whole("quit now\r\n").back(), "close");
  EXPECT_EQ(parse_whole(std::string("\x80\x00\x00", 3)), Queries{}) << "a packet of the binary protocol begins";
  EXPECT_NE(parse_whole("mn\r\n\x80\r\n").back(), "close") << "only a connection's first byte tells the protocol";
  EXPECT_EQ(parse_whole("GET / HTTP/1.1\r\n"), Queries{"close"});
  EXPECT_NE(parse_whole("stat HTTP/1.1\r\n").back(), "close");
}

TEST(Parser, RefusedLargeValueIsSwallowed) {
  for (const char* mode : {"set", "add", "append"}) {
    for (const char* no_reply : {"", " noreply"}) {
      const std::string input =
          std::string(mode) + " k 0 0 100" + no_reply + "\r\n" + large_value + "\r\nget after\r\n";
      ParseHarness harness(small_options());
      harness.refuses_large = true;
      for (std::size_t at = 0; at < input.size(); at += 10) harness.offer(std::string_view(input).substr(at, 10));
      const bool removes = std::string_view(mode) == "set";
      ASSERT_EQ(harness.queries.size(), 2u);
      EXPECT_NE(harness.queries.back().find("key[after]"), std::string::npos);
      EXPECT_NE(harness.queries[0].find("SERVER_ERROR out of memory storing object"), std::string::npos);
      EXPECT_EQ(harness.queries[0].find("key[k]") != std::string::npos, removes);
    }
  }
}

// A connection that cannot take answers: the parser returns to any query and parses again from there.
TEST(Parser, RewindToEveryQuery) {
  std::string input;
  for (const std::string& piece : pieces()) {
    if (piece.find(large_value) == std::string::npos) input += piece;
  }
  input += "get a b c d e f g h i j k l m n o p\r\ngat 7 a\tb c d\n";
  input.append("gets a b c\0 d\r\nget x\r\n", sizeof "gets a b c\0 d\r\nget x\r\n" - 1);
  const ProtocolOptions options = small_options();
  Clock clock;
  clock.freeze_for_test(1000);
  const auto parse_on = [&](Parser& parser, const char* p, std::uint32_t capacity, Queries& queries, Batch* kept) {
    Batch own(capacity);
    Batch& batch = kept != nullptr ? *kept : own;
    const char* const end = input.data() + input.size();
    for (;;) {
      std::size_t consumed = 0;
      const ParseStop stop = parser.parse(p, end, batch, consumed);
      for (std::uint32_t i = 0; i < batch.size(); ++i) {
        const Query& q = batch.query(i);
        queries.push_back(text_of(q, {q.value, q.opcode == Opcode::store ? q.value_bytes : 0}));
      }
      p += consumed;
      if (stop != ParseStop::batch_full) return;
      batch.clear();
    }
  };
  Queries whole;
  Parser first(options, clock);
  parse_on(first, input.data(), 4096, whole, nullptr);
  for (const std::uint32_t capacity : {4096u, 5u}) {
    for (std::uint32_t back_to = 0; back_to < whole.size(); ++back_to) {
      Parser parser(options, clock);
      // The batch that holds the query, then back to it.
      Batch batch(capacity);
      const char* p = input.data();
      std::uint32_t before = 0;
      for (;;) {
        std::size_t consumed = 0;
        parser.parse(p, input.data() + input.size(), batch, consumed);
        p += consumed;
        if (before + batch.size() > back_to) break;
        before += batch.size();
        batch.clear();
      }
      Queries again;
      parse_on(parser, parser.rewind(batch.query(back_to - before)), 3, again, nullptr);
      ASSERT_EQ(again, Queries(whole.begin() + back_to, whole.end())) << "back to " << whole[back_to];
    }
  }
}

TEST(Parser, WireIsTheRequestLine) {
  const std::string input = "mg abc v\r\nget a b\r\nset k 0 0 1\r\nx\r\nnonsense here\n";
  const ProtocolOptions options;
  const Clock clock;
  Parser parser(options, clock);
  Batch batch(16);
  std::size_t consumed = 0;
  parser.parse(input.data(), input.data() + input.size(), batch, consumed);
  const char* const expected[] = {"mg abc v", "get a b", "get a b", "set k 0 0 1", "nonsense here"};
  ASSERT_EQ(batch.size(), std::size(expected));
  for (std::uint32_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(std::string(batch.query(i).wire, batch.query(i).wire_bytes), expected[i]);
  }
}

}  // namespace
}  // namespace tandem::codec
