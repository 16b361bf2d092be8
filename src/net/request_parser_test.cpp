// PP without an event loop: what is done with input that does not fit the batch.
#include "net/request_parser.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "net/socket_reader.hpp"
#include "net/worker_parts_fixture.hpp"

namespace tandem::net::parts_test {
namespace {

struct Parsing : testing::Test, Parts {
  const Intake& in() { return batches.in(); }
  // What is called for a full batch: counts it.
  auto run(bool continues) {
    return [this, continues] {
      queries.push_back(batches.batch().size());
      batches.run(continues);
    };
  }
  void parse(Connection& c, std::string_view input) {
    batches.add_entry(&c, input.data(), input.data() + input.size());
    parser.parse(c, run(true));
  }
  std::vector<std::uint32_t> queries;  // of the full batches
};

TEST_F(Parsing, AFullBatchIsRunOnTheWay) {
  const std::string input = times(batch_queries + 100, "get a\r\n") + "get";
  const Client client = connect();
  parse(client.connection, input);
  EXPECT_EQ(queries, std::vector<std::uint32_t>{batch_queries});
  EXPECT_EQ(batches.batch().size(), 100u);
  ASSERT_EQ(in().entries.size(), 1u);
  EXPECT_EQ(in().entries.front().first_query, 0u);
  EXPECT_EQ(in().entries.front().stop, Stop::need_more);
  batches.run(false);
  EXPECT_EQ(receive(client.socket), times(batch_queries + 100, "END\r\n"));
  EXPECT_EQ(std::string(client.connection.kept.data(), client.connection.kept.size()), "get");
  EXPECT_EQ(worker.counters.conn_yields.get(), 0u);
}

TEST_F(Parsing, AConnectionThatHasHadItsShareYields) {
  const std::string input = times(3 * batch_queries, "get a\r\n");
  const Client client = connect();
  parse(client.connection, input);
  EXPECT_EQ(queries.size(), 2u);  // the share is more than one batch
  ASSERT_EQ(in().entries.size(), 1u);
  EXPECT_EQ(in().entries.front().stop, Stop::yield);
  EXPECT_EQ(worker.counters.conn_yields.get(), 1u);
  batches.run(false);
  EXPECT_EQ(receive(client.socket), times(2 * batch_queries, "END\r\n"));
  EXPECT_TRUE(client.connection.resumes);
  EXPECT_EQ(client.connection.kept.size(), input.size() / 3);
}

TEST_F(Parsing, ADatagramIsAnsweredAtOnceInAnyNumberOfBatches) {
  store("c", std::string(2000, 'c'));
  const std::string input = times(batch_queries - 5, "get a\r\n"), request = times(10, "get b\r\n"),
                    line = "get c" + times(2 * batch_queries, " none") + " c\r\nget d\r\n";
  const Client client = connect();
  const auto udp = connect_udp();
  parse(client.connection, input);
  // It may not fit behind the other queries, which are run before it.
  UdpDatagram& some = datagram_of(udp, request);
  parser.parse(some, request.data(), request.data() + request.size(), run(false));
  EXPECT_EQ(queries, std::vector<std::uint32_t>{batch_queries - 5});
  EXPECT_EQ(receive(client.socket), times(batch_queries - 5, "END\r\n"));
  EXPECT_EQ(batches.batch().size(), 10u);
  ASSERT_EQ(in().entries.size(), 1u);
  EXPECT_EQ(in().entries.front().datagram, &some);
  batches.run(false);
  EXPECT_EQ(receive(udp.first).size(), 10 * (udp_frame_bytes + 5));
  // A message that three batches have keys of.
  UdpDatagram& many = datagram_of(udp, line);
  parser.parse(many, line.data(), line.data() + line.size(), run(false));
  EXPECT_EQ(queries.size(), 1u);
  EXPECT_EQ(many.messages, 2u) << "it waits for nothing";
  const std::size_t bytes = 2 * hit("c", std::string(2000, 'c')).size() + 5;
  const std::size_t frames = (bytes + udp_payload_bytes_max - 1) / udp_payload_bytes_max;
  EXPECT_EQ(receive(udp.first).size(), bytes + frames * udp_frame_bytes + udp_frame_bytes + 5);
  EXPECT_TRUE(in().entries.empty());
  EXPECT_EQ(worker.counters.udp_replies_dropped.get(), 0u);
}

TEST_F(Parsing, AMessageThatGrowsTooLongEndsItsDatagram) {
  store("c", std::string(16'000, 'c'));
  const std::string line = "get" + times(2 * batch_queries, " c") + "\r\nget d\r\n";
  const auto udp = connect_udp();
  UdpDatagram& datagram = datagram_of(udp, line);
  parser.parse(datagram, line.data(), line.data() + line.size(), run(false));
  EXPECT_TRUE(in().entries.empty()) << "the rest is not parsed";
  EXPECT_EQ(receive(udp.first), "");
  EXPECT_EQ(worker.counters.udp_replies_dropped.get(), 1u);
  EXPECT_LT(worker.context->counters.cmd_get.get(), 200u);
  EXPECT_TRUE(responder.output().empty());
}

// A value too large to wait for is received into a slot, or refused when there is none.
TEST_F(Parsing, ALargeValueGetsASlotOrIsRefused) {
  const std::string value(1'000'000, 'v'), head = "set v 0 0 1000000\r\n", begin = head + value.substr(0, 1000);
  const Client client = connect(), refused = connect();
  parse(client.connection, begin);
  ASSERT_NE(client.connection.fill, nullptr);
  EXPECT_EQ(client.connection.fill->received_bytes, 1000u);
  EXPECT_EQ(state().filling.used_bytes(), value.size());
  batches.run(false);
  state().filling.set_limit(value.size());
  parse(refused.connection, begin);
  batches.run(false);
  EXPECT_EQ(receive(refused.socket), "SERVER_ERROR out of memory storing object\r\n");
  EXPECT_EQ(refused.connection.fill, nullptr);
  // As SocketReader does.
  Fill& fill = *client.connection.fill;
  value.copy(fill.value + fill.received_bytes, value.size() - fill.received_bytes, fill.received_bytes);
  fill.received_bytes = value.size();
  parse(client.connection, "\r\nget v\r\n");
  batches.run(false);
  EXPECT_EQ(client.connection.fill, nullptr);
  EXPECT_EQ(state().filling.used_bytes(), 0u);
  std::string all = receive(client.socket);
  while (client.connection.is_blocked() && !sender.drain(client.connection)) all += receive(client.socket);
  all += receive(client.socket);
  EXPECT_TRUE(all == "STORED\r\n" + hit("v", value) + "END\r\n") << all.size();
}

// Another large value probably follows: of its bytes few are received beside its slot.
TEST_F(Parsing, BehindALargeValueLittleMoreThanACommandIsReceived) {
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

  parse(c, "set v 0 0 1000000\r\nv");
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
