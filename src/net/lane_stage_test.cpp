// The lane of a pass without an event loop: what it answers, what it leaves to the parser, and the order of both.
#include "net/lane_stage.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "net/worker_parts_fixture.hpp"

namespace tandem::net::parts_test {
namespace {

struct LaneStaging : testing::Test, Parts {
  LaneStaging() { lane.begin_pass(false, false); }
  // A connection with a known protocol, from a first request.
  Client connect_text() {
    Client client = connect();
    add(client.connection, "mn\r\n");
    batches.run(false);
    EXPECT_EQ(receive(client.socket), "MN\r\n");
    return client;
  }
  // Receives the input into the arena, as Receiver does. False: the lane does not take it.
  bool wait(Connection& c, std::string_view bytes) {
    InputArena& input = batches.input();
    char* const begin = input.room();
    std::memcpy(begin, bytes.data(), bytes.size());
    input.take(bytes.size());
    return lane.wait(c, begin, begin + bytes.size(), 0);
  }
};

TEST_F(LaneStaging, WhatTheLaneLeavesIsParsedAndAnsweredBehindItsReplies) {
  store("a", "1");
  const Client plain = connect_text(), mixed = connect_text(), half = connect_text();
  ASSERT_TRUE(wait(plain.connection, "get a\r\nget b\r\n"));
  ASSERT_TRUE(wait(mixed.connection, "get a\r\ndelete a\r\nget a\r\nverbosity 1\r\nmn\r\n"));
  ASSERT_TRUE(wait(half.connection, "get b\r\nget"));
  EXPECT_EQ(receive(plain.socket), "") << "it waits";
  lane.run();
  EXPECT_EQ(receive(plain.socket), hit("a", "1") + "END\r\nEND\r\n");
  EXPECT_EQ(receive(half.socket), "END\r\n");
  EXPECT_EQ(receive(mixed.socket), hit("a", "1") + "END\r\nDELETED\r\nEND\r\n");
  ASSERT_EQ(batches.in().entries.size(), 2u);
  EXPECT_EQ(batches.batch().size(), 2u);
  EXPECT_TRUE(batches.in().stays_here);
  batches.run(false);
  EXPECT_EQ(receive(mixed.socket), "OK\r\nMN\r\n");
  EXPECT_EQ(std::string(half.connection.kept.data(), half.connection.kept.size()), "get");
}

// When the output is full it is sent. A connection that does not read is blocked then; those behind it are answered.
TEST_F(LaneStaging, AFullOutputBlocksTheConnectionThatDoesNotRead) {
  const std::string value(8000, 'v'), reply = hit("v", value) + "END\r\n";
  store("v", value);
  const Client full = connect_text(), next = connect_text(), last = connect_text();
  ASSERT_TRUE(wait(full.connection, times(300, "get v\r\n")));
  ASSERT_TRUE(wait(next.connection, times(20, "get v\r\n")));
  ASSERT_TRUE(wait(last.connection, "get v\r\n"));
  lane.run();
  EXPECT_TRUE(receive(next.socket) == times(20, reply));
  EXPECT_TRUE(receive(last.socket) == reply);
  EXPECT_EQ(batches.in().entries.size(), 1u) << "the lane has answered the others";
  batches.run(false);
  ASSERT_TRUE(full.connection.is_blocked());
  EXPECT_TRUE(full.connection.resumes);
  const std::size_t left = full.connection.kept.size() / std::string_view("get v\r\n").size();
  EXPECT_GT(left, 0u);
  std::string all = receive(full.socket);
  while (!sender.drain(full.connection)) all += receive(full.socket);
  all += receive(full.socket);
  EXPECT_TRUE(all == times(300 - left, reply)) << all.size();
}

TEST_F(LaneStaging, IsClosedWhileClientsWatch) {
  store("a", "1");
  const Client early = connect_text(), late = connect_text();
  ASSERT_TRUE(wait(early.connection, "get a\r\n"));
  worker.recorder.set_flags(EventLog::detail_flag);
  lane.run();
  EXPECT_EQ(receive(early.socket), "");
  batches.run(false);
  EXPECT_EQ(receive(early.socket), hit("a", "1") + "END\r\n");
  lane.begin_pass(false, false);
  EXPECT_FALSE(lane.is_open());
  EXPECT_FALSE(wait(late.connection, "get a\r\n"));
}

TEST_F(LaneStaging, TakesNoInputBehindALargeValue) {
  const Client filling = connect();
  add(filling.connection, "set v 0 0 100000\r\nabc");
  batches.run(false);
  EXPECT_FALSE(wait(filling.connection, "get a\r\n"));
  batches.input().reuse();
}

TEST_F(LaneStaging, GoesOnWithinACommand) {
  const Client client = connect_text();
  ASSERT_TRUE(wait(client.connection, "set v 0 0 5\r\nab"));
  lane.run();
  batches.run(false);
  EXPECT_EQ(std::string(client.connection.kept.data(), client.connection.kept.size()), "set v 0 0 5\r\nab");
  ASSERT_TRUE(wait(client.connection, "set v 0 0 5\r\nabc"));
  lane.run();
  batches.run(false);
  ASSERT_TRUE(wait(client.connection, "set v 0 0 5\r\nabcde\r\nget v\r\n"));
  client.connection.kept.assign(nullptr, nullptr);
  lane.run();
  EXPECT_TRUE(batches.in().entries.empty());
  EXPECT_EQ(receive(client.socket), "STORED\r\n" + hit("v", "abcde") + "END\r\n");
}

}  // namespace
}  // namespace tandem::net::parts_test
