// What answers an input, without an event loop: the host, or a device that may be late.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "worker/worker_parts_fixture.hpp"

namespace tandem::net::parts_test {
namespace {

class ChoosingParts : public Parts {
 public:
  explicit ChoosingParts(const std::shared_ptr<Device>& device = nullptr, bool alone = false)
      : Parts(device, 0, alone) {
    work.begin_pass(cycles_now());
  }
  // Gives the connection's input to the work as the last of a pass.
  void ask(const Client& client, std::string_view input) {
    add(client.connection, input);
    work.end();
  }
};

TEST(Choosing, WithoutADeviceTheHostAnswersAtOnce) {
  ChoosingParts s;
  s.store("a", "1");
  const Client client = s.connect();
  s.ask(client, "get a\r\n");
  EXPECT_EQ(Parts::receive(client.socket), hit("a", "1") + "END\r\n");
  EXPECT_FALSE(client.connection.in_flight);
  EXPECT_FALSE(s.work.answers_ready());
}

// While no device serves, as it is lost or its replica rests, the host is as fast as without one.
TEST(Choosing, WhereNoDeviceServesTheLaneAnswers) {
  const auto device = std::make_shared<SimDevice>(SimOptions{});
  ChoosingParts s(device);
  s.store("a", "1");
  EXPECT_TRUE(s.work.asks_with_input());
  device->lose();
  while (s.work.asks_with_input()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    s.work.begin_pass(cycles_now());
  }
  EXPECT_FALSE(s.work.asks_with_keys());
  const Client client = s.connect();
  s.ask(client, "get a\r\n");
  EXPECT_EQ(Parts::receive(client.socket), hit("a", "1") + "END\r\n");
}

// Else a plan whose answers come later would change what a query is seen to have of bytes, and so the load's class.
TEST(Choosing, CountsRequestsWithTheirAnswers) {
  const auto device = std::make_shared<SimDevice>(SimOptions{});
  ChoosingParts s(device);
  s.store("a", "1");
  const Client first = s.connect(), second = s.connect();
  const std::string input = "get a\r\n";
  s.worker.counters.bytes_read.add(1000);
  const std::uint64_t before = s.work.bytes();
  device->hang();
  s.worker.counters.bytes_read.add(2 * input.size());
  s.add(first.connection, input);
  s.ask(second, input);
  ASSERT_TRUE(first.connection.in_flight && second.connection.in_flight);
  EXPECT_EQ(s.work.bytes(), before);
  device->resume();
  s.work.answer_oldest();
  const std::string replies = Parts::receive(first.socket) + Parts::receive(second.socket);
  EXPECT_EQ(s.work.bytes(), before + 2 * input.size() + replies.size());
}

// A third intake does not wait long for a device that hangs: the host answers it. What the device has is answered
// later, in order.
TEST(Choosing, ADeviceThatIsLateDelaysOnlyWhatItHas) {
  const auto device = std::make_shared<SimDevice>(SimOptions{});
  ChoosingParts s(device);
  s.store("a", "1");
  const Client first = s.connect(), second = s.connect(), third = s.connect();
  device->hang();
  s.ask(first, "get a\r\nset a 0 0 1\r\n2\r\n");
  s.ask(second, "get a\r\n");
  ASSERT_EQ(s.work.runner().in_flight(), 2u);
  EXPECT_TRUE(first.connection.in_flight && second.connection.in_flight);
  s.ask(third, "get a\r\n");
  EXPECT_EQ(Parts::receive(third.socket), hit("a", "1") + "END\r\n");
  EXPECT_EQ(Parts::receive(first.socket), "");
  EXPECT_EQ(Parts::receive(second.socket), "");
  device->resume();
  s.work.answer_oldest();
  EXPECT_EQ(Parts::receive(first.socket), hit("a", "1") + "END\r\nSTORED\r\n");
  EXPECT_EQ(Parts::receive(second.socket), "");
  s.work.answer_oldest();
  EXPECT_EQ(Parts::receive(second.socket), hit("a", "2") + "END\r\n");
  EXPECT_EQ(s.work.runner().in_flight(), 0u);
}

// Beside a device that alone has the index, and other input that it locates the keys of.
TEST(Choosing, TheEndOfALargeValueIsNoCommand) {
  ChoosingParts s(std::make_shared<SimDevice>(SimOptions{}), true);
  const std::string value(9000, 'v');
  const Client fills = s.connect(), other = s.connect();
  const auto answer = [&] {
    s.work.end();
    while (s.work.runner().in_flight() != 0) s.work.answer_oldest();
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

TEST(Choosing, MakesRoomByAnsweringWhatWasReceived) {
  ChoosingParts s;
  const Client client = s.connect();
  s.add(client.connection, "get a\r\n");
  s.work.room(input_arena_bytes - 4096);
  EXPECT_EQ(Parts::receive(client.socket), "") << "there is room";
  const Client second = s.connect();
  s.add(second.connection, times(2000, "mn\r\n"));
  char* const room = s.work.room(input_arena_bytes - 4096);
  EXPECT_EQ(Parts::receive(client.socket), "END\r\n");
  EXPECT_EQ(room, s.work.in().batch->input().begin());
}

}  // namespace
}  // namespace tandem::net::parts_test
