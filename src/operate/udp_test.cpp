#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "codec/packet_builder.hpp"
#include "net/limits.hpp"
#include "operate/server_test_client.hpp"

namespace tandem::net::test {
namespace {

struct UdpServer : TestServer {
  explicit UdpServer(unsigned threads = 2, const EngineOptions& engine_options = small_engine())
      : TestServer(options(threads), engine_options) {}
  static ServerOptions options(unsigned threads) {
    ServerOptions o = any_port(threads);
    o.udp_port = -1;
    return o;
  }
  int udp() const { return server.udp_port(); }
};

TEST(Udp, StoresAndReadsBack) {
  UdpServer s;
  UdpClient c(s.udp());
  EXPECT_EQ(c.ask(1, "set a 0 0 3\r\nabc\r\n"), "STORED\r\n");
  EXPECT_EQ(c.ask(2, "get a\r\n"), "VALUE a 0 3\r\nabc\r\nEND\r\n");
  EXPECT_EQ(c.ask(65535, "get b\r\n"), "END\r\n");
  EXPECT_EQ(c.ask(3, "get a b a\r\n"), "VALUE a 0 3\r\nabc\r\nVALUE a 0 3\r\nabc\r\nEND\r\n");
  EXPECT_EQ(c.ask(4, "mg a v\r\n"), "VA 3\r\nabc\r\n");
  EXPECT_EQ(c.ask(5, "nonsense\r\n"), "ERROR\r\n");
  EXPECT_NE(c.ask(6, "stats\r\n").find("STAT pid "), std::string::npos);
}

TEST(Udp, EachCommandOfADatagramHasItsReply) {
  UdpServer s;
  UdpClient c(s.udp());
  c.ask(1, "set a 0 0 3\r\nabc\r\n");
  c.send(2, "get a\r\nget b\r\nmg b v q\r\nversion\r\n");
  std::array<std::string, 3> replies;
  for (std::string& r : replies) r = c.receive_reply(2);
  EXPECT_EQ(replies[0], "VALUE a 0 3\r\nabc\r\nEND\r\n");
  EXPECT_EQ(replies[1], "END\r\n");
  EXPECT_TRUE(replies[2].starts_with("VERSION "));
}

TEST(Udp, LongRepliesTakeSeveralDatagrams) {
  UdpServer s;
  UdpClient c(s.udp());
  Client tcp(s.port());
  for (const std::size_t bytes : {1300u, 1370u, 1392u, 2784u, 9000u, 16'384u, 16'385u, 60'000u}) {
    const std::string value = pattern(bytes, 1);
    ASSERT_EQ(tcp.set("v", value), "STORED\r\n");
    ASSERT_EQ(c.ask(9, "get v v\r\n"), "VALUE v 0 " + std::to_string(bytes) + "\r\n" + value + "\r\nVALUE v 0 " +
                                           std::to_string(bytes) + "\r\n" + value + "\r\nEND\r\n");
  }
}

TEST(Udp, ALargeRequestInOneDatagram) {
  UdpServer s;
  UdpClient c(s.udp());
  const std::string value = pattern(60'000, 2);
  EXPECT_EQ(c.ask(1, "set v 0 0 60000\r\n" + value + "\r\n"), "STORED\r\n");
  EXPECT_EQ(Client(s.port()).get("v"), value);
}

TEST(Udp, WhatIsNotARequestIsDropped) {
  UdpServer s(1);
  UdpClient c(s.udp());
  c.send_raw("");
  c.send_raw("short");
  std::string several(udp_frame_bytes, '\0');
  write_udp_frame({7, 0, 2}, several.data());
  c.send_raw(several + "mn\r\n");
  c.send(8, "");
  c.send(8, "get a");                                            // incomplete
  c.send(8, "set a 0 0 300000\r\n" + std::string(20'000, 'x'));  // a large value that has not come whole
  c.send(8, codec::binary::packet(0x01, {.key = "a", .extras = "12345678", .value = "xy", .body_bytes = 500}));
  c.send(8, "\x80");
  c.send(8, "quit\r\nget a\r\n");
  c.send(8, "set a 0 0 3 noreply\r\nabc\r\n");  // no reply wanted
  Client tcp(s.port());
  EXPECT_TRUE(eventually([&] { return tcp.stat("cmd_set") == 1; }));  // a device would answer the next one before it
  EXPECT_EQ(c.ask(9, "get a\r\n"), "VALUE a 0 3\r\nabc\r\nEND\r\n");
  EXPECT_TRUE(c.receive(20).empty());
  EXPECT_EQ(tcp.stat("udp_requests_dropped", "tandem"), 4u);
  EXPECT_EQ(tcp.stat("udp_requests", "tandem"), 11u);
}

TEST(Udp, ARepliesBoundIsKept) {
  UdpServer s;
  UdpClient c(s.udp());
  Client tcp(s.port());
  ASSERT_EQ(tcp.set("m", std::string(1'000'000, 'm')), "STORED\r\n");
  ASSERT_EQ(tcp.set("k", std::string(16'000, 'k')), "STORED\r\n");
  std::string copied = "get";
  for (int i = 0; i < 600; ++i) copied += " k";
  c.send(1, "get m m m m m m\r\n");  // pinned values
  c.send(2, copied + "\r\n");
  EXPECT_TRUE(eventually([&] { return tcp.stat("udp_replies_dropped", "tandem") == 2; }));
  EXPECT_EQ(c.ask(3, "get none\r\n"), "END\r\n");
  EXPECT_EQ(tcp.set("m", "small"), "STORED\r\n");
}

// A forged sender gets no more for one datagram than the longest single answer, and one datagram's requests do not keep
// a worker from other clients.
TEST(Udp, ADatagramHasItsShareOfAnswers) {
  UdpServer s(1);
  Client tcp(s.port());
  ASSERT_EQ(tcp.set("m", std::string(1'000'000, 'm')), "STORED\r\n");
  std::uint64_t datagrams = 0;
  // Bytes sent so far, once `datagrams` of them have been cut short; some 10,000 of these are the statistics asked for.
  const auto look = [&] {
    const bool cut = tcp.stat("udp_replies_dropped", "tandem") == datagrams;
    const std::uint64_t sent = tcp.stat("bytes_written");
    return cut ? sent : 0;
  };
  look();
  const std::uint64_t once = look(), of_a_look = look() - once;
  // Bytes of the answers to a datagram full of this command: what is sent until nothing but statistics is.
  const auto answers = [&](std::string_view command) {
    std::string many;
    while (many.size() + command.size() < 60'000) many += command;
    const std::uint64_t before = look();
    UdpClient(s.udp()).send(1, many);
    ++datagrams;
    std::uint64_t looks = 0, last = 0;
    EXPECT_TRUE(eventually([&] {
      ++looks;
      const std::uint64_t now = look();
      const bool quiet = last != 0 && now - last < 2 * of_a_look;
      last = now;
      return quiet;
    }));
    return last - before - looks * of_a_look;
  };
  constexpr std::uint64_t statistics = 20'000;  // digits more in some of them
  const std::uint64_t values = answers("get m\r\n"), lines = answers("get none\r\n"),
                      controls = answers("verbosity 0\r\n");
  EXPECT_GT(values, 2'000'000u);
  EXPECT_LT(values, udp_reply_bytes_max + udp_reply_bytes_max / 100 + statistics);
  constexpr std::uint64_t line_bytes = udp_frame_bytes + 5, ok_bytes = udp_frame_bytes + 4;
  EXPECT_GE(lines, 20 * line_bytes);                 // or as many as there is time for
  EXPECT_LT(lines, 1280 * line_bytes + statistics);  // 5,454 were asked for
  EXPECT_GE(controls, 20 * ok_bytes);
  EXPECT_LT(controls, 20 * ok_bytes + statistics);           // 4,285
  EXPECT_EQ(tcp.stat("udp_replies_dropped", "tandem"), 3u);  // once for each
}

// A datagram with more commands than any batch holds: each has its answer, as far as time and sockets allow, and the
// worker serves on.
TEST(Udp, ADatagramOfEmptyLines) {
  ServerOptions o = UdpServer::options(1);
  o.requests_per_event = 1'000'000;
  TestServer s(o, small_engine());
  Client tcp(s.port());
  ASSERT_EQ(tcp.set("big", std::string(100'000, 'b')), "STORED\r\n");
  ASSERT_EQ(tcp.set("k", std::string(16'000, 'k')), "STORED\r\n");
  UdpClient udp(s.server.udp_port());
  udp.send(1, std::string(datagram_slot_bytes / 2 - 1, '\n') + "get big other\r\n");
  ASSERT_TRUE(eventually([&] { return tcp.stat("udp_requests", "tandem") == 1; }));
  EXPECT_EQ(udp.receive().substr(udp_frame_bytes), "ERROR\r\n");
  const std::string one = "VALUE k 0 16000\r\n" + std::string(16'000, 'k') + "\r\nEND\r\n";
  std::string gets, expected;
  for (int i = 0; i < 500; ++i) {
    gets += "get k\r\n";
    expected += one;
  }
  tcp.send(gets);
  EXPECT_TRUE(tcp.read(expected.size()) == expected);
}

// The same requests over TCP and as a datagram, each to a server of its own: the messages, joined, are the reply.
TEST(Udp, AnswersAsOverTcp) {
  using codec::binary::packet;
  UdpServer over_tcp(1), over_udp(1);
  const std::string zeros(8, '\0');
  const std::vector<std::string> all = {
      "set a 5 0 3\r\nabc\r\nget a\r\ngets b a\r\nget a a a a a a a a a a a a\r\n",
      "gat 0 a b\r\nappend a 0 0 1\r\nd\r\nincr a 1\r\ncas a 0 0 1 7\r\nx\r\ntouch a 0\r\n",
      "mg a v\r\nmg a k f v t s\r\nms a 3\r\nxyz\r\nmg a v q\r\nmg b v q\r\nmd a\r\nmg a v\r\nmn\r\n",
      "set n 0 0 1\r\n5\r\nincr n 3\r\nma n D4\r\ndecr n 1\r\ndelete n\r\ndelete n noreply\r\nget n\r\n",
      "set a 0 0 3 noreply\r\nabc\r\nget a\r\nget\r\nget " + std::string(251, 'k') + "\r\n\r\nverbosity 0\r\nget a\r\n",
      "set l 0 0 9000\r\n" + std::string(9000, 'l') + "\r\nget l l\r\nmg l v\r\nget a l a\r\n",
      "set big 0 0 30000\r\n" + std::string(30'000, 'b') + "\r\nget big a big\r\nmg big v s\r\n",
      "set a 0 0 3\r\nabcd\r\nget a\r\n",
      "set e 0 -1 1\r\ne\r\nget e a e\r\nget e\r\n",
      "flush_all\r\nget a\r\nset a 0 0 1\r\n1\r\nget a\r\n",
      "mg YQ== b v k\r\nms YQ== b 1\r\n2\r\nmg a v\r\nme a\r\nmetaget\r\n",
      packet(0x01, {.key = "a", .extras = zeros, .value = "one"}) + packet(0x00, {.key = "a"}) +
          packet(0x0c, {.key = "none"}) + packet(0x0a),
      packet(0x00, {.key = "a"}),
      packet(0x09, {.key = "none"}) + packet(0x0d, {.key = "a"}) + packet(0x04, {.key = "a"}) +
          packet(0x00, {.key = "a"}),
      packet(0x11, {.key = "q", .extras = zeros, .value = "two"}) + packet(0x0d, {.key = "q"}) +
          packet(0x55, {.key = "q"}) + packet(0x0b),
  };
  UdpClient udp(over_udp.udp());
  Client text(over_tcp.port());
  std::uint16_t id = 0;
  for (const std::string& requests : all) {
    const bool is_binary = requests[0] == '\x80';
    Client binary(over_tcp.port());
    Client& tcp = is_binary ? binary : text;
    const std::string fence = is_binary ? packet(0x0a) : "mn\r\n";
    std::string joined;
    udp.send(++id, requests);
    udp.send(++id, fence);
    const std::string answer = [&] {
      for (;;) {
        const std::string datagram = udp.receive();
        if (datagram.size() < udp_frame_bytes) return std::string("<none>");
        const bool is_last =
            static_cast<unsigned char>(datagram[0]) * 256u + static_cast<unsigned char>(datagram[1]) == id;
        if (is_last) return datagram.substr(udp_frame_bytes);
        joined += datagram.substr(udp_frame_bytes);
      }
    }();
    tcp.send(requests + fence);
    const std::string expected = tcp.read(joined.size() + answer.size());
    EXPECT_EQ(joined + answer, expected) << requests.substr(0, 60);
  }
}

// Nor by what it only does, without an answer.
TEST(Udp, ADatagramHasItsShareOfTime) {
  UdpServer s(1);
  Client tcp(s.port());
  const std::string value = pattern(1'000'000, 1);
  ASSERT_EQ(tcp.set("m", value), "STORED\r\n");
  std::string many;
  constexpr std::size_t appends = 2400;
  for (std::size_t i = 0; i < appends; ++i) many += "append m 0 0 1 noreply\r\na\r\n";
  UdpClient(s.udp()).send(1, many);
  EXPECT_TRUE(eventually([&] { return tcp.stat("udp_requests", "tandem") == 1; }));
  tcp.get("none");
  const std::size_t bytes = tcp.get("m").size();
  EXPECT_LT(bytes, value.size() + appends);
  if (!test_gpu().empty()) return;  // memory of what was replaced comes back later there: the value may be evicted
  EXPECT_EQ(tcp.stat("udp_replies_dropped", "tandem"), 1u);
  EXPECT_GT(bytes, value.size());
}

TEST(Udp, ManyClients) {
  UdpServer s(3);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      UdpClient c(s.udp());
      const std::string key = "k" + std::to_string(t);
      for (unsigned i = 0; i < 500; ++i) {
        const std::string value = std::to_string(i);
        ASSERT_EQ(c.ask(static_cast<std::uint16_t>(i),
                        "set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n"),
                  "STORED\r\n");
        ASSERT_EQ(c.ask(static_cast<std::uint16_t>(i), "get " + key + "\r\n"),
                  "VALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nEND\r\n");
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace tandem::net::test
