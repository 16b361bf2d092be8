#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "net/limits.hpp"
#include "net/net_test_client.hpp"

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
  c.send(8, "set a 0 0 3 noreply\r\nabc\r\n");                   // no reply wanted
  EXPECT_EQ(c.ask(9, "get a\r\n"), "VALUE a 0 3\r\nabc\r\nEND\r\n");
  EXPECT_TRUE(c.receive(20).empty());
  Client tcp(s.port());
  EXPECT_EQ(tcp.stat("udp_requests_dropped", "tandem"), 4u);
  EXPECT_EQ(tcp.stat("udp_requests", "tandem"), 8u);
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
  // Bytes of the answers to a datagram full of this command.
  const auto answers = [&](std::string_view command) {
    std::string many;
    while (many.size() + command.size() < 60'000) many += command;
    tcp.stat("bytes_written");
    const std::uint64_t before = tcp.stat("bytes_written");
    UdpClient(s.udp()).send(1, many);
    ++datagrams;
    EXPECT_TRUE(eventually([&] { return tcp.stat("udp_requests", "tandem") == datagrams; }));
    tcp.stat("bytes_written");  // of a later pass than the datagram's
    return tcp.stat("bytes_written") - before;
  };
  constexpr std::uint64_t statistics = 60'000;  // of this test, some
  const std::uint64_t values = answers("get m\r\n"), lines = answers("get none\r\n"),
                      controls = answers("verbosity 0\r\n");
  EXPECT_GT(values, 2'000'000u);
  EXPECT_LT(values, udp_reply_bytes_max + udp_reply_bytes_max / 100 + statistics);
  constexpr std::uint64_t line_bytes = udp_frame_bytes + 5, ok_bytes = udp_frame_bytes + 4;
  EXPECT_GE(lines, 1280 * line_bytes);
  EXPECT_LT(lines, 1280 * line_bytes + statistics);  // 5,454 were asked for
  EXPECT_GE(controls, 20 * ok_bytes);
  EXPECT_LT(controls, 20 * ok_bytes + statistics);           // 4,285
  EXPECT_EQ(tcp.stat("udp_replies_dropped", "tandem"), 3u);  // once for each
}

// A datagram with more commands than any batch holds: what is executed of it is whole.
TEST(Udp, ADatagramOfEmptyLines) {
  ServerOptions o = UdpServer::options(1);
  o.requests_per_event = 1'000'000;
  TestServer s(o, small_engine());
  Client tcp(s.port());
  ASSERT_EQ(tcp.set("big", std::string(100'000, 'b')), "STORED\r\n");
  ASSERT_EQ(tcp.set("k", std::string(16'000, 'k')), "STORED\r\n");
  UdpClient(s.server.udp_port()).send(1, std::string(datagram_slot_bytes / 2 - 1, '\n') + "get big other\r\n");
  ASSERT_TRUE(eventually([&] { return tcp.stat("udp_replies_dropped", "tandem") >= 1; }));
  const std::string one = "VALUE k 0 16000\r\n" + std::string(16'000, 'k') + "\r\nEND\r\n";
  std::string gets, expected;
  for (int i = 0; i < 500; ++i) {
    gets += "get k\r\n";
    expected += one;
  }
  tcp.send(gets);
  EXPECT_TRUE(tcp.read(expected.size()) == expected);
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
