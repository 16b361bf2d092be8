// Replies without an event loop: which connection or datagram gets which bytes, and what becomes of those that are not
// taken.
#include "worker/responder.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codec/udp.hpp"
#include "worker/worker_parts_fixture.hpp"

namespace tandem::net::parts_test {
namespace {

class ResponderTest : public testing::Test, protected Parts {
 protected:
  // How many lines of this length the connection keeps for later.
  static std::size_t left(const Connection& c, std::string_view line) { return c.kept.size() / line.size(); }
};

std::string datagram(std::uint16_t id, std::uint16_t sequence, std::uint16_t total, std::string_view payload) {
  std::string all(udp_frame_bytes, '\0');
  write_udp_frame({id, sequence, total}, all.data());
  return all.append(payload);
}

TEST_F(ResponderTest, EachConnectionGetsItsReplies) {
  store("a", "1");
  const Client one = connect(), two = connect(), quiet = connect();
  add(one.connection, "get a\r\nget none\r\n");
  add(quiet.connection, "mg none v q\r\n");
  add(two.connection, "get a\r\nverbosity 0\r\nset a 0 0 1\r\n2\r\nget a\r\n");
  run();
  EXPECT_EQ(receive(one.socket), hit("a", "1") + "END\r\nEND\r\n");
  EXPECT_EQ(receive(two.socket), hit("a", "1") + "END\r\nOK\r\nSTORED\r\n" + hit("a", "2") + "END\r\n");
  EXPECT_EQ(receive(quiet.socket), "");
}

// The output is sent on the way. What the socket does not take is kept; queries behind that are not executed, and can
// be parsed again.
TEST_F(ResponderTest, AFullSocketBlocksItsConnectionOnly) {
  const std::string value(8000, 'v'), reply = hit("v", value) + "END\r\n";
  store("v", value);
  const Client full = connect(), other = connect();
  const std::string gets = times(300, "get v\r\n");
  add(full.connection, gets);
  add(other.connection, "get v\r\n");
  const std::uint64_t gets_before = worker.context->counters.cmd_get.get();
  run();
  EXPECT_EQ(receive(other.socket), reply);
  ASSERT_TRUE(full.connection.is_blocked());
  ASSERT_TRUE(full.connection.resumes);
  EXPECT_EQ(worker.counters.blocked.get(), 1u);
  const std::size_t skipped = left(full.connection, "get v\r\n");
  EXPECT_GT(skipped, 0u);
  EXPECT_LT(skipped, 300u);
  EXPECT_EQ(worker.context->counters.cmd_get.get() - gets_before, 300 - skipped + 1);
  EXPECT_EQ(state().unsent.used_bytes(), full.connection.unsent->copied_bytes());
  std::string all;
  do {
    all += receive(full.socket);
  } while (!sender.drain(full.connection) && !full.connection.is_closed());
  all += receive(full.socket);
  EXPECT_FALSE(full.connection.is_blocked());
  EXPECT_EQ(state().unsent.used_bytes(), 0u);
  EXPECT_TRUE(all == times(300 - skipped, reply)) << all.size();
  // The same queries again.
  const std::string rest = kept(full.connection);
  full.connection.kept.assign(nullptr, nullptr);
  ask(full.connection, rest.substr(0, 14));
  EXPECT_TRUE(receive(full.socket) == times(2, reply));
}

TEST_F(ResponderTest, ALongValueThatTheSocketTakesBlocksNothing) {
  const std::string value(50'000, 'p');
  store("p", value);
  const Client reader = connect();
  add(reader.connection, "get p\r\n");
  run();
  EXPECT_EQ(worker.counters.blocked.get(), 0u);
  EXPECT_EQ(reader.connection.state.load(), ConnectionState::reading);
  EXPECT_FALSE(heap().has_pins());
  EXPECT_TRUE(receive(reader.socket) == hit("p", value) + "END\r\n");
}

// Long values are sent from their items, which are pinned as long as that takes.
TEST_F(ResponderTest, PinsEndWithTheSendingOrTheConnection) {
  const std::string value(1'000'000, 'p');
  store("p", value);
  for (const bool is_read : {true, false}) {
    const Client reader = connect();
    add(reader.connection, "get p\r\nget p\r\n");
    run();
    ASSERT_TRUE(reader.connection.is_blocked());
    EXPECT_TRUE(heap().has_pins());
    EXPECT_EQ(state().pinned.used_bytes(), reader.connection.unsent->pinned_bytes());
    std::string all;
    while (is_read && reader.connection.is_blocked()) {
      all += receive(reader.socket);
      sender.drain(reader.connection);
    }
    all += receive(reader.socket);
    // The second get can be executed again: it waits for the first one's value to be read.
    EXPECT_TRUE(!is_read || all == hit("p", value) + "END\r\n") << all.size();
    EXPECT_EQ(kept(reader.connection), "get p\r\n");
    connections.close(reader.connection);
    EXPECT_FALSE(heap().has_pins());
    EXPECT_EQ(state().pinned.used_bytes(), 0u);
    connections.free_closed();
  }
}

TEST_F(ResponderTest, RepliesToAClosedConnectionAreDropped) {
  const std::string value(100'000, 'p');
  store("p", value);
  const Client gone = connect();
  add(gone.connection, "get p\r\nset q 0 0 1\r\nq\r\n");
  connections.close(gone.connection);
  run();
  EXPECT_EQ(receive(gone.socket), "");
  EXPECT_FALSE(heap().has_pins());
}

TEST_F(ResponderTest, EachCommandOfADatagramHasAReply) {
  store("a", "1");
  const std::string value(20'000, 'd');  // pinned, and longer than a datagram
  store("d", value);
  const auto udp = connect_udp();
  const Fd& client = udp.first;
  const Client tcp = connect();
  const std::string_view request = "get a\r\nmg none v q\r\nget none\r\nget d\r\n";
  UdpDatagram& asked = datagram_of(udp, request);
  add(asked);
  add(tcp.connection, "get a\r\n");
  UdpDatagram elsewhere;
  elsewhere.reply = {udp.second.get(), 0, 9};
  Asker of_device{.owner = &elsewhere, .frame = asked.data};
  sink.send_whole(of_device, datagram(9, 0, 1, "made elsewhere\r\n"));
  run();
  EXPECT_EQ(receive(tcp.socket), hit("a", "1") + "END\r\n");
  std::vector<std::string> all;
  char some[2000];
  for (ssize_t n; (n = recv(client.get(), some, sizeof some, 0)) > 0;)
    all.emplace_back(some, static_cast<std::size_t>(n));
  const std::string long_reply = hit("d", value) + "END\r\n";
  const auto pieces =
      static_cast<std::uint16_t>((long_reply.size() + udp_payload_bytes_max - 1) / udp_payload_bytes_max);
  ASSERT_EQ(all.size(), 3u + pieces);
  EXPECT_EQ(all[0], datagram(9, 0, 1, "made elsewhere\r\n"));
  EXPECT_EQ(all[1], datagram(7, 0, 1, hit("a", "1") + "END\r\n"));
  EXPECT_EQ(all[2], datagram(7, 0, 1, "END\r\n"));
  for (std::uint16_t i = 0; i < pieces; ++i) {
    EXPECT_TRUE(all[3u + i] ==
                datagram(7, i, pieces, long_reply.substr(i * udp_payload_bytes_max, udp_payload_bytes_max)))
        << i;
  }
  EXPECT_EQ(asked.messages, 3u);
  EXPECT_EQ(worker.counters.udp_replies_dropped.get(), 0u);
  EXPECT_FALSE(heap().has_pins());
}

TEST_F(ResponderTest, ATooLongReplyToADatagramIsDroppedWithItsPins) {
  store("p", std::string(1'000'000, 'p'));
  const auto udp = connect_udp();
  const std::string_view request = "get p p p\r\nget none\r\n";
  add(datagram_of(udp, request));
  run();
  EXPECT_EQ(receive(udp.first), "");
  EXPECT_EQ(worker.counters.udp_replies_dropped.get(), 1u);
  EXPECT_FALSE(heap().has_pins());
}

}  // namespace
}  // namespace tandem::net::parts_test
