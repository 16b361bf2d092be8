// Streams that a device answers, without an event loop: which of them one run answers whole, and how its replies leave.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "worker/worker_parts_fixture.hpp"

namespace tandem::net::parts_test {
namespace {

class Framing : public testing::Test, public Parts {
 protected:
  Framing() : Parts(std::make_shared<SimDevice>(SimOptions{}), std::uint64_t{16} << 20) {
    work.runner().set_patience(std::chrono::hours(1));
  }
  struct Asked {
    const Client& client;
    std::string input;
  };
  // Has the device answer these, and waits until it has. Again while it is not ready yet, which leaves them to the
  // host; `client` may then have replies.
  using Parts::ask;
  void ask(const std::vector<Asked>& all) {
    for (;;) {
      work.begin_pass(cycles_now());
      for (const auto& [client, input] : all) add(client.connection, input);
      work.end();
      if (work.runner().in_flight() != 0) break;
      for (const auto& [client, input] : all) static_cast<void>(receive(client.socket));
    }
    while (!work.answers_ready()) std::this_thread::yield();
  }
  std::uint64_t whole() const { return worker.counters.device_streams.get(); }
};

TEST_F(Framing, AStreamThatOneRunAnswersIsSentWhole) {
  store("a", "1");
  store("b", "22");
  const Client first = connect(), mixed = connect(), last = connect();
  ask({{first, "get a\r\nget b\r\n"}, {mixed, "get a\r\nset c 0 0 1\r\nx\r\nget b\r\n"}, {last, "get b\r\n"}});
  work.answer_oldest();
  EXPECT_EQ(receive(first.socket), hit("a", "1") + "END\r\n" + hit("b", "22") + "END\r\n");
  EXPECT_EQ(receive(mixed.socket), hit("a", "1") + "END\r\nSTORED\r\n" + hit("b", "22") + "END\r\n");
  EXPECT_EQ(receive(last.socket), hit("b", "22") + "END\r\n");
  EXPECT_EQ(whole(), 2u);
}

// A key that was stored behind the launch: its miss is not final, and only its own stream is the host's.
TEST_F(Framing, AMissThatIsNotFinalLeavesOtherStreamsWhole) {
  store("a", "1");
  const Client first = connect(), misses = connect(), last = connect();
  ask({{first, "get a\r\n"}, {misses, "get a\r\nget new\r\n"}, {last, "get a\r\nget a\r\n"}});
  store("new", "2");
  work.answer_oldest();
  EXPECT_EQ(receive(first.socket), hit("a", "1") + "END\r\n");
  EXPECT_EQ(receive(misses.socket), hit("a", "1") + "END\r\n" + hit("new", "2") + "END\r\n");
  EXPECT_EQ(receive(last.socket), times(2, hit("a", "1") + "END\r\n"));
  EXPECT_EQ(whole(), 2u);
}

// The socket takes a part of the replies; the flight, where they lie, ends before it takes the rest.
TEST_F(Framing, WhatASocketDoesNotTakeOfAWholeStreamIsSentLater) {
  const std::string value(60, 'v');
  store("v", value);
  const Client slow = connect(), next = connect();
  const int bytes = 4096;
  ASSERT_EQ(setsockopt(slow.connection.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
  ask({{slow, times(300, "get v\r\n")}, {next, "get v\r\n"}});
  work.answer_oldest();
  EXPECT_EQ(whole(), 2u);
  EXPECT_EQ(receive(next.socket), hit("v", value) + "END\r\n");
  ASSERT_TRUE(slow.connection.is_blocked());
  // Answers to `next` are written where those to `slow` were.
  ask({{next, times(300, "get w\r\n")}});
  work.answer_oldest();
  EXPECT_EQ(receive(next.socket), times(300, "END\r\n"));
  std::string all = receive(slow.socket);
  EXPECT_FALSE(all.empty());
  while (!sender.drain(slow.connection)) all += receive(slow.socket);
  all += receive(slow.socket);
  EXPECT_TRUE(all == times(300, hit("v", value) + "END\r\n")) << all.size();
}

// The same of a stream with replies of the lane and, from where they lie, of the device.
TEST_F(Framing, WhatASocketDoesNotTakeOfLentRepliesIsSentLater) {
  const std::string value(60, 'v'), gets = times(60, "get v\r\n"), replies = times(60, hit("v", value) + "END\r\n");
  store("v", value);
  const Client slow = connect(), next = connect();
  const int bytes = 4096;
  ASSERT_EQ(setsockopt(slow.connection.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
  const std::string set = "set c 0 0 1\r\nx\r\n";
  ask({{slow, times(4, gets + set)}, {next, "get v\r\n" + set + "delete c\r\nget v\r\n"}});
  work.answer_oldest();
  EXPECT_EQ(whole(), 0u);
  EXPECT_EQ(receive(next.socket),
            times(1, hit("v", value) + "END\r\nSTORED\r\nDELETED\r\n" + hit("v", value) + "END\r\n"));
  ASSERT_TRUE(slow.connection.is_blocked());
  ask({{next, times(300, "get w\r\n")}});
  work.answer_oldest();
  EXPECT_EQ(receive(next.socket), times(300, "END\r\n"));
  std::string all = receive(slow.socket);
  while (!sender.drain(slow.connection)) all += receive(slow.socket);
  all += receive(slow.socket);
  EXPECT_TRUE(all == times(4, replies + "STORED\r\n")) << all.size();
  EXPECT_EQ(worker.context->tasks.on_device[index_of(Task::write_response)].get(), 240u + 2u + 300u);
}

// What is left of a stream goes behind the device's replies to it, which are kept together with the lane's.
TEST_F(Framing, WhatTheLaneLeavesGoesBehindLentReplies) {
  const std::string value(60, 'v'), replies = times(60, hit("v", value) + "END\r\n");
  store("v", value);
  const Client client = connect();
  ask({{client, "set c 0 0 1\r\nx\r\n" + times(60, "get v\r\n") + "delete c\r\nget v\r\n"}});
  work.answer_oldest();
  EXPECT_EQ(receive(client.socket), "STORED\r\n" + replies + "DELETED\r\n" + hit("v", value) + "END\r\n");
}

TEST_F(Framing, AValuePinnedBehindLentRepliesIsUnpinned) {
  const std::string value(60, 'v'), large(20'000, 'l'), replies = times(60, hit("v", value) + "END\r\n");
  store("v", value);
  store("large", large);
  const Client client = connect();
  ask({{client, times(60, "get v\r\n") + "get large\r\n"}});
  work.answer_oldest();
  EXPECT_EQ(whole(), 0u);
  EXPECT_EQ(receive(client.socket), replies + hit("large", large) + "END\r\n");
  EXPECT_FALSE(worker.heap().has_pins());
}

TEST_F(Framing, RepliesToABlockedOrClosedConnection) {
  const Client client = connect();
  const std::string much(std::size_t{8} << 20, 'm');
  sender.send(client.connection, much);
  ASSERT_TRUE(client.connection.is_blocked());
  sender.send(client.connection, "more");
  std::string all = receive(client.socket);
  while (!sender.drain(client.connection)) all += receive(client.socket);
  all += receive(client.socket);
  EXPECT_TRUE(all == much + "more") << all.size();
  connections.close(client.connection);
  sender.send(client.connection, "late");
  EXPECT_EQ(receive(client.socket), "");
}

}  // namespace
}  // namespace tandem::net::parts_test
