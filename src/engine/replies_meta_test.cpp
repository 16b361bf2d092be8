// The meta protocol's replies, byte for byte; the expected ones are memcached 1.6.18's.
#include <gtest/gtest.h>

#include <string>

#include "engine/lane_harness.hpp"
#include "engine/reply_expect.hpp"
#include "index/cuckoo/colliding_keys.hpp"

namespace tandem::codec {
namespace {

using std::string;

const string duplicate = "CLIENT_ERROR duplicate flag\r\n";
const string invalid = "CLIENT_ERROR invalid flag\r\n";
const string invalid_or_duplicate = "CLIENT_ERROR invalid or duplicate flag\r\n";
const string bad_token = "CLIENT_ERROR bad token in command line format\r\n";
const string bad_key = "CLIENT_ERROR error decoding key\r\n";
const string opaque_too_long = "CLIENT_ERROR opaque token too long\r\n";
const string longest_opaque = "O" + string(31, 'o');

// Like expect(), with each request in two parts.
void expect_in_parts(ReplyHarness& server, std::initializer_list<Exchange> exchanges) {
  for (const Exchange& e : exchanges) {
    EXPECT_EQ(server.exchange(e.request, e.request.size() / 2), e.reply) << "to " << e.request.substr(0, 80);
  }
}
string cas_of(ReplyHarness& server, const string& key) {
  const string reply = server.exchange("mg " + key + " c\r\n");
  return reply.substr(4, reply.size() - 6);
}

TEST(MetaReplies, Get) {
  ReplyHarness server;
  expect(server, {{"ms a 2 F7 T100\r\nab\r\n", "HD\r\n"},
                  {"mg a\r\n", "HD\r\n"},
                  {"mg a v\r\n", "VA 2\r\nab\r\n"},
                  {"mg a s t f k h\r\n", "HD s2 t100 f7 ka h1\r\n"},
                  {"mg a h k f t s v q\r\n", "VA 2 h1 ka f7 t100 s2\r\nab\r\n"},
                  {"mg a Oabc v k\r\n", "VA 2 Oabc ka\r\nab\r\n"},
                  {"mg a vfoo kfoo qfoo\r\n", "VA 2 ka\r\nab\r\n"},
                  {"mg a I Mx P L C5 D5 J5 F5\r\n", "HD\r\n"},
                  {"mg a Ppath Lpath v\r\n", "VA 2\r\nab\r\n"},
                  {"mg   a   v   t  \r\n", "VA 2 t100\r\nab\r\n"},
                  {"mg a v t\n", "VA 2 t100\r\nab\r\n"},
                  {string("mg a v\0 k\r\nmg a\0 v\r\nmg\0 a\r\n", 27), "VA 2\r\nab\r\nHD\r\nERROR\r\n"},
                  {"mg nosuch\r\n", "EN\r\n"},
                  {"mg nosuch s v t f c h l\r\n", "EN\r\n"},
                  {"mg nosuch k Oabc\r\n", "EN knosuch Oabc\r\n"},
                  {"mg nosuch q k Oabc\r\n", ""},
                  {"mg\r\nmg \r\n", "ERROR\r\nERROR\r\n"}});
  EXPECT_EQ(server.exchange("mg " + long_key + " v v\r\n"), bad_format);
  EXPECT_EQ(server.exchange("mg a " + longest_opaque + "\r\n"), "HD " + longest_opaque + "\r\n");
  for (const char* key : {"a", "nosuch"}) {
    for (const char* flags : {"", "q ", "T30 "}) {
      EXPECT_EQ(server.exchange(string("mg ") + key + " " + flags + longest_opaque + "o\r\n"), opaque_too_long);
    }
  }
  EXPECT_EQ(server.exchange("mg a t\r\n"), "HD t100\r\n") << "nothing of the refused line was done";
}

TEST(MetaReplies, GetWhoseKeyTheClientCompares) {
  ReplyHarness server;
  expect(server, {{"ms a 2 F7 T100\r\nab\r\n", "HD\r\n"},
                  {"mg a K\r\n", "HD ka\r\n"},
                  {"mg a v K\r\n", "VA 2 ka\r\nab\r\n"},
                  {"mg a K v\r\n", "VA 2 ka\r\nab\r\n"},
                  {"mg a Kfoo vfoo\r\n", "VA 2 ka\r\nab\r\n"},
                  {"mg a t K f Oabc v\r\n", "VA 2 t100 ka f7 Oabc\r\nab\r\n"},
                  {"mg a k K\r\nmg a K k v\r\n", "HD ka\r\nVA 2 ka\r\nab\r\n"},
                  {"mg a K K\r\n", duplicate},
                  {"mg a K T200 t\r\n", "HD ka t200\r\n"},
                  {"mg nosuch K\r\n", "EN knosuch\r\n"},
                  {"mg nosuch k K v\r\n", "EN knosuch\r\n"},
                  {"mg nosuch K v q\r\nmn\r\n", "MN\r\n"},
                  {"mg new K N30 v\r\n", "VA 0 knew W\r\n\r\n"},
                  {"ms YmE= 1 b\r\nx\r\n", "HD\r\n"},
                  {"mg YmE= b K v\r\n", "VA 1 kYmE= b\r\nx\r\n"},
                  {"mg ba v K\r\nmg ba v K\r\n", "VA 1 kYmE= b\r\nx\r\nVA 1 kYmE= b\r\nx\r\n"},
                  // Only mg has this flag.
                  {"ms a 1 K\r\nx\r\n", invalid},
                  {"md a K\r\n", invalid_or_duplicate},
                  {"ma a K\r\n", invalid_or_duplicate},
                  {"mg a v\r\n", "VA 2\r\nab\r\n"}});
}

TEST(MetaReplies, GetWhoseKeyTheClientComparesMayReturnAnother) {
  EngineOptions options = ReplyHarness::small_engine();
  options.item_bytes_expected = 1 << 20;  // the smallest index
  const CollidingKeys keys = colliding_keys(options.hash_seed, 1)[0];
  for (const string flags : {"", " F9"}) {
    LaneHarness stores({}, {}, options);
    const auto exchange = [&](const string& input) { return stores.exchange(input).with; };
    exchange("ms " + keys.a + " 1" + flags + "\r\na\r\nmg " + keys.a + "\r\n");
    exchange("ms " + keys.b + " 2\r\nbb\r\nmg " + keys.b + "\r\n");
    const string a = "VA 1 k" + keys.a + "\r\na\r\n", b = "VA 2 k" + keys.b + "\r\nbb\r\n";
    const auto ask = [&](const string& key, const string& f) { return exchange("mg " + key + " " + f + "\r\n"); };
    const string either = ask(keys.b, "v K");
    EXPECT_TRUE(either == a || either == b) << either;
    EXPECT_EQ(ask(keys.b, "v K s"), "VA 1 k" + keys.a + " s1\r\na\r\n") << "key and value of the other item";
    EXPECT_EQ(ask(keys.b, "v k"), b);
    EXPECT_EQ(ask(keys.b, "v"), "VA 2\r\nbb\r\n");
    EXPECT_EQ(ask(keys.a, "v K"), a);
    EXPECT_EQ(ask(keys.b, "v K T0"), b) << "what changes the item is exact";
    EXPECT_EQ(ask(keys.b, "v K N30"), b);
    EXPECT_EQ(ask(keys.b, "v K R30"), b);
    // Stale items and their tokens are exact, too.
    exchange("md " + keys.a + " I\r\n");
    EXPECT_EQ(ask(keys.b, "v K"), b);
    EXPECT_EQ(ask(keys.a, "v K"), "VA 1 k" + keys.a + " X W\r\na\r\n");
    EXPECT_EQ(ask(keys.b, "v K"), b);
  }
}

TEST(MetaReplies, HitAndAccess) {
  ReplyHarness server;
  expect(server, {{"ms a 1\r\nx\r\n", "HD\r\n"},
                  {"mg a h l u\r\n", "HD h0 l0\r\n"},
                  {"mg a h\r\n", "HD h0\r\n"},
                  {"mg a h\r\n", "HD h1\r\n"}});
  server.set_time(ReplyHarness::start_s + 10);
  EXPECT_EQ(server.exchange("mg a l u\r\n"), "HD l10\r\n");
}

TEST(MetaReplies, TimesToLive) {
  ReplyHarness server;
  expect(server, {{"ms a 1\r\nx\r\n", "HD\r\n"},
                  {"mg a t T30\r\n", "HD t-1\r\n"},
                  {"mg a t T60\r\n", "HD t30\r\n"},
                  {"mg a T90 t\r\n", "HD t90\r\n"},
                  {"mg a T0 t\r\n", "HD t-1\r\n"}});
  // With an expiry in the past it shows the wrapped difference, once.
  EXPECT_EQ(server.exchange("mg a T-1 v t\r\n"),
            "VA 1 t" + std::to_string(std::uint32_t{1} - ReplyHarness::start_s) + "\r\nx\r\n");
  EXPECT_EQ(server.exchange("mg a v\r\n"), "EN\r\n");
  EXPECT_EQ(server.exchange("ms a 1 T10\r\nx\r\n"), "HD\r\n");
  server.set_time(ReplyHarness::start_s + 4);
  EXPECT_EQ(server.exchange("mg a t\r\n"), "HD t6\r\n");
  server.set_time(ReplyHarness::start_s + 10);
  EXPECT_EQ(server.exchange("mg a t\r\n"), "EN\r\n");
}

TEST(MetaReplies, Recache) {
  ReplyHarness server;
  expect(server, {{"ms a 1 T100\r\nx\r\n", "HD\r\n"},
                  {"mg a R100\r\n", "HD\r\n"},
                  {"mg a R101 t\r\n", "HD t100 W\r\n"},
                  {"mg a R101 t\r\n", "HD t100 Z\r\n"},
                  {"mg a v\r\n", "VA 1 Z\r\nx\r\n"},
                  {"get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"},
                  {"ms a 1 T100\r\nx\r\n", "HD\r\n"},
                  {"mg a T30 R60 t\r\n", "HD t30 W\r\n"},
                  {"mg a T60 R30 t\r\n", "HD t60 Z\r\n"},
                  {"ms a 1\r\nx\r\n", "HD\r\n"},
                  {"mg a R1000 v\r\n", "VA 1\r\nx\r\n"},
                  {"ms a 1 T10\r\nx\r\n", "HD\r\n"},
                  {"mg a R0\r\nmg a R-1\r\nmg a R3000000\r\n", "HD\r\nHD\r\nHD\r\n"}});
}

TEST(MetaReplies, Vivify) {
  ReplyHarness server;
  expect(server, {{"mg a N30 t v f h l k s\r\n", "VA 0 t30 f0 h0 l0 ka s0 W\r\n\r\n"},
                  {"mg a N30 t v f k\r\n", "VA 0 t30 f0 ka Z\r\n\r\n"},
                  {"mg b t N30\r\n", "HD t-1 W\r\n"},
                  {"mg c T60 N30 t v\r\n", "VA 0 t30 W\r\n\r\n"},
                  {"mg d N30 T60 t v\r\n", "VA 0 t60 W\r\n\r\n"},
                  {"mg e N0 t\r\nmg e N0 t\r\n", "HD t-1 W\r\nHD t-1 Z\r\n"},
                  {"mg f q N0 k O1\r\n", "HD kf O1 W\r\n"},
                  {"mg g N-1\r\nmg g\r\n", "HD W\r\nEN\r\n"}});
}

TEST(MetaReplies, StaleAndWin) {
  ReplyHarness server;
  expect(server, {{"ms a 2 T100\r\nab\r\n", "HD\r\n"},
                  {"md a I T30 q\r\n", ""},
                  {"mg a v t\r\n", "VA 2 t30 X W\r\nab\r\n"},
                  {"mg a v t\r\n", "VA 2 t30 Z X\r\nab\r\n"},
                  {"get a\r\n", "VALUE a 0 2\r\nab\r\nEND\r\n"},
                  {"md a I k\r\n", "HD ka\r\n"},
                  {"mg a k\r\n", "HD ka X W\r\n"},
                  {"ms a 2\r\ncd\r\n", "HD\r\n"},
                  {"mg a v\r\n", "VA 2\r\ncd\r\n"},
                  {"ms a 2 C1 I\r\nef\r\n", "HD\r\n"},
                  {"mg a v\r\nmg a v\r\n", "VA 2 X W\r\nef\r\nVA 2 Z X\r\nef\r\n"},
                  {"ms a 2 C99999999 I\r\ngh\r\n", "EX\r\n"}});
}

TEST(MetaReplies, FlagErrors) {
  ReplyHarness server;
  const string bad_mode = "CLIENT_ERROR incorrect length for M token\r\n";
  expect(server, {{"mg a v v\r\n", duplicate},
                  {"mg a !\r\nmg a z\r\nmg a S1\r\nmg a E1\r\nmg a @\r\nmg a ~\r\n",
                   invalid + invalid + invalid + invalid + invalid + invalid},
                  {"mg a \x7f\r\nmg a \x80\r\nmg a \xff\r\n", duplicate + duplicate + duplicate},
                  {"mg a N\r\nmg a Nx\r\nmg a Tx\r\nmg a R\r\nmg a Cx\r\n",
                   bad_token + bad_token + bad_token + bad_token + bad_token},
                  {"mg a Tx z\r\n", invalid},
                  {"mg a Fx\r\nmg a F\r\n", bad_format + bad_format},
                  {"mg a Tx Fx\r\n", bad_token},
                  {"mg a M\r\nmg a Mxx\r\n", bad_mode + bad_mode},
                  {"mg a Jx\r\n", "CLIENT_ERROR invalid numeric initial value\r\n"},
                  {"mg a Dx\r\n", "CLIENT_ERROR invalid numeric delta value\r\n"},
                  {"mg a k s t c f v h u q l O P L I N0 T0 R0 F0\r\n", "CLIENT_ERROR options flags are too long\r\n"},
                  {"mg a k k k k k k k k k k k k k k k k k k k k k k k k k k k k\r\n",
                   "CLIENT_ERROR options flags are too long\r\n"}});
}

TEST(MetaReplies, SeventeenFlags) {
  ReplyHarness server;
  expect(server, {{"ms a 1\r\nx\r\n", "HD\r\n"},
                  {"mg a k s t f v h u q l O P L I M1 J1 D1 F1\r\n", "VA 1 ka s1 t-1 f0 h0 l0 O\r\nx\r\n"},
                  {"md a k s t f v h u q l O P L M1 J1 D1 F1 c\r\n", ""},
                  {"md a k s t f v h u q l O P L M1 J1 D1 F1 c I\r\n", "CLIENT_ERROR options flags too long\r\n"},
                  {"ms a 1 k s t f v h u q l O P L J1 D1 F1 c\r\nx\r\n", ""},
                  {"ms a 1 k s t f v h u q l O P L J1 D1 F1 c I\r\n", "CLIENT_ERROR options flags too long\r\n"},
                  {"ma a k s t f v h u q l O P L J1 D1 F1 c I T0\r\n", "CLIENT_ERROR options flags too long\r\n"}});
}

TEST(MetaReplies, Set) {
  ReplyHarness server;
  expect_in_parts(server, {{"ms a 2\r\nab\r\n", "HD\r\n"},
                           {"ms a 2 q\r\nab\r\n", ""},
                           {"ms a 2 ME k O1\r\nab\r\n", "NS ka O1\r\n"},
                           {"ms a 2 ME k O1 q c\r\nab\r\n", "NS ka O1 c0\r\n"},
                           {"ms nosuch 2 MR k O1 q c\r\nab\r\n", "NS knosuch O1 c0\r\n"},
                           {"ms nosuch 2 MA k O1 q\r\nab\r\n", "NS knosuch O1\r\n"},
                           {"ms nosuch 2 MP\r\nab\r\n", "NS\r\n"},
                           {"ms nosuch 2 C1 k c\r\nab\r\n", "NF knosuch c0\r\n"},
                           {"ms a 2 C1 k c O2\r\nab\r\n", "EX ka c0 O2\r\n"},
                           {"ms a 2 s v t f h l k F5 T10 O9 u\r\nab\r\n", "HD ka O9\r\n"},
                           {"mg a f t\r\n", "HD f5 t10\r\n"},
                           {"ms a 4294967298 k\r\ncd\r\n", "HD ka\r\n"},
                           {"ms a +2\tx k\r\ncd\r\n", "HD ka\r\n"},
                           {"ms a 2 MA\r\nef\r\nms a 2 MP\r\nab\r\nmg a v\r\n", "HD\r\nHD\r\nVA 6\r\nabcdef\r\n"},
                           {"ms a 2 MS\r\ngh\r\nms a 2 MR\r\nij\r\n", "HD\r\nHD\r\n"},
                           {"ms new 2 ME C1 k\r\ncd\r\n", "HD knew\r\n"}});
  const string cas = cas_of(server, "a");
  EXPECT_EQ(server.exchange("ms a 1 C" + cas + " k\r\nx\r\n"), "HD ka\r\n");
  EXPECT_EQ(server.exchange("ms a 1 C" + cas + "\r\nx\r\n"), "EX\r\n");
  const string reply = server.exchange("ms a 1 k c\r\nx\r\n");
  EXPECT_EQ(reply, "HD ka c" + cas_of(server, "a") + "\r\n");
  EXPECT_EQ(server.exchange("ms b 1 C0 c\r\nx\r\nms b 1 MA C0 c\r\nx\r\n"), "NF c0\r\nNS c0\r\n");
}

TEST(MetaReplies, SetErrors) {
  ReplyHarness server;
  const string bad_chunk = "CLIENT_ERROR bad data chunk\r\n";
  const string bad_mode = "CLIENT_ERROR invalid mode for ms M token\r\n";
  // A line with rejected flags still has its data block.
  expect_in_parts(server, {{"ms\r\nms \r\n", "ERROR\r\nERROR\r\n"},
                           {"ms a\r\n", bad_format},
                           {"ms a x\r\nms a S2\r\nms a -1\r\nms a 2147483646\r\n",
                            bad_format + bad_format + bad_format + bad_format},
                           {"ms a 2 z\r\nab\r\nmn\r\n", invalid + "MN\r\n"},
                           {"ms a 2 S2\r\nab\r\nmn\r\n", invalid + "MN\r\n"},
                           {"ms a 2 v v q\r\nab\r\nmn\r\n", duplicate + "MN\r\n"},
                           {"ms a 2 Cx\r\nab\r\nmn\r\n", bad_token + "MN\r\n"},
                           {"ms a 2 Fx\r\nab\r\nmn\r\n", bad_format + "MN\r\n"},
                           {"ms a 2 MZ\r\nab\r\nmn\r\n", bad_mode + "MN\r\n"},
                           {"ms !! 2 b\r\nab\r\nmn\r\n", bad_key + "MN\r\n"},
                           {"ms a 2 q\r\nabc\r\nmn\r\n", bad_chunk + "ERROR\r\nMN\r\n"},
                           {"ms a 2\r\nabc\r\nmn\r\n", bad_chunk + "ERROR\r\nMN\r\n"}});
  EXPECT_EQ(server.exchange("ms " + long_key + " 2\r\nmn\r\n"), bad_format + "MN\r\n");
  EXPECT_EQ(server.exchange("ms a 2 " + longest_opaque + "o q\r\nab\r\n"), opaque_too_long);
  EXPECT_EQ(server.exchange("ms a 2 " + longest_opaque + "o MZ\r\nab\r\n"), bad_mode);
  EXPECT_EQ(server.exchange("ms a 20000 z\r\n" + string(20000, 'x') + "\r\nmn\r\n"), invalid + "MN\r\n");
  EXPECT_EQ(server.exchange("mg a\r\n"), "EN\r\n");
}

TEST(MetaReplies, Delete) {
  ReplyHarness server;
  expect(server, {{"md\r\n", "ERROR\r\n"},
                  {"md nosuch\r\nmd nosuch q\r\n", "NF\r\nNF\r\n"},
                  {"md nosuch k O1 t c\r\n", "NF knosuch O1\r\n"},
                  {"ms a 1\r\nx\r\nmd a k O1 q\r\nmg a\r\n", "HD\r\nEN\r\n"},
                  {"ms a 1\r\nx\r\nmd a k O1\r\nmg a\r\n", "HD\r\nHD ka O1\r\nEN\r\n"},
                  {"ms a 1\r\nx\r\nmd a C1 k O1 q\r\n", "HD\r\nEX ka O1\r\n"},
                  {"md a z\r\nmd a q q\r\nmd a Cx\r\nmd a M\r\nmd a Fx\r\nmd !! b\r\n",
                   invalid_or_duplicate + invalid_or_duplicate + invalid_or_duplicate + invalid_or_duplicate +
                       invalid_or_duplicate + invalid_or_duplicate},
                  {"md a T90\r\nmg a\r\n", "HD\r\nEN\r\n"}});
  server.exchange("ms a 1\r\nx\r\n");
  EXPECT_EQ(server.exchange("md a " + longest_opaque + "o\r\n"), opaque_too_long);
  EXPECT_EQ(server.exchange("md " + long_key + "\r\n"), bad_format);
  EXPECT_EQ(server.exchange("md a C" + cas_of(server, "a") + "\r\n"), "HD\r\n");
}

TEST(MetaReplies, Arithmetic) {
  ReplyHarness server;
  const string not_a_number = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
  expect(server, {{"ma\r\n", "ERROR\r\n"},
                  {"ma n\r\nma n q k O1\r\n", "NF\r\nNF kn O1\r\n"},
                  {"ma n N0 v\r\nma n v\r\nma n\r\n", "VA 1\r\n0\r\nVA 1\r\n1\r\nHD\r\n"},
                  {"ma n v D10 t k O1\r\n", "VA 2 t-1 kn O1\r\n12\r\n"},
                  {"ma n D5 q\r\n", ""},
                  {"ma n MD D5 v\r\nma n M- D5 v\r\nma n M+ v\r\nma n MI v\r\n",
                   "VA 2\r\n12\r\nVA 1\r\n7\r\nVA 1\r\n8\r\nVA 1\r\n9\r\n"},
                  {"ma n MD D500 v\r\nma n D18446744073709551615 v\r\nma n v\r\n",
                   "VA 1\r\n0\r\nVA 20\r\n18446744073709551615\r\nVA 1\r\n0\r\n"},
                  {"ma n MX v\r\n", "CLIENT_ERROR invalid mode for ma M token\r\n"},
                  {"ma n Dx\r\nma n D-1\r\nma n D\r\nma n Jx\r\nma n z\r\nma n v v\r\n",
                   invalid_or_duplicate + invalid_or_duplicate + invalid_or_duplicate + invalid_or_duplicate +
                       invalid_or_duplicate + invalid_or_duplicate},
                  {"ma b J0013 N30 v t\r\n", "VA 2 t30\r\n13\r\n"},
                  {"ma b t T60\r\nma b T90 t\r\n", "HD t30\r\nHD t90\r\n"},
                  {"ma c J13 N30 t v D5 k O1\r\n", "VA 2 t30 kc O1\r\n13\r\n"},
                  {"ma d J13 t N30 v\r\nma d t\r\n", "VA 2 t-1\r\n13\r\nHD t30\r\n"},
                  {"ma e J13 T10 N30 t v\r\nma e t\r\n", "VA 2 t30\r\n13\r\nHD t30\r\n"},
                  {"ma f J13 N30 T10 t v\r\nma f t\r\n", "VA 2 t10\r\n13\r\nHD t10\r\n"},
                  {"ma g J13 T10 t v\r\n", "NF\r\n"},
                  {"ma h N0 q k\r\nma h q k\r\n", "HD kh\r\n"},
                  {"ma h C1 q k O2\r\nma h C0 v\r\n", "EX kh O2\r\nVA 1\r\n2\r\n"},
                  {"ma nosuch C1 v\r\n", "NF\r\n"},
                  {"set s 0 0 2\r\nab\r\nma s\r\nma s q k O1\r\n", "STORED\r\n" + not_a_number + not_a_number}});
  const string reply = server.exchange("ma n v c\r\n");
  EXPECT_EQ(reply, "VA 1 c" + cas_of(server, "n") + "\r\n1\r\n");
  EXPECT_EQ(server.exchange("ma n " + longest_opaque + "o\r\nma n v\r\n"), opaque_too_long + "VA 1\r\n3\r\n");
  EXPECT_EQ(server.exchange("ma n MX " + longest_opaque + "o\r\n"), "CLIENT_ERROR invalid mode for ma M token\r\n");
}

TEST(MetaReplies, BinaryKeys) {
  ReplyHarness server;
  expect(server, {{"ms Zm9v 2 b k\r\nhi\r\n", "HD kZm9v b\r\n"},
                  {"mg Zm9v b k v\r\n", "VA 2 kZm9v b\r\nhi\r\n"},
                  {"mg foo k v\r\n", "VA 2 kZm9v b\r\nhi\r\n"},
                  {"get foo\r\n", "VALUE foo 0 2\r\nhi\r\nEND\r\n"},
                  {"ma Zm9v b k\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"},
                  {"md Zm9v b k q\r\nmd Zm9v b k q\r\n", "NF kZm9v b\r\n"},
                  {"ms foo 2\r\nhi\r\nmg Zm9v b k\r\n", "HD\r\nHD kfoo\r\n"},
                  // What the base64 decoder accepts.
                  {"mg AA== b k\r\nmg A=AA b k\r\nmg =AAA b k\r\nmg AA=A b k\r\n",
                   "EN kAA== b\r\nEN kAAA= b\r\nEN kAAA= b\r\nEN kAAA= b\r\n"},
                  {"mg Zm9v!Zm9v b k\r\nmg -Z!m!9!v b k\r\n", "EN kZm9vZm9v b\r\nHD kfoo\r\n"},
                  {"mg AA==AAAA b k\r\nmg A=A=BBBB b k\r\n", "EN kAA== b\r\nEN kAA== b\r\n"},
                  {"mg Zm9 b\r\nmg = b\r\nmg ==== b\r\nmg A=== b\r\nmg Zm9_ b\r\n",
                   bad_key + bad_key + bad_key + bad_key + bad_key}});
  EXPECT_EQ(server.exchange("mg " + string(248, 'A') + " b\r\n"), "EN\r\n");
  EXPECT_EQ(server.exchange("mg " + string(252, 'A') + " b\r\n"), bad_format);
}

TEST(MetaReplies, Debug) {
  ReplyHarness server;
  expect(server, {{"me\r\n", bad_format},
                  {"me nosuch\r\nme nosuch q k O\r\n", "EN\r\nEN\r\n"},
                  {"me !! b\r\n", bad_format},
                  {"ms Zm9v 2 b T100\r\nhi\r\n", "HD\r\n"}});
  EXPECT_EQ(server.exchange("me " + long_key + "\r\n"), bad_format);
  const string cas = cas_of(server, "foo");
  server.set_time(ReplyHarness::start_s + 3);
  const string expected = "ME Zm9v exp=-97 la=3 cas=" + cas + " fetch=yes cls=0 size=21\r\n";
  EXPECT_EQ(server.exchange("me foo\r\n"), expected);
  EXPECT_EQ(server.exchange("me Zm9v b\r\n"), expected);
  EXPECT_EQ(server.exchange("ms x 1\r\ny\r\nme x v b\r\n"),
            "HD\r\nME x exp=-1 la=0 cas=" + std::to_string(std::stoull(cas) + 1) + " fetch=no cls=0 size=18\r\n");
}

}  // namespace
}  // namespace tandem::codec
