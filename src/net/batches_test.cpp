// Batches without an event loop: what a connection's entry leaves, and the order of answers beside a device.
#include "net/batches.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "net/worker_parts_fixture.hpp"

namespace tandem::net::parts_test {
namespace {

TEST(Batches, WhatIsNotParsedIsKept) {
  Parts parts;
  const Client whole = parts.connect(), half = parts.connect();
  parts.add(whole.connection, "get a\r\n");
  parts.add(half.connection, "get a\r\nset a 0 0 5\r\nab");
  parts.batches.run(false);
  EXPECT_EQ(Parts::receive(whole.socket), "END\r\n");
  EXPECT_EQ(Parts::receive(half.socket), "END\r\n");
  EXPECT_EQ(whole.connection.kept.size(), 0u);
  EXPECT_EQ(std::string(half.connection.kept.data(), half.connection.kept.size()), "set a 0 0 5\r\nab");
  EXPECT_FALSE(half.connection.resumes);
  EXPECT_EQ(half.connection.state.load(), ConnectionState::keeping);
  EXPECT_TRUE(parts.batches.in().entries.empty());
  EXPECT_EQ(parts.batches.batch().size(), 0u);
}

TEST(Batches, AConnectionThatQuitsIsClosedAfterItsReplies) {
  Parts parts;
  const Client client = parts.connect();
  parts.add(client.connection, "get a\r\nquit\r\nget a\r\n");
  parts.batches.run(false);
  EXPECT_EQ(Parts::receive(client.socket), "END\r\n");
  EXPECT_TRUE(client.connection.is_closed());
  EXPECT_EQ(client.connection.close_reason, CloseReason::normal);
}

// run(true): the last entry stays for the rest of its input, as an entry of the next batch.
TEST(Batches, TheLastEntryStaysIfItsConnectionCanContinue) {
  Parts parts;
  parts.store("p", std::string(1'000'000, 'p'));
  const std::string input = "get a\r\nget b\r\n";
  const Client first = parts.connect(), last = parts.connect();
  parts.add(first.connection, "get a\r\n");
  parts.add(last.connection, input);
  parts.batches.run(true);
  ASSERT_EQ(parts.batches.in().entries.size(), 1u);
  EXPECT_EQ(parts.batches.in().entries.front().connection, &last.connection);
  EXPECT_EQ(parts.batches.in().entries.front().first_query, 0u);
  EXPECT_EQ(Parts::receive(first.socket), "END\r\n");
  EXPECT_EQ(Parts::receive(last.socket), "END\r\nEND\r\n");
  parts.batches.run(false);
  const std::string blocks = "get p\r\nget p\r\n";
  parts.add(last.connection, blocks);
  parts.batches.run(true);
  EXPECT_TRUE(last.connection.is_blocked());
  EXPECT_TRUE(parts.batches.in().entries.empty());
  EXPECT_EQ(std::string(last.connection.kept.data(), last.connection.kept.size()), "get p\r\n");
  EXPECT_TRUE(last.connection.resumes);
}

class BatchesInFlight : public testing::Test {
 protected:
  void hand_over() {
    const Plan& plan = parts_.worker.planner.plan_for(parts_.batches.batch().size());
    ASSERT_TRUE(parts_.worker.runner->can_begin(plan));
    parts_.batches.hand_over([&] { parts_.worker.runner->submit(plan); });
  }
  void answer() {
    parts_.batches.begin_answer();
    parts_.batches.answer();
    parts_.batches.end_answer();
  }

  Parts parts_{std::make_shared<SimDevice>(SimOptions{})};
};

TEST_F(BatchesInFlight, AreAnsweredInTheOrderOfHandingOver) {
  parts_.store("a", "1");
  const Client first = parts_.connect(), second = parts_.connect(), here = parts_.connect();
  parts_.add(first.connection, "get a\r\nset a 0 0 1\r\n2\r\n");
  hand_over();
  parts_.add(second.connection, "get a\r\n");
  hand_over();
  EXPECT_TRUE(first.connection.in_flight);
  EXPECT_TRUE(second.connection.in_flight);
  EXPECT_EQ(Parts::receive(first.socket), "");
  // Another connection is served meanwhile; what it sends next belongs to another intake than the answers.
  parts_.add(here.connection, "get a\r\n");
  parts_.batches.run(false);
  EXPECT_EQ(Parts::receive(here.socket), hit("a", "1") + "END\r\n");
  parts_.add(here.connection, "get b\r\n");
  answer();
  EXPECT_EQ(Parts::receive(first.socket), hit("a", "1") + "END\r\nSTORED\r\n");
  EXPECT_EQ(Parts::receive(second.socket), "");
  EXPECT_FALSE(first.connection.in_flight);
  EXPECT_TRUE(second.connection.in_flight);
  ASSERT_EQ(parts_.batches.in().entries.size(), 1u);
  EXPECT_EQ(parts_.batches.in().entries.front().connection, &here.connection);
  answer();
  EXPECT_EQ(Parts::receive(second.socket), hit("a", "2") + "END\r\n");
  EXPECT_FALSE(second.connection.in_flight);
  EXPECT_FALSE(parts_.batches.has_answers());
  parts_.batches.run(false);
  EXPECT_EQ(Parts::receive(here.socket), "END\r\n");
}

// A port's buffers are in use from handing over to the answer, for each batch with datagrams of it.
TEST_F(BatchesInFlight, HoldTheBuffersOfTheirPorts) {
  const auto udp = Parts::connect_udp();
  const auto& port = udp.second;
  const std::string_view request = "get a\r\n";
  UdpDatagram& datagram = parts_.datagram_of(udp, request);
  const auto run = [] { FAIL() << "the batch is full"; };
  const auto parse = [&] { parts_.parser.parse(datagram, request.data(), request.data() + request.size(), run); };
  parse();
  parse();
  hand_over();
  EXPECT_EQ(port->batches_in_flight, 1u);
  parse();
  hand_over();
  EXPECT_EQ(port->batches_in_flight, 2u);
  answer();
  EXPECT_EQ(port->batches_in_flight, 1u);
  answer();
  EXPECT_EQ(port->batches_in_flight, 0u);
  EXPECT_EQ(Parts::receive(udp.first).size(), 3 * (udp_frame_bytes + 5));
}

}  // namespace
}  // namespace tandem::net::parts_test
