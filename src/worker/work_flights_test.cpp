// Intakes without an event loop: the order of answers beside a device.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "worker/worker_parts_fixture.hpp"

namespace tandem::net::parts_test {
namespace {

class Flights : public testing::Test {
 protected:
  Flights() { parts_.work.runner().set_patience(std::chrono::hours(1)); }
  // Adds input and hands it over. Again while the device is not ready yet, which leaves it to the host.
  template <class Add>
  void hand_over(Add add_input) {
    const unsigned before = parts_.work.in_flight();
    parts_.work.begin_pass(cycles_now());
    ASSERT_TRUE(parts_.work.asks_with_input());
    add_input();
    parts_.work.end();
    ASSERT_EQ(parts_.work.in_flight(), before + 1);
  }

  Parts parts_{std::make_shared<SimDevice>(SimOptions{}), std::uint64_t{16} << 20};
};

TEST_F(Flights, AreAnsweredInTheOrderOfHandingOver) {
  parts_.store("a", "1");
  parts_.store("b", "2");
  const Client first = parts_.connect(), second = parts_.connect(), here = parts_.connect();
  hand_over([&] { parts_.add(first.connection, "get a\r\nset a 0 0 1\r\n2\r\n"); });
  hand_over([&] { parts_.add(second.connection, "get b\r\n"); });
  EXPECT_TRUE(first.connection.in_flight);
  EXPECT_TRUE(second.connection.in_flight);
  EXPECT_EQ(Parts::receive(first.socket), "");
  // Another connection is served meanwhile; what it sends next belongs to another intake than the answers.
  parts_.add(here.connection, "get a\r\n");
  parts_.work.answer_here();
  EXPECT_EQ(Parts::receive(here.socket), hit("a", "1") + "END\r\n");
  parts_.add(here.connection, "get c\r\n");
  parts_.work.answer_oldest();
  EXPECT_EQ(Parts::receive(first.socket), hit("a", "1") + "END\r\nSTORED\r\n");
  EXPECT_EQ(Parts::receive(second.socket), "");
  EXPECT_FALSE(first.connection.in_flight);
  EXPECT_TRUE(second.connection.in_flight);
  ASSERT_EQ(parts_.work.in().askers.size(), 1u);
  EXPECT_EQ(parts_.work.in().askers.front().owner, &here.connection);
  parts_.work.answer_oldest();
  EXPECT_EQ(Parts::receive(second.socket), hit("b", "2") + "END\r\n");
  EXPECT_FALSE(second.connection.in_flight);
  EXPECT_FALSE(parts_.work.answers_ready());
  parts_.work.answer_here();
  EXPECT_EQ(Parts::receive(here.socket), "END\r\n");
}

// A port's buffers are in use from handing over to the answer, for each batch with datagrams of it.
TEST_F(Flights, HoldTheBuffersOfTheirPorts) {
  const auto udp = Parts::connect_udp();
  const auto& port = udp.second;
  UdpDatagram& datagram = parts_.datagram_of(udp, "get a\r\n");
  const auto wait = [&] {
    datagram.begin(7, parts_.state().protocol, parts_.worker.clock());
    parts_.add(datagram);
  };
  hand_over([&] {
    wait();
    wait();
  });
  EXPECT_EQ(port->batches_in_flight, 1u);
  hand_over(wait);
  EXPECT_EQ(port->batches_in_flight, 2u);
  parts_.work.answer_oldest();
  EXPECT_EQ(port->batches_in_flight, 1u);
  parts_.work.answer_oldest();
  EXPECT_EQ(port->batches_in_flight, 0u);
  EXPECT_EQ(Parts::receive(udp.first).size(), 3 * (udp_frame_bytes + 5));
}

// The host could only ask it again. Longer than it waits elsewhere; a device may be later than that on a busy machine.
TEST(LateDevice, IsWaitedForWhereItAloneHasTheIndex) {
  bool waited = false;
  for (unsigned tries = 0; tries < 20 && !waited; ++tries) {
    Parts parts{std::make_shared<SimDevice>(SimOptions{.latency = std::chrono::milliseconds(3)}), 0, true};
    Runner& runner = parts.work.runner();
    runner.set_patience(std::chrono::hours(1));
    ASSERT_GT(runner.count(), 1u);
    std::vector<Client> clients;
    for (unsigned i = 0; i < runner.count(); ++i) {
      clients.push_back(parts.connect());
      parts.work.begin_pass(cycles_now());
      parts.add(clients.back().connection, "get a\r\n");
      parts.work.end();
    }
    waited = clients.back().connection.in_flight;
    if (waited) {
      EXPECT_EQ(Parts::receive(clients.front().socket), "END\r\n");
    }
    parts.work.finish();
    for (const Client& client : clients) static_cast<void>(Parts::receive(client.socket));
  }
  EXPECT_TRUE(waited);
}

}  // namespace
}  // namespace tandem::net::parts_test
