// What answers an input, without an event loop: the host, or a device that may be late.
#include "net/dispatcher.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "net/worker_parts_fixture.hpp"

namespace tandem::net::parts_test {
namespace {

class Dispatching : public Parts {
 public:
  explicit Dispatching(const std::shared_ptr<Device>& device = nullptr) : Parts(device) { dispatcher.begin_pass(); }
  // Gives the connection's input to the dispatcher as the last of a pass.
  void ask(const Client& client, std::string_view input) {
    add(client.connection, input);
    dispatcher.run_all();
  }

  // Has the input wait for the lane, which does not see the bytes behind it. False: the lane does not take it.
  bool wait(Connection& c, std::string_view bytes) {
    InputArena& input = batches.input();
    char* const begin = input.room();
    std::memcpy(begin, bytes.data(), bytes.size());
    std::memset(begin + bytes.size(), '\n', lane_padding_bytes);
    input.take(bytes.size());
    return lane.wait(c, begin, begin + bytes.size(), 0);
  }

  FrameStage frames{worker, connections, limits, sender, responder, batches, lane};
  Dispatcher dispatcher{worker, batches, lane, frames};
};

TEST(Dispatcher, WithoutADeviceTheHostAnswersAtOnce) {
  Dispatching s;
  s.store("a", "1");
  const Client client = s.connect();
  s.ask(client, "get a\r\n");
  EXPECT_EQ(Parts::receive(client.socket), hit("a", "1") + "END\r\n");
  EXPECT_FALSE(client.connection.in_flight);
  EXPECT_FALSE(s.batches.has_answers());
}

// While no device serves, as it is lost or its replica rests, the host is as fast as without one.
TEST(Dispatcher, WhereNoDeviceServesTheLaneAnswers) {
  const auto device = std::make_shared<SimDevice>(SimOptions{});
  Dispatching s(device);
  s.store("a", "1");
  EXPECT_TRUE(s.frames.is_open());
  EXPECT_TRUE(s.lane.is_open());
  device->lose();
  while (s.frames.is_open()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    s.dispatcher.begin_pass();
  }
  EXPECT_FALSE(s.frames.takes_queries());
  ASSERT_TRUE(s.lane.is_open());
  const Client client = s.connect();
  s.ask(client, "mn\r\n");  // its parser knows the protocol then
  EXPECT_EQ(Parts::receive(client.socket), "MN\r\n");
  ASSERT_TRUE(s.wait(client.connection, "get a\r\n"));
  s.dispatcher.run_all();
  EXPECT_EQ(Parts::receive(client.socket), hit("a", "1") + "END\r\n");
}

// A third batch does not wait long for a device that hangs: the host runs it. What the device has is answered later, in
// order.
TEST(Dispatcher, ADeviceThatIsLateDelaysOnlyWhatItHas) {
  const auto device = std::make_shared<SimDevice>(SimOptions{});
  Dispatching s(device);
  s.store("a", "1");
  const Client first = s.connect(), second = s.connect(), third = s.connect();
  device->hang();
  s.ask(first, "get a\r\nset a 0 0 1\r\n2\r\n");
  s.ask(second, "get a\r\n");
  ASSERT_EQ(s.worker.runner->in_flight(), 2u);
  EXPECT_TRUE(first.connection.in_flight && second.connection.in_flight);
  s.ask(third, "get a\r\n");
  EXPECT_EQ(Parts::receive(third.socket), hit("a", "1") + "END\r\n");
  EXPECT_EQ(Parts::receive(first.socket), "");
  EXPECT_EQ(Parts::receive(second.socket), "");
  device->resume();
  s.dispatcher.answer_oldest();
  EXPECT_EQ(Parts::receive(first.socket), hit("a", "1") + "END\r\nSTORED\r\n");
  EXPECT_EQ(Parts::receive(second.socket), "");
  s.dispatcher.answer_oldest();
  EXPECT_EQ(Parts::receive(second.socket), hit("a", "2") + "END\r\n");
  EXPECT_EQ(s.worker.runner->in_flight(), 0u);
}

// A datagram's message of more keys than a batch holds is whole before anything else is answered.
TEST(Dispatcher, AMessageOfSeveralBatchesIsNotHandedOver) {
  const auto device = std::make_shared<SimDevice>(SimOptions{});
  Dispatching s(device);
  s.store("a", "1");
  const Client client = s.connect();
  const auto udp = Parts::connect_udp();
  const std::string line = "get a" + times(device_batch_queries + 100, " none") + " a\r\n";
  UdpDatagram& datagram = s.datagram_of(udp, line);
  s.parser.parse(datagram, line.data(), line.data() + line.size(), [] { FAIL() << "the batch is empty"; });
  EXPECT_EQ(datagram.messages, 1u);
  s.ask(client, "get a\r\n");
  while (s.worker.runner->in_flight() != 0) s.dispatcher.answer_oldest();
  EXPECT_EQ(Parts::receive(client.socket), hit("a", "1") + "END\r\n");
  EXPECT_EQ(Parts::receive(udp.first).substr(udp_frame_bytes), times(2, hit("a", "1")) + "END\r\n");
}

// The rest of a connection's input waits until what was handed over is answered.
TEST(Dispatcher, AConnectionIsInOneBatchAtATime) {
  const auto device = std::make_shared<SimDevice>(SimOptions{});
  Dispatching s(device);
  const Client client = s.connect();
  const std::string input = times(device_batch_queries + 100, "get a\r\n");
  s.batches.add_entry(&client.connection, input.data(), input.data() + input.size());
  s.parser.parse(client.connection, [&] { s.dispatcher.run_batch(true); });
  EXPECT_TRUE(client.connection.in_flight);
  EXPECT_TRUE(s.batches.in().entries.empty());
  EXPECT_EQ(s.worker.counters.conn_yields.get(), 1u);
  s.dispatcher.answer_oldest();
  EXPECT_EQ(Parts::receive(client.socket), times(device_batch_queries, "END\r\n"));
  EXPECT_TRUE(client.connection.resumes);
  EXPECT_EQ(client.connection.kept.size(), 100 * std::string_view("get a\r\n").size());
}

// A connection that the lane's replies have blocked is in no batch in flight.
TEST(Dispatcher, WhatFollowsTheLaneStaysWithTheHost) {
  const auto device = std::make_shared<SimDevice>(SimOptions{});
  Dispatching s(device);
  s.store("x", "1");
  s.lane.begin_pass(false, false);
  const Client fills = s.connect(), late = s.connect();
  s.add(late.connection, "mn\r\n");  // its parser knows its protocol now
  s.batches.run(false);
  ASSERT_EQ(Parts::receive(late.socket), "MN\r\n");
  const std::string line = "gat 0 y\r\n", full = times(device_batch_queries, line);
  s.add(fills.connection, full);
  ASSERT_EQ(s.batches.batch().size(), device_batch_queries);
  ASSERT_TRUE(s.wait(late.connection, "get x\r\nverbosity 1\r\n" + times(100, line)));
  s.lane.run();
  EXPECT_EQ(Parts::receive(fills.socket), times(device_batch_queries, "END\r\n"));
  s.dispatcher.run_batch(false);
  EXPECT_FALSE(late.connection.in_flight);
  EXPECT_EQ(Parts::receive(late.socket), hit("x", "1") + "END\r\nOK\r\n" + times(100, "END\r\n"));
}

TEST(Dispatcher, MakesRoomByAnsweringWhatWasReceived) {
  Dispatching s;
  const Client client = s.connect();
  s.add(client.connection, "get a\r\n");
  s.dispatcher.make_room(input_arena_bytes - 4096);
  EXPECT_EQ(Parts::receive(client.socket), "") << "there is room";
  s.batches.input().take(8192);
  s.dispatcher.make_room(input_arena_bytes - 4096);
  EXPECT_EQ(Parts::receive(client.socket), "END\r\n");
  EXPECT_TRUE(s.batches.input().has_room(input_arena_bytes));
}

}  // namespace
}  // namespace tandem::net::parts_test
