// Intakes without an event loop: the order of answers beside a device.
#include "net/batches.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "net/worker_parts_fixture.hpp"

namespace tandem::net::parts_test {
namespace {

class BatchesInFlight : public testing::Test {
 protected:
  void hand_over() {
    parts_.lane.collect();
    ASSERT_TRUE(parts_.worker.runner->can_begin(plan_search));
    parts_.batches.hand_over([&] { parts_.worker.runner->submit(plan_search); });
  }
  void answer() {
    parts_.batches.begin_answer();
    parts_.lane.run();
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
  parts_.lane.run();
  EXPECT_EQ(Parts::receive(here.socket), hit("a", "1") + "END\r\n");
  parts_.add(here.connection, "get b\r\n");
  answer();
  EXPECT_EQ(Parts::receive(first.socket), hit("a", "1") + "END\r\nSTORED\r\n");
  EXPECT_EQ(Parts::receive(second.socket), "");
  EXPECT_FALSE(first.connection.in_flight);
  EXPECT_TRUE(second.connection.in_flight);
  ASSERT_EQ(parts_.batches.in().waits.size(), 1u);
  EXPECT_EQ(parts_.batches.in().waits.front().connection, &here.connection);
  answer();
  EXPECT_EQ(Parts::receive(second.socket), hit("a", "2") + "END\r\n");
  EXPECT_FALSE(second.connection.in_flight);
  EXPECT_FALSE(parts_.batches.has_answers());
  parts_.lane.run();
  EXPECT_EQ(Parts::receive(here.socket), "END\r\n");
}

// A port's buffers are in use from handing over to the answer, for each batch with datagrams of it.
TEST_F(BatchesInFlight, HoldTheBuffersOfTheirPorts) {
  const auto udp = Parts::connect_udp();
  const auto& port = udp.second;
  UdpDatagram& datagram = parts_.datagram_of(udp, "get a\r\n");
  const auto wait = [&] {
    const std::string_view request = datagram.request();
    datagram.begin(7, parts_.state().protocol, parts_.worker.clock());
    parts_.lane.wait(datagram, request.data(), request.data() + request.size());
  };
  wait();
  wait();
  hand_over();
  EXPECT_EQ(port->batches_in_flight, 1u);
  wait();
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
