// The text protocol's replies, byte for byte; the expected ones are memcached 1.6.18's.
#include <gtest/gtest.h>

#include <string>

#include "engine/reply_expect.hpp"

namespace tandem::codec {
namespace {

using std::string;

const string bad_exptime = "CLIENT_ERROR invalid exptime argument\r\n";
const string bad_delete = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
const string longest_text_key(250, 'k');

TEST(TextReplies, Retrieval) {
  ReplyHarness server;
  expect(server,
         {{"set a 0 0 2\r\nab\r\n", "STORED\r\n"},
          {"set b 4294967295 0 0\r\n\r\n", "STORED\r\n"},
          {"get a\r\n", "VALUE a 0 2\r\nab\r\nEND\r\n"},
          {"get b\r\n", "VALUE b 4294967295 0\r\n\r\nEND\r\n"},
          {"get nosuch\r\n", "END\r\n"},
          {"get a nosuch b a\r\n", "VALUE a 0 2\r\nab\r\nVALUE b 4294967295 0\r\n\r\nVALUE a 0 2\r\nab\r\nEND\r\n"},
          {"get nosuch a nosuch\r\n", "VALUE a 0 2\r\nab\r\nEND\r\n"},
          {"get   a  \r\n", "VALUE a 0 2\r\nab\r\nEND\r\n"},
          {" get a\r\n", "VALUE a 0 2\r\nab\r\nEND\r\n"},
          {"get a\n", "VALUE a 0 2\r\nab\r\nEND\r\n"},
          {"bget a\r\n", "VALUE a 0 2\r\nab\r\nEND\r\n"},
          {string("get a\0b c\r\n", 11), "VALUE a 0 2\r\nab\r\nEND\r\n"},
          {"get a\tb\r\nget a\r\r\n", "END\r\nEND\r\n"},
          {"get\r\n", "ERROR\r\n"},
          {"get \r\n", "ERROR\r\n"},
          {"gets\r\ngat\r\ngats\r\nbget\r\n", "ERROR\r\nERROR\r\nERROR\r\nERROR\r\n"},
          {"getx a\r\ngatx 0 a\r\nGET a\r\n", "ERROR\r\nERROR\r\nERROR\r\n"},
          {"gat 0\r\n", "END\r\n"},
          {"gat x\r\n", bad_exptime},
          {"gat x a\r\n", bad_exptime},
          {"gat 10 a\r\nmg a t\r\n", "VALUE a 0 2\r\nab\r\nEND\r\nHD t10\r\n"},
          {"gat -1 a a\r\n", "VALUE a 0 2\r\nab\r\nEND\r\n"}});
  EXPECT_EQ(server.exchange("get " + longest_text_key + "\r\n"), "END\r\n");
  EXPECT_EQ(server.exchange("get " + long_key + "\r\n"), bad_format);
  EXPECT_EQ(server.exchange("get b " + long_key + " b\r\nget b\r\n"),
            bad_format + "VALUE b 4294967295 0\r\n\r\nEND\r\n");
  EXPECT_EQ(server.exchange("gat 0 b " + long_key + "\r\n"), bad_format);
}

TEST(TextReplies, CasNumbers) {
  ReplyHarness server;
  server.exchange("set a 0 0 1\r\nx\r\n");
  const string reply = server.exchange("gets a\r\n");
  ASSERT_TRUE(reply.starts_with("VALUE a 0 1 "));
  const string cas = reply.substr(12, reply.find('\r') - 12);
  EXPECT_EQ(reply, "VALUE a 0 1 " + cas + "\r\nx\r\nEND\r\n");
  EXPECT_EQ(server.exchange("gats 0 a nosuch\r\n"), "VALUE a 0 1 " + cas + "\r\nx\r\nEND\r\n");
  EXPECT_EQ(server.exchange("cas a 0 0 1 " + cas + "9\r\ny\r\n"), "EXISTS\r\n");
  EXPECT_EQ(server.exchange("cas a 0 0 1 " + cas + " noreply\r\ny\r\nget a\r\n"), "VALUE a 0 1\r\ny\r\nEND\r\n");
  EXPECT_EQ(server.exchange("cas a 0 0 1 " + cas + "\r\nz\r\n"), "EXISTS\r\n");
  EXPECT_EQ(server.exchange("cas nosuch 0 0 1 " + cas + "\r\nz\r\n"), "NOT_FOUND\r\n");
  EXPECT_EQ(server.exchange("cas a 0 0 1\r\n"), "ERROR\r\n");
  EXPECT_EQ(server.exchange("cas a 0 0 1 x\r\n"), bad_format);
  EXPECT_EQ(server.exchange("cas a 0 0 1 noreply\r\n"), "") << "noreply is looked for before the number is read";
  EXPECT_EQ(server.exchange("cas a 0 0 1 1 x\r\nz\r\n"), "EXISTS\r\n");
  EXPECT_EQ(server.exchange("cas a 0 0 1 1 x y\r\n"), "ERROR\r\n");
}

TEST(TextReplies, WithoutCas) {
  ProtocolOptions options;
  options.cas = false;
  ReplyHarness server(options);
  expect(server, {{"set a 0 0 1\r\nx\r\n", "STORED\r\n"},
                  {"gets a\r\n", "VALUE a 0 1 0\r\nx\r\nEND\r\n"},
                  {"mg a c\r\n", "HD c0\r\n"},
                  {"ms a 1 c\r\ny\r\n", "HD c0\r\n"},
                  {"ma n N0 c v\r\n", "VA 1 c0\r\n0\r\n"}});
}

TEST(TextReplies, Storage) {
  ReplyHarness server;
  expect(server, {{"add a 0 0 1\r\nx\r\n", "STORED\r\n"},
                  {"add a 0 0 1\r\ny\r\n", "NOT_STORED\r\n"},
                  {"replace a 1 0 1\r\nz\r\n", "STORED\r\n"},
                  {"replace nosuch 0 0 1\r\nz\r\n", "NOT_STORED\r\n"},
                  {"append a 9 9 1\r\nw\r\n", "STORED\r\n"},
                  {"prepend a 9 9 1\r\nv\r\n", "STORED\r\n"},
                  {"append nosuch 0 0 1\r\nx\r\n", "NOT_STORED\r\n"},
                  {"prepend nosuch 0 0 1\r\nx\r\n", "NOT_STORED\r\n"},
                  {"get a\r\n", "VALUE a 1 3\r\nvzw\r\nEND\r\n"},
                  {"set a 0 0 2\nab\r\n", "STORED\r\n"},
                  {"set a 0 0 2 noreply\r\ncd\r\nget a\r\n", "VALUE a 0 2\r\ncd\r\nEND\r\n"},
                  {"set a 0 0 2 other\r\nef\r\n", "STORED\r\n"},
                  {"set a 0 0 2 noreply x\r\n", "ERROR\r\n"},
                  {"set a 0 0\r\n", "ERROR\r\n"},
                  {"set\r\nadd\r\nreplace\r\nappend\r\nprepend\r\ncas\r\n",
                   "ERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\n"},
                  // The data block has the length that the line states; the next command follows it.
                  {"set a 0 0 2\r\nabc\r\nmn\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n"},
                  {"set a 0 0 2\r\nab\nmn\r\nmn\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n"},
                  {"set a 0 0 5\r\nab\r\nmn\r\nmn\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n"},
                  {"set a 0 0 2 noreply\r\nabcd\r\nmn\r\n", "ERROR\r\nMN\r\n"},
                  {"get a\r\n", "VALUE a 0 2\r\nef\r\nEND\r\n"},
                  // A rejected line has no data block.
                  {"set a 0 0 -1\r\nab\r\n", bad_format + "ERROR\r\n"},
                  {"set a x 0 2\r\nab\r\n", bad_format + "ERROR\r\n"},
                  {"set a x 0 2 noreply\r\nab\r\n", "ERROR\r\n"},
                  {"set a -1 0 2\r\n", bad_format},
                  {"set a 0 0x10 2\r\n", bad_format},
                  {"set a 5x 0 2\r\n", bad_format},
                  {"set a 99999999999999999999 0 2\r\n", bad_format},
                  {"set a 0 0 2147483646\r\n", bad_format},
                  {"set a 0 0 2147483647\r\n", bad_format}});
  EXPECT_EQ(server.exchange("set " + long_key + " 0 0 2\r\nab\r\n"), bad_format + "ERROR\r\n");
  EXPECT_EQ(server.exchange("set " + longest_text_key + " 0 0 2\r\nab\r\nget " + longest_text_key + "\r\n"),
            "STORED\r\nVALUE " + longest_text_key + " 0 2\r\nab\r\nEND\r\n");
}

TEST(TextReplies, NumbersAsStrtolReadsThem) {
  ReplyHarness server;
  const auto stored = [&](const string& flags, const string& exptime, const string& bytes) {
    server.exchange("delete a\r\n");
    return server.exchange("set a " + flags + " " + exptime + " " + bytes + "\r\nab\r\nget a\r\n");
  };
  const auto value = [](const char* flags) { return string("STORED\r\nVALUE a ") + flags + " 2\r\nab\r\nEND\r\n"; };
  EXPECT_EQ(stored("4294967295", "0", "2"), value("4294967295"));
  EXPECT_EQ(stored("4294967296", "0", "2"), value("0")) << "upper bits are dropped";
  EXPECT_EQ(stored("-18446744073709551615", "0", "2"), value("1"));
  EXPECT_EQ(stored("+5", "+0", "+2"), value("5"));
  EXPECT_EQ(stored("\t5\tx", "\v0", "\f2\r"), value("5"));
  EXPECT_EQ(stored("000000000000000000000005", "-0", "0000000000002"), value("5"));
  EXPECT_EQ(stored("5", "4294967296", "4294967298"), value("5")) << "0 and 2";
  EXPECT_EQ(stored("5", "-1", "2"), "STORED\r\nEND\r\n");
  EXPECT_EQ(stored("5", "99999999999", "2"), "STORED\r\nEND\r\n") << "a time long ago";
  EXPECT_EQ(stored("5", "2147483647", "2"), value("5"));
  EXPECT_EQ(stored("5", "9223372036854775808", "2").substr(0, bad_format.size()), bad_format);
}

TEST(TextReplies, TooLarge) {
  ProtocolOptions options;
  options.item_bytes_max = 10000;
  ReplyHarness server(options);
  const string too_large = "SERVER_ERROR object too large for cache\r\n";
  const string body = string(20000, 'x') + "\r\n";
  for (const string mode : {"add", "replace", "append", "prepend"}) {
    server.exchange("set k 0 0 1\r\nv\r\n");
    EXPECT_EQ(server.exchange(mode + " k 0 0 20000\r\n" + body + "get k\r\n"),
              too_large + "VALUE k 0 1\r\nv\r\nEND\r\n");
    EXPECT_EQ(server.exchange(mode + " k 0 0 20000 noreply\r\n" + body + "mn\r\n"), "MN\r\n");
  }
  EXPECT_EQ(server.exchange("cas k 0 0 20000 1\r\n" + body + "get k\r\n"), too_large + "VALUE k 0 1\r\nv\r\nEND\r\n");
  EXPECT_EQ(server.exchange("set k 0 0 20000\r\n" + body + "get k\r\n"), too_large + "END\r\n");
  server.exchange("set k 0 0 1\r\nv\r\n");
  EXPECT_EQ(server.exchange("set k 0 0 20000 noreply\r\n" + body + "get k\r\n"), "END\r\n");
  server.exchange("set k 0 0 1\r\nv\r\n");
  EXPECT_EQ(server.exchange("ms k 20000 q k ME\r\n" + body + "get k\r\n"), too_large + "END\r\n");
  EXPECT_EQ(server.exchange("set k 0 0 9980\r\n" + string(9980, 'y') + "\r\n"), "STORED\r\n");
}

TEST(TextReplies, LargeValues) {
  ReplyHarness server;
  for (const std::size_t bytes : {8191u, 8192u, 8193u, 16384u, 16385u, 300000u}) {
    string value(bytes, 'a');
    for (std::size_t i = 0; i < bytes; ++i) value[i] = static_cast<char>('a' + i % 26);
    const string n = std::to_string(bytes), request = "set large 7 0 " + n + "\r\n" + value + "\r\n";
    const std::uint32_t pinned_before = server.pinned_values();
    for (const std::size_t cut : {std::size_t{20}, std::size_t{100}, request.size() - 1, request.size()}) {
      string reply = server.exchange(request.substr(0, cut));
      reply += server.exchange(request.substr(cut));
      EXPECT_EQ(reply, "STORED\r\n");
      EXPECT_EQ(server.exchange("get large nosuch\r\n"), "VALUE large 7 " + n + "\r\n" + value + "\r\nEND\r\n");
      EXPECT_EQ(server.exchange("mg large v s f\r\n"), "VA " + n + " s" + n + " f7\r\n" + value + "\r\n");
      EXPECT_EQ(server.exchange("mg large s\r\n"), "HD s" + n + "\r\n");
    }
    EXPECT_EQ(server.pinned_values() - pinned_before, bytes > copied_value_bytes_max ? 8u : 0u);
    const string bad = request.substr(0, request.size() - 2) + "xx";
    string reply = server.exchange(bad.substr(0, 50));
    reply += server.exchange(bad.substr(50));
    EXPECT_EQ(reply, "CLIENT_ERROR bad data chunk\r\n");
    EXPECT_EQ(server.exchange("mg large s\r\n"), "HD s" + n + "\r\n") << "the old value stays";
  }
}

TEST(TextReplies, Delete) {
  ReplyHarness server;
  const auto after_set = [&](const string& line) {
    server.exchange("set a 0 0 1\r\nx\r\n");
    return server.exchange(line + "\r\n");
  };
  EXPECT_EQ(after_set("delete a"), "DELETED\r\n");
  EXPECT_EQ(after_set("delete nosuch"), "NOT_FOUND\r\n");
  EXPECT_EQ(after_set("delete a 0"), "DELETED\r\n");
  EXPECT_EQ(after_set("delete a 1"), bad_delete);
  EXPECT_EQ(after_set("delete a noreply"), "");
  EXPECT_EQ(server.exchange("get a\r\n"), "END\r\n");
  EXPECT_EQ(after_set("delete a 0 noreply"), "");
  EXPECT_EQ(after_set("delete a 1 noreply"), "");
  EXPECT_EQ(server.exchange("get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n") << "refused, silently";
  EXPECT_EQ(after_set("delete a 0 0"), bad_delete);
  EXPECT_EQ(after_set("delete a x"), bad_delete);
  EXPECT_EQ(after_set("delete"), "ERROR\r\n");
  EXPECT_EQ(after_set("delete a 0 noreply x"), "ERROR\r\n");
  EXPECT_EQ(after_set("delete " + long_key), bad_format);
  EXPECT_EQ(after_set("delete " + long_key + " noreply"), "");
}

TEST(TextReplies, Arithmetic) {
  ReplyHarness server;
  const string not_a_number = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
  const string bad_delta = "CLIENT_ERROR invalid numeric delta argument\r\n";
  expect(server, {{"set n 0 0 2\r\n10\r\n", "STORED\r\n"},
                  {"decr n 1\r\nget n\r\n", "9\r\nVALUE n 0 2\r\n9 \r\nEND\r\n"},
                  {"incr n 100000\r\nget n\r\n", "100009\r\nVALUE n 0 6\r\n100009\r\nEND\r\n"},
                  {"decr n 18446744073709551615\r\n", "0\r\n"},
                  {"incr n 18446744073709551615\r\n", "18446744073709551615\r\n"},
                  {"incr n 1\r\n", "0\r\n"},
                  {"incr n 1 noreply\r\nincr n 1 other\r\n", "2\r\n"},
                  {"incr nosuch 1\r\ndecr nosuch 1\r\n", "NOT_FOUND\r\nNOT_FOUND\r\n"},
                  {"incr n x\r\n", bad_delta},
                  {"incr n x noreply\r\n", ""},
                  {"incr n -1\r\n", bad_delta},
                  {"incr n 18446744073709551616\r\n", bad_delta},
                  {"incr n\r\nincr n 1 2 3\r\ndecr\r\nincrx n 1\r\n", "ERROR\r\nERROR\r\nERROR\r\nERROR\r\n"},
                  {"set n 0 0 1\r\nx\r\nincr n 1\r\n", "STORED\r\n" + not_a_number},
                  {"decr n 1 noreply\r\n", ""}});
  EXPECT_EQ(server.exchange("incr " + long_key + " 1\r\n"), bad_format);
}

TEST(TextReplies, Touch) {
  ReplyHarness server;
  expect(server, {{"set a 0 0 1\r\nx\r\n", "STORED\r\n"},
                  {"touch a 10\r\nmg a t\r\n", "TOUCHED\r\nHD t10\r\n"},
                  {"touch a 20 noreply\r\nmg a t\r\n", "HD t20\r\n"},
                  {"touch a 0\r\nmg a t\r\n", "TOUCHED\r\nHD t-1\r\n"},
                  {"touch a x\r\n", bad_exptime},
                  {"touch a x noreply\r\n", ""},
                  {"touch a\r\ntouch a 0 1 2\r\n", "ERROR\r\nERROR\r\n"},
                  {"touch nosuch 0\r\n", "NOT_FOUND\r\n"},
                  {"touch a -1\r\nget a\r\n", "TOUCHED\r\nEND\r\n"}});
  EXPECT_EQ(server.exchange("touch " + long_key + " 0\r\n"), bad_format);
}

TEST(TextReplies, UnknownAndEmpty) {
  ReplyHarness server;
  for (const char* line : {"", " ", "a", "ab", "setx a 0 0 1", "quitx", "versionx", "mge a", "mx", "m", "extstore x",
                           "misbehave", "lru mode other", "\xff\xfe", "slabs", "slabs x y"}) {
    EXPECT_EQ(server.exchange(string(line) + "\r\n"), "ERROR\r\n") << line;
    EXPECT_EQ(server.exchange(string(line) + "\n"), "ERROR\r\n") << line;
  }
  EXPECT_EQ(server.exchange("version\r\nversion x y\r\n"), "VERSION 1.6.18\r\nVERSION 1.6.18\r\n");
  EXPECT_EQ(server.exchange("mn\r\nmn x\r\n"), "MN\r\nMN\r\n");
  EXPECT_EQ(server.exchange("get a\r\nquit\r\nget a\r\n"), "END\r\n");
  EXPECT_TRUE(server.closed());
}

TEST(TextReplies, OutOfMemory) {
  EngineOptions engine = ReplyHarness::small_engine();
  engine.evict = false;
  engine.memory_bytes = std::uint64_t{4} << 20;
  ReplyHarness server({}, engine);
  const string body = string(1000, 'x') + "\r\n";
  string reply;
  for (int i = 0; reply.empty() && i < 100000; ++i) {
    reply = server.exchange("set k" + std::to_string(i) + " 0 0 1000\r\n" + body);
    if (reply == "STORED\r\n") reply.clear();
  }
  EXPECT_EQ(reply, "SERVER_ERROR out of memory storing object\r\n");
  EXPECT_EQ(server.exchange("set k0 0 0 1000\r\n" + body + "get k0\r\n"),
            "SERVER_ERROR out of memory storing object\r\nEND\r\n")
      << "no stale value is left";
  reply.clear();
  for (int i = 0; reply.empty() && i < 100000; ++i) {
    reply = server.exchange("ms m" + std::to_string(i) + " 1000 q k\r\n" + body);
  }
  EXPECT_EQ(reply, "SERVER_ERROR out of memory storing object\r\n");
}

}  // namespace
}  // namespace tandem::codec
