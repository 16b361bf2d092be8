// Values that are received into their slots, and turns, without an event loop.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "worker/socket_reader.hpp"
#include "worker/worker_parts_fixture.hpp"

namespace tandem::net::parts_test {
namespace {

struct LargeFills : testing::Test, Parts {};

// A control command may take as long as many others: a few are a turn.
TEST_F(LargeFills, AConnectionThatHasHadItsShareOfControlsYields) {
  const std::uint64_t share = worker.server.options.requests_per_event;
  const Client client = connect();
  ask(client.connection, times(share + 5, "verbosity 0\r\n") + "get a\r\n");
  EXPECT_EQ(receive(client.socket), times(share, "OK\r\n"));
  EXPECT_EQ(worker.counters.conn_yields.get(), 1u);
  EXPECT_TRUE(client.connection.resumes);
  EXPECT_EQ(kept(client.connection), times(5, "verbosity 0\r\n") + "get a\r\n");
}

// A value too large to wait for is received into a slot, or refused when there is none.
TEST_F(LargeFills, ALargeValueGetsASlotOrIsRefused) {
  const std::string value(1'000'000, 'v'), head = "set v 0 0 1000000\r\n", begin = head + value.substr(0, 1000);
  const Client client = connect(), refused = connect();
  ask(client.connection, begin);
  ASSERT_NE(client.connection.fill, nullptr);
  EXPECT_EQ(client.connection.fill->received_bytes, 1000u);
  EXPECT_EQ(state().filling.used_bytes(), value.size());
  state().filling.set_limit(value.size());
  ask(refused.connection, begin);
  EXPECT_EQ(receive(refused.socket), "SERVER_ERROR out of memory storing object\r\n");
  EXPECT_EQ(refused.connection.fill, nullptr);
  // As SocketReader does.
  Fill& fill = *client.connection.fill;
  value.copy(fill.value + fill.received_bytes, value.size() - fill.received_bytes, fill.received_bytes);
  fill.received_bytes = value.size();
  ask(client.connection, "\r\nget v\r\n");
  EXPECT_EQ(client.connection.fill, nullptr);
  EXPECT_EQ(state().filling.used_bytes(), 0u);
  std::string all = receive(client.socket);
  while (client.connection.is_blocked() && !sender.drain(client.connection)) all += receive(client.socket);
  all += receive(client.socket);
  EXPECT_TRUE(all == "STORED\r\n" + hit("v", value) + "END\r\n") << all.size();
}

// The reply is left out, the store is counted.
TEST_F(LargeFills, AQuietStoreWithABadEndIsCounted) {
  const std::string value(100'000, 'v');
  const Client client = connect();
  const std::uint64_t sets = worker.context->counters.cmd_set.get();
  for (const std::string_view quiet : {"", " noreply"}) {
    ask(client.connection, "set v 0 0 100000" + std::string(quiet) + "\r\nv");
    ASSERT_NE(client.connection.fill, nullptr);
    value.copy(client.connection.fill->value + 1, value.size() - 1);
    client.connection.fill->received_bytes = value.size();
    ask(client.connection, "xymn\r\n");
  }
  EXPECT_EQ(receive(client.socket), "CLIENT_ERROR bad data chunk\r\nMN\r\nMN\r\n");
  EXPECT_EQ(worker.context->counters.cmd_set.get() - sets, 2u);
}

// Another large value probably follows: of its bytes few are received beside its slot.
TEST_F(LargeFills, BehindALargeValueLittleMoreThanACommandIsReceived) {
  const Client client = connect();
  Connection& c = client.connection;
  SocketReader reader(worker, connections);
  const std::string input = "set v 0 0 4000\r\n" + std::string(4000, 'v') + "\r\n";
  std::vector<char> to(receive_bytes_max);
  const auto receive_once = [&] {
    EXPECT_EQ(send(client.socket.get(), input.data(), input.size(), 0), static_cast<ssize_t>(input.size()));
    c.readable = true;
    return reader.receive(c, to.data());
  };
  EXPECT_EQ(receive_once(), input.size());
  EXPECT_FALSE(c.readable);

  ask(c, "set v 0 0 1000000\r\nv");
  ASSERT_NE(c.fill, nullptr);
  EXPECT_EQ(receive_once(), receive_command_bytes_max);
  EXPECT_TRUE(c.readable);
  EXPECT_EQ(reader.receive(c, to.data()), input.size() - receive_command_bytes_max);
  EXPECT_FALSE(c.readable);
  c.readable = true;
  EXPECT_EQ(reader.receive(c, to.data()), 0u);
  EXPECT_FALSE(c.is_closed());
}

}  // namespace
}  // namespace tandem::net::parts_test
