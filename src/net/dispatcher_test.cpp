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
  explicit Dispatching(const std::shared_ptr<Device>& device = nullptr, bool alone = false) : Parts(device, 0, alone) {
    dispatcher.begin_pass();
  }
  // Gives the connection's input to the dispatcher as the last of a pass.
  void ask(const Client& client, std::string_view input) {
    add(client.connection, input);
    dispatcher.run_all();
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
  device->lose();
  while (s.frames.is_open()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    s.dispatcher.begin_pass();
  }
  EXPECT_FALSE(s.frames.takes_keys());
  const Client client = s.connect();
  s.ask(client, "get a\r\n");
  EXPECT_EQ(Parts::receive(client.socket), hit("a", "1") + "END\r\n");
}

// A third intake does not wait long for a device that hangs: the host answers it. What the device has is answered
// later, in order.
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

// Beside a device that alone has the index, and other input that it locates the keys of.
TEST(Dispatcher, TheEndOfALargeValueIsNoCommand) {
  Dispatching s(std::make_shared<SimDevice>(SimOptions{}), true);
  const std::string value(9000, 'v');
  const Client fills = s.connect(), other = s.connect();
  const auto answer = [&] {
    s.dispatcher.run_all();
    while (s.worker.runner->in_flight() != 0) s.dispatcher.answer_oldest();
  };
  s.add(fills.connection, "set v 0 0 9000\r\n");
  answer();
  ASSERT_NE(fills.connection.fill, nullptr);
  Fill& fill = *fills.connection.fill;
  value.copy(fill.value, value.size());
  fill.received_bytes = value.size();
  s.add(fills.connection, "\r\nget v\r\n");
  s.add(other.connection, "get a\r\n");
  answer();
  EXPECT_EQ(Parts::receive(fills.socket), "STORED\r\n" + hit("v", value) + "END\r\n");
  EXPECT_EQ(Parts::receive(other.socket), "END\r\n");
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
