// The lane of a pass without an event loop: what it answers, what it leaves, and the order of both.
#include "worker/replies.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codec/udp.hpp"
#include "worker/worker_parts_fixture.hpp"

namespace tandem::net::parts_test {
namespace {

struct Answering : testing::Test, Parts {};

TEST_F(Answering, WhatTheLaneLeavesIsAnsweredBehindItsReplies) {
  store("a", "1");
  const Client plain = connect(), mixed = connect(), half = connect();
  add(plain.connection, "get a\r\nget b\r\n");
  add(mixed.connection, "get a\r\ndelete a\r\nget a\r\nverbosity 1\r\nmn\r\nget a\r\n");
  add(half.connection, "get b\r\nset a 0 0 5\r\nab");
  EXPECT_EQ(receive(plain.socket), "") << "it waits";
  run();
  EXPECT_EQ(receive(plain.socket), hit("a", "1") + "END\r\nEND\r\n");
  EXPECT_EQ(receive(half.socket), "END\r\n");
  EXPECT_EQ(receive(mixed.socket), hit("a", "1") + "END\r\nDELETED\r\nEND\r\nOK\r\nMN\r\nEND\r\n");
  EXPECT_EQ(plain.connection.kept.size(), 0u);
  EXPECT_EQ(kept(half.connection), "set a 0 0 5\r\nab");
  EXPECT_FALSE(half.connection.resumes);
  EXPECT_EQ(half.connection.state.load(), ConnectionState::keeping);
  EXPECT_TRUE(work.in().empty());
}

TEST_F(Answering, AConnectionThatQuitsIsClosedAfterItsReplies) {
  const Client client = connect();
  ask(client.connection, "get a\r\nquit\r\nget a\r\n");
  EXPECT_EQ(receive(client.socket), "END\r\n");
  EXPECT_TRUE(client.connection.is_closed());
  EXPECT_EQ(client.connection.close_reason, CloseReason::normal);
}

// When the output is full it is sent. A connection that does not read is blocked then; those behind it are answered.
TEST_F(Answering, AFullOutputBlocksTheConnectionThatDoesNotRead) {
  const std::string value(8000, 'v'), reply = hit("v", value) + "END\r\n";
  store("v", value);
  const Client full = connect(), next = connect(), last = connect();
  add(full.connection, times(300, "get v\r\n"));
  add(next.connection, times(20, "get v\r\n"));
  add(last.connection, "get v\r\n");
  run();
  EXPECT_TRUE(receive(next.socket) == times(20, reply));
  EXPECT_TRUE(receive(last.socket) == reply);
  ASSERT_TRUE(full.connection.is_blocked());
  EXPECT_TRUE(full.connection.resumes);
  const std::size_t left = full.connection.kept.size() / std::string_view("get v\r\n").size();
  EXPECT_GT(left, 0u);
  std::string all = receive(full.socket);
  while (!sender.drain(full.connection)) all += receive(full.socket);
  all += receive(full.socket);
  EXPECT_TRUE(all == times(300 - left, reply)) << all.size();
}

TEST_F(Answering, MakesRowsOfAllWhileClientsWatch) {
  store("a", "1");
  const Client client = connect();
  add(client.connection, "get a b\r\nset a 0 0 1\r\n2\r\nget a\r\n");
  worker.recorder.set_flags(EventLog::detail_flag);
  work.begin_pass(cycles_now(), true);
  const std::uint64_t rows = worker.context->tasks.queries_total.get();
  run();
  EXPECT_EQ(receive(client.socket), hit("a", "1") + "END\r\nSTORED\r\n" + hit("a", "2") + "END\r\n");
  EXPECT_EQ(worker.context->tasks.queries_total.get() - rows, 4u);
}

TEST_F(Answering, GoesOnWithinACommand) {
  const Client client = connect();
  add(client.connection, "set v 0 0 5\r\nab");
  run();
  EXPECT_EQ(kept(client.connection), "set v 0 0 5\r\nab");
  add(client.connection, "set v 0 0 5\r\nabc");
  run();
  add(client.connection, "set v 0 0 5\r\nabcde\r\nget v\r\n");
  client.connection.kept.assign(nullptr, nullptr);
  run();
  EXPECT_EQ(receive(client.socket), "STORED\r\n" + hit("v", "abcde") + "END\r\n");
}

// --- datagrams

struct LaneDatagrams : Answering {
  UdpDatagram& run_one(std::string_view request) {
    UdpDatagram& datagram = datagram_of(udp, request);
    add(datagram);
    run();
    return datagram;
  }
  // Payloads of what has come, each without the frame that all have here.
  std::vector<std::string> received() {
    std::vector<std::string> all;
    char some[2000];
    for (ssize_t n; (n = recv(udp.first.get(), some, sizeof some, 0)) > 0;) {
      const std::string one(some, static_cast<std::size_t>(n));
      EXPECT_EQ(one.substr(0, udp_frame_bytes), std::string("\0\7\0\0\0\1\0\0", 8));
      all.push_back(one.substr(udp_frame_bytes));
    }
    return all;
  }
  std::vector<std::string> ask(std::string_view request) {
    run_one(request);
    return received();
  }
  std::uint64_t dropped() const { return worker.counters.udp_replies_dropped.get(); }
  using Replies = std::vector<std::string>;

  std::pair<Fd, std::unique_ptr<UdpPort>> udp = connect_udp();
};

TEST_F(LaneDatagrams, EachCommandHasAMessage) {
  store("a", "1");
  store("long", std::string(600, 'l'));
  const std::string a = hit("a", "1"), end = "END\r\n";
  EXPECT_EQ(ask("get a\r\n"), Replies{a + end});
  EXPECT_EQ(ask("get a b a\r\n"), Replies{a + a + end});
  EXPECT_EQ(ask("get a\r\nget none\r\nget a a\r\n"), (Replies{a + end, end, a + a + end}));
  EXPECT_EQ(ask("set b 0 0 1\r\n2\r\nget b\r\ndelete b\r\n"),
            (Replies{"STORED\r\n", hit("b", "2") + end, "DELETED\r\n"}));
  EXPECT_EQ(ask("gat 0 a none a\r\nincr a 1\r\n"), (Replies{a + a + end, "2\r\n"}));
  EXPECT_EQ(ask("get long a\r\nmg a v\r\n"),
            (Replies{hit("long", std::string(600, 'l')) + hit("a", "2") + end, "VA 1\r\n2\r\n"}));
  EXPECT_EQ(ask("\r\nnonsense\r\nget\r\n"), Replies(3, "ERROR\r\n"));
  EXPECT_EQ(ask("mg none v q\r\nset c 0 0 1 noreply\r\n3\r\nmg c v q\r\nmn\r\n"), (Replies{"VA 1\r\n3\r\n", "MN\r\n"}));
  EXPECT_EQ(ask("get none\r\nversion\r\nget a\r\n").size(), 3u) << "a control command, and what follows it";
  EXPECT_EQ(ask("get none\r\nquit\r\nget a\r\n"), Replies{end});
  EXPECT_EQ(ask("get none\r\nget a"), Replies{end}) << "incomplete";
  EXPECT_EQ(ask("get none\r\nset a 0 0 5\r\nab"), Replies{end});
  EXPECT_EQ(ask("set a 0 0 99999999 noreply\r\nxyz"), Replies{});
  EXPECT_EQ(ask("set a 0 0 99999999\r\nxyz"), Replies{"SERVER_ERROR object too large for cache\r\n"});
  EXPECT_EQ(ask("get a\r\n" + std::string(3000, 'x')), Replies{end})
      << "a line too long: what is before it is answered";
  EXPECT_EQ(dropped(), 0u);
}

// Many of one segment's keys in one strip, and many segments in one: each has a frame of its own.
TEST_F(LaneDatagrams, ManyInOneRun) {
  store("a", "1");
  std::string keys, expected;
  for (int i = 0; i < 30; ++i) {
    keys += i % 3 == 0 ? " a" : " none";
    expected += i % 3 == 0 ? hit("a", "1") : "";
  }
  const std::array<std::string, 4> requests = {"get a\r\n", "get" + keys + "\r\nget" + keys + "\r\n",
                                               "gat 0" + keys + "\r\n", "get b\r\n"};
  std::vector<std::pair<Fd, std::unique_ptr<UdpPort>>> ports;
  for (int i = 0; i < 12; ++i) {
    ports.push_back(connect_udp());
    UdpDatagram& datagram = datagram_of(ports.back(), requests[static_cast<std::size_t>(i) % 4]);
    add(datagram);
  }
  run();
  const std::string end = "END\r\n", frame("\0\7\0\0\0\1\0\0", 8), all = frame + expected + end;
  const std::array<std::string, 4> answers = {frame + hit("a", "1") + end, all + all, all, frame + end};
  for (std::size_t i = 0; i < ports.size(); ++i) EXPECT_EQ(receive(ports[i].first), answers[i % 4]) << i;
}

// A reply that takes several runs of the lane is one message, and what is answered behind it is in order.
TEST_F(LaneDatagrams, AMessageMayTakeSeveralRuns) {
  const std::string value(8000, 'v'), huge(100'000, 'h');
  store("v", value);
  store("h", huge);
  const UdpDatagram& copied = run_one("get" + times(200, " v") + "\r\nget v\r\n");
  EXPECT_EQ(copied.messages, 2u);
  EXPECT_EQ(copied.message_bytes, 201 * hit("v", value).size() + 2 * (udp_frame_bytes + 5));
  receive(udp.first);
  const UdpDatagram& pinned = run_one("gets none" + times(10, " h") + "\r\nmn\r\n");
  EXPECT_EQ(pinned.messages, 2u);
  EXPECT_GT(pinned.message_bytes, 10 * huge.size());
  EXPECT_FALSE(heap().has_pins());
}

// It is dropped while it grows, with its pins, and nothing behind it is executed.
TEST_F(LaneDatagrams, ATooLongMessageEndsItsDatagram) {
  store("v", std::string(16'000, 'v'));
  store("h", std::string(1'000'000, 'h'));
  for (const std::string& request :
       {"get" + times(6000, " v") + "\r\nget none\r\n", "mn\r\ngat 0" + times(6000, " v") + "\r\nmn\r\n",
        "get" + times(6000, " h") + "\r\nmn\r\n"}) {
    const std::uint64_t before = worker.context->counters.cmd_get.get() + worker.context->counters.cmd_touch.get(),
                        drops = dropped();
    const UdpDatagram& datagram = run_one(request);
    EXPECT_EQ(datagram.messages, request.starts_with("mn") ? 1u : 0u);
    EXPECT_EQ(dropped(), drops + 1);
    EXPECT_LT(worker.context->counters.cmd_get.get() + worker.context->counters.cmd_touch.get() - before, 600u);
    EXPECT_FALSE(heap().has_pins());
    receive(udp.first);
  }
  EXPECT_EQ(ask("mn\r\n"), Replies{"MN\r\n"});
}

TEST_F(LaneDatagrams, ADatagramOfEmptyLinesHasItsShare) {
  const std::uint64_t share = worker.server.options.requests_per_event * queries_per_request_of_event;
  const UdpDatagram& lines = run_one(times(40'000, "\n"));
  EXPECT_EQ(lines.messages, share);
  const UdpDatagram& controls = run_one(times(100, "verbosity 0\r\n"));
  EXPECT_EQ(controls.messages, worker.server.options.requests_per_event);
  receive(udp.first);
}

// What ends a datagram, or is incomplete, is behind keys of which each has been answered, in one message.
TEST_F(LaneDatagrams, WhatEndsOneDoesNotSplitAMessage) {
  store("a", "1");
  const std::string both = hit("a", "1") + "END\r\n";
  for (const std::string& last :
       {std::string("quit\r\n"), std::string(3000, 'x'), std::string("set v 0 0 9000\r\nx"), std::string("get")}) {
    EXPECT_EQ(ask("mn\r\nget a n\r\n" + last), (Replies{"MN\r\n", both})) << last.substr(0, 10);
    EXPECT_EQ(ask("mn\r\ngat 0 n a\r\nmn\r\n" + last), (Replies{"MN\r\n", both, "MN\r\n"})) << last.substr(0, 10);
    EXPECT_EQ(ask("get a n\r\n" + last), Replies{both}) << last.substr(0, 10);
  }
  EXPECT_EQ(dropped(), 0u);
}

// Of one receipt they are executed in its order, wherever one is left to the general path or a run ends.
TEST_F(LaneDatagrams, KeepTheOrderOfTheirReceipt) {
  const std::string huge(300'000, 'h');
  for (const std::string_view first :
       {"get h\r\nflush_all\r\n", "get none\r\nflush_all\r\nget a\r\n", "flush_all\r\n"}) {
    store("a", "1");
    store("h", huge);
    const std::uint64_t hits = worker.context->counters.get_hits.get();
    const std::vector<std::string_view> requests = {"get a\r\n", "get", first, "get a\r\n", "mn\r\nget a\r\n"};
    datagrams_of(udp, requests);
    for (unsigned i = 0; i < requests.size(); ++i) {
      UdpDatagram& datagram = udp.second->datagram(i);
      add(datagram);
    }
    run();
    std::string all;
    for (std::string more; !(more = receive(udp.first)).empty();) all += more;
    EXPECT_EQ(worker.context->counters.get_hits.get() - hits, first.starts_with("get h") ? 2u : 1u) << first;
    EXPECT_EQ(all.find(hit("a", "1")), udp_frame_bytes) << first;
    EXPECT_EQ(all.find(hit("a", "1"), 2 * udp_frame_bytes), std::string::npos) << first;
    EXPECT_FALSE(heap().has_pins());
  }
}

}  // namespace
}  // namespace tandem::net::parts_test
