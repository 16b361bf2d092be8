#include "bench/engine/sink.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::bench {
namespace {

std::string numbered_reply(std::size_t n) { return "reply " + std::to_string(n) + ";"; }

TEST(ReplySink, RingsHoldWhatEachClientGotLast) {
  ReplySink sink(SinkKind::copy);
  sink.add_clients(3);
  ASSERT_EQ(sink.ring_bytes(), ReplySink::ring_bytes_max);
  std::vector<std::string> all(3);
  for (std::size_t n = 0; n < 30'000; ++n) {
    const auto client = static_cast<std::uint32_t>(n * n % 3);
    const std::string reply = numbered_reply(n);
    sink.put(client, reply.data(), reply.size());
    all[client] += reply;
  }
  for (std::uint32_t client = 0; client < 2; ++client) {
    ASSERT_GT(all[client].size(), sink.ring_bytes());
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, sink.ring_bytes()})
      EXPECT_TRUE(sink.last(client, count) == all[client].substr(all[client].size() - count)) << client;
  }
}

TEST(ReplySink, AReplyMayBeLongerThanARing) {
  ReplySink sink(SinkKind::copy);
  sink.add_clients(1);
  std::string reply, kept;
  while (reply.size() < 3 * ReplySink::ring_bytes_max) reply += numbered_reply(reply.size());
  sink.keep(&kept);
  sink.put(0, reply.data(), reply.size());
  EXPECT_TRUE(kept == reply);
  EXPECT_TRUE(reply.ends_with(sink.last(0, sink.ring_bytes())));
}

TEST(ReplySink, ManyClientsHaveSmallRings) {
  ReplySink sink(SinkKind::copy);
  constexpr std::uint32_t clients = 16'384;
  sink.add_clients(clients);
  EXPECT_EQ(sink.ring_bytes(), ReplySink::ring_bytes_min);
  for (std::uint32_t client = 0; client < clients; ++client) {
    const std::string reply = numbered_reply(client);
    sink.put(client, reply.data(), reply.size());
  }
  for (std::uint32_t client = 0; client < clients; ++client)
    ASSERT_EQ(sink.last(client, numbered_reply(client).size()), numbered_reply(client));
}

TEST(ReplySink, LentRepliesAreNotCopied) {
  ReplySink sink(SinkKind::lend);
  sink.add_clients(1);
  std::string kept;
  sink.put(0, "ab", 2);
  sink.keep(&kept);
  sink.put(0, "cd", 2);
  EXPECT_EQ(kept, "cd");
  EXPECT_EQ(sink.ring_bytes(), 0U);
}

TEST(ReplySink, HasNames) {
  for (const SinkKind kind : {SinkKind::copy, SinkKind::lend}) EXPECT_EQ(parse_sink(to_string(kind)), kind);
  EXPECT_THROW(parse_sink("drop"), std::invalid_argument);
}

}  // namespace
}  // namespace tandem::bench
