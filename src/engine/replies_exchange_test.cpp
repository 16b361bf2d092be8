// Writes that return the old item over the wire: G of the meta protocol, EXCHANGE and TAKE of the binary one.
#include <gtest/gtest.h>

#include <string>

#include "codec/packet_builder.hpp"
#include "engine/lane_harness.hpp"
#include "engine/reply_expect.hpp"

namespace tandem::codec::exchanges {
namespace {

using binary::number_text;
using binary::packet;
using binary::response;
using binary::store_extras;
using std::string;
using PacketStatus = binary::Status;
namespace o = binary::opcode;

const string invalid = "CLIENT_ERROR invalid flag\r\n";
const string no_memory = "SERVER_ERROR out of memory storing object\r\n";
const string too_large = "SERVER_ERROR object too large for cache\r\n";

string cas_in(const string& reply) {
  const std::size_t at = reply.find(" c") + 2;
  return reply.substr(at, reply.find_first_of(" \r", at) - at);
}
string get_of(ReplyHarness& server, const string& key) { return server.exchange("mg " + key + " v f\r\n"); }

// --- meta

TEST(ExchangeReplies, AMetaSetReturnsWhatItReplaces) {
  ReplyHarness server;
  expect(server,
         {{"ms a 2 G\r\nab\r\n", "HD\r\n"},
          {"ms a 1 G F7\r\nx\r\n", "VA 2 G0\r\nab\r\n"},
          {"ms a 0 G T100\r\n\r\n", "VA 1 G7\r\nx\r\n"},
          {"mg a v t f\r\n", "VA 0 t100 f0\r\n\r\n"},
          {"ms a 3 MS k Oabc G F9\r\nxyz\r\n", "VA 0 ka Oabc G0\r\n\r\n"},
          {"ms a 1 G Oabc k MR\r\nz\r\n", "VA 3 G9 Oabc ka\r\nxyz\r\n"},
          {"ms new 1 G MR k\r\nz\r\n", "NS knew\r\n"},
          {"mg new v\r\n", "EN\r\n"},
          {"ms a 1 Gfoo\r\ny\r\n", "VA 1 G0\r\nz\r\n"},
          {"ms a 1 G\r\n1\r\nms a 1 G\r\n2\r\nms a 1 G\r\n3\r\n", "VA 1 G0\r\ny\r\nVA 1 G0\r\n1\r\nVA 1 G0\r\n2\r\n"},
          {"get a\r\n", "VALUE a 0 1\r\n3\r\nEND\r\n"}});
}

TEST(ExchangeReplies, AMetaDeleteReturnsWhatItRemoves) {
  ReplyHarness server;
  expect(server, {{"md a G\r\n", "NF\r\n"},
                  {"md a G k Oabc q\r\n", "NF ka Oabc\r\n"},
                  {"ms a 2 F7\r\nab\r\n", "HD\r\n"},
                  {"md a O1 G k\r\n", "VA 2 O1 G7 ka\r\nab\r\n"},
                  {"md a G\r\n", "NF\r\n"},
                  {"mg a v\r\n", "EN\r\n"},
                  {"ms YmE= 2 b F1\r\nxy\r\n", "HD\r\n"},
                  {"ms YmE= 1 b G k\r\nz\r\n", "VA 2 G1 kYmE= b\r\nxy\r\n"},
                  {"md YmE= G b k\r\n", "VA 1 G0 kYmE= b\r\nz\r\n"}});
}

TEST(ExchangeReplies, QuietOnesSayWhatTheyHandOverAndNoMore) {
  ReplyHarness server;
  expect(server, {{"ms a 2 G q\r\nab\r\nmn\r\n", "MN\r\n"},
                  {"ms a 1 q G\r\nx\r\nmn\r\n", "VA 2 G0\r\nab\r\nMN\r\n"},
                  {"md a q G\r\nmn\r\n", "VA 1 G0\r\nx\r\nMN\r\n"},
                  {"ms a 1 q G MR\r\nx\r\nmn\r\n", "NS\r\nMN\r\n"}});
}

TEST(ExchangeReplies, WhereNoOldValueCanBeGIsInvalidAndNothingChanges) {
  ReplyHarness server;
  server.exchange("ms a 2 F7\r\nab\r\n");
  for (const string flags : {"G ME", "MA G", "MP G", "G I", "I C5 G", "ME G Oabc", "G ME I"}) {
    EXPECT_EQ(server.exchange("ms a 1 " + flags + "\r\nx\r\n"), invalid) << flags;
    EXPECT_EQ(server.exchange("ms new 1 " + flags + "\r\nx\r\n", 8), invalid) << flags;
  }
  for (const string flags : {"G I", "I G T30", "I G q"}) {
    EXPECT_EQ(server.exchange("md a " + flags + "\r\n"), invalid) << flags;
  }
  expect(server, {{"ms a 1 G Mx\r\nx\r\n", "CLIENT_ERROR invalid mode for ms M token\r\n"},
                  {"ms a 1 G G\r\nx\r\n", "CLIENT_ERROR duplicate flag\r\n"},
                  {"md a G G\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"},
                  {"mg a v G\r\n", invalid},
                  {"ma a G\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"},
                  {"ms a x G\r\n", bad_format},
                  {"ms a 1 G\r\nxyz\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"},
                  {"mg new v\r\n", "EN\r\n"}});
  EXPECT_EQ(get_of(server, "a"), "VA 2 f7\r\nab\r\n");
}

TEST(ExchangeReplies, MetaOnesCompareCasIds) {
  ReplyHarness server;
  const string first = cas_in(server.exchange("ms a 1 c\r\n1\r\n"));
  expect(server, {{"ms a 1 G c C987\r\nx\r\n", "EX c0\r\n"},
                  {"md a G C987\r\n", "EX\r\n"},
                  {"ms b 1 G C987\r\nx\r\n", "NF\r\n"},
                  {"mg b\r\n", "EN\r\n"}});
  const string reply = server.exchange("ms a 1 G c C" + first + "\r\n2\r\n");
  const string second = cas_in(reply);
  EXPECT_EQ(reply, "VA 1 G0 c" + second + "\r\n1\r\n");
  EXPECT_GT(std::stoull(second), std::stoull(first));
  EXPECT_EQ(server.exchange("mg a c\r\n"), "HD c" + second + "\r\n") << "c is the new item's";
  EXPECT_EQ(server.exchange("md a G C" + first + "\r\n"), "EX\r\n");
  EXPECT_EQ(server.exchange("md a G C" + second + "\r\n"), "VA 1 G0\r\n2\r\n");

  ProtocolOptions options;
  options.cas = false;
  EngineOptions engine = ReplyHarness::small_engine();
  engine.cas = false;
  ReplyHarness without(options, engine);
  expect(without, {{"ms a 1 G c\r\n1\r\n", "HD c0\r\n"}, {"ms a 1 c G\r\n2\r\n", "VA 1 c0 G0\r\n1\r\n"}});
}

TEST(ExchangeReplies, ExpiredAndFlushedItemsAreNone) {
  ReplyHarness server;
  server.exchange("ms a 1 T10\r\n1\r\nms b 1 T10\r\n1\r\nms c 1 T-1\r\n1\r\n");
  server.set_time(ReplyHarness::start_s + 11);
  expect(server, {{"ms a 1 G\r\n2\r\n", "HD\r\n"},
                  {"md b G\r\n", "NF\r\n"},
                  {"md c G\r\n", "NF\r\n"},
                  {"ms c 1 MR G\r\nx\r\n", "NS\r\n"},
                  {"mg a v\r\n", "VA 1\r\n2\r\n"}});
  server.engine().flush_all(0);
  expect(server, {{"md a G\r\n", "NF\r\n"}, {"ms a 1 G\r\n3\r\n", "HD\r\n"}, {"md a G\r\n", "VA 1 G0\r\n3\r\n"}});
}

TEST(ExchangeReplies, AStaleOldValueIsToldSo) {
  ReplyHarness server;
  server.exchange("ms a 1\r\n1\r\nmd a I\r\n");
  expect(server, {{"ms a 1 G k\r\n2\r\n", "VA 1 G0 ka X\r\n1\r\n"},
                  {"mg a v\r\n", "VA 1\r\n2\r\n"},
                  {"md a I\r\nmg a v\r\n", "HD\r\nVA 1 X W\r\n2\r\n"},
                  {"md a G\r\n", "VA 1 G0 Z X\r\n2\r\n"},
                  {"mg a v N30\r\n", "VA 0 W\r\n\r\n"},
                  {"ms a 1 G\r\n3\r\n", "VA 0 G0 Z\r\n\r\n"},
                  {"mg a v\r\n", "VA 1\r\n3\r\n"}});
}

// Copied, sent from where they lie, and of whole pages; as old values and as new ones, which are received elsewhere.
TEST(ExchangeReplies, LargeValues) {
  ProtocolOptions options;
  options.item_bytes_max = std::uint64_t{8} << 20;
  options.large_value_bytes = 4096;
  EngineOptions engine = ReplyHarness::small_engine();
  engine.item_bytes_max = options.item_bytes_max;
  ReplyHarness server(options, engine);
  string old = "x";
  server.exchange("ms a 1 G F3\r\nx\r\n");
  std::uint32_t pinned = 0;
  for (const std::size_t bytes : {5000u, 16384u, 16385u, 700000u, 3u << 20, 5u << 20, 10u}) {
    const string now(bytes, static_cast<char>('a' + bytes % 23));
    const string set = "ms a " + std::to_string(bytes) + " G F3\r\n" + now + "\r\n";
    EXPECT_TRUE(server.exchange(set) == "VA " + std::to_string(old.size()) + " G3\r\n" + old + "\r\n") << bytes;
    pinned += old.size() > 16384 ? 1u : 0u;
    const string again = packet(o::exchange, {.key = "b", .extras = store_extras(5), .value = now});
    ReplyHarness packets(options, engine);
    const std::uint64_t cas = binary::read<std::uint64_t>(packets.exchange(again).data() + binary::at::cas);
    EXPECT_TRUE(packets.exchange(packet(o::take, {.key = "b"})) ==
                response(o::take, PacketStatus::ok, {.extras = number_text(5u), .value = now, .cas = cas}))
        << bytes;
    old = now;
  }
  EXPECT_EQ(server.pinned_values(), pinned);
  EXPECT_TRUE(server.exchange("md a G\r\n") == "VA 10 G3\r\n" + old + "\r\n");
}

TEST(ExchangeReplies, ARefusedOneLeavesTheOldItem) {
  EngineOptions engine = ReplyHarness::small_engine();
  engine.memory_bytes = std::uint64_t{8} << 20;
  engine.evict = false;
  ReplyHarness server({}, engine);
  const string value(500000, 'v'), store = " 500000 G\r\n" + value + "\r\n";
  server.exchange("ms a 2 F7\r\nab\r\nms b 500000\r\n" + value + "\r\n");
  EXPECT_EQ(server.exchange("ms a 2000000 G\r\n" + string(2000000, 'v') + "\r\n"), too_large);
  EXPECT_EQ(get_of(server, "a"), "VA 2 f7\r\nab\r\n");
  string reply;
  for (int i = 0; i < 40 && reply != no_memory; ++i) reply = server.exchange("ms k" + std::to_string(i) + store);
  ASSERT_EQ(reply, no_memory);
  EXPECT_EQ(server.exchange("ms a" + store), no_memory);
  EXPECT_EQ(get_of(server, "a"), "VA 2 f7\r\nab\r\n");
  EXPECT_EQ(server.exchange(string("ms a 500000\r\n") + value + "\r\n"), no_memory);
  EXPECT_EQ(get_of(server, "a"), "EN\r\n") << "a plain one removes it";
  EXPECT_TRUE(server.exchange("md b G\r\n") == "VA 500000 G0\r\n" + value + "\r\n") << "to take needs no memory";
  EXPECT_EQ(server.exchange("ms c" + store), "HD\r\n") << "and gives some back";
}

TEST(ExchangeReplies, StatisticsAreThoseOfSetsAndDeletes) {
  ReplyHarness server;
  server.exchange("ms a 1 G\r\n1\r\nms a 1 G\r\n2\r\nms a 1 G C987\r\n3\r\nms b 1 G C987\r\n3\r\nmd a G\r\nmd a G\r\n");
  const StoreCounters& c = server.context().counters;
  EXPECT_EQ(c.cmd_set.get(), 4u);
  EXPECT_EQ(c.total_items.get(), 2u);
  EXPECT_EQ(c.cas_badval.get(), 1u);
  EXPECT_EQ(c.cas_misses.get(), 1u);
  EXPECT_EQ(c.delete_hits.get(), 1u);
  EXPECT_EQ(c.delete_misses.get(), 1u);
  EXPECT_EQ(c.cmd_get.get() + c.get_hits.get() + c.get_misses.get(), 0u) << "what is handed over is no get";
}

// --- binary

std::uint64_t id_of(std::string_view reply) { return binary::read<std::uint64_t>(reply.data() + binary::at::cas); }
string exchange(std::string_view key, std::string_view value, std::uint32_t flags = 0, std::uint64_t cas = 0,
                std::uint8_t code = o::exchange, std::uint32_t expiry = 0) {
  return packet(code, {.key = key, .extras = store_extras(flags, expiry), .value = value, .cas = cas});
}
string take(std::string_view key, std::uint64_t cas = 0, std::uint8_t code = o::take) {
  return packet(code, {.key = key, .cas = cas});
}
string handed(std::uint8_t code, std::string_view value, std::uint32_t flags, std::uint64_t cas) {
  return response(code, PacketStatus::ok, {.extras = number_text(flags), .value = value, .cas = cas});
}
string not_found(std::uint8_t code) { return response(code, PacketStatus::not_found, {.value = "Not found"}); }
string exists(std::uint8_t code) { return response(code, PacketStatus::exists, {.value = "Data exists for key."}); }

TEST(BinaryExchange, ReturnsTheOldItem) {
  ReplyHarness server;
  const string stored = server.exchange(exchange("a", "one", 7));
  const std::uint64_t first = id_of(stored);
  EXPECT_EQ(stored, response(o::exchange, PacketStatus::ok, {.cas = first})) << "no extras where there was none";
  const string reply = server.exchange(exchange("a", "", 9));
  const std::uint64_t second = id_of(reply);
  EXPECT_EQ(reply, handed(o::exchange, "one", 7, second));
  EXPECT_GT(second, first) << "the new item's id, as a set's";
  EXPECT_EQ(server.exchange(take("a")), handed(o::take, "", 9, second)) << "the removed item's id";
  EXPECT_EQ(server.exchange(take("a")), not_found(o::take));
  EXPECT_EQ(server.exchange(packet(o::get, {.key = "a"})), not_found(o::get));
}

TEST(BinaryExchange, ComparesCasIds) {
  ReplyHarness server;
  EXPECT_EQ(server.exchange(exchange("a", "x", 0, 5)), not_found(o::exchange));
  const std::uint64_t first = id_of(server.exchange(exchange("a", "one")));
  EXPECT_EQ(server.exchange(exchange("a", "x", 0, first + 1)), exists(o::exchange));
  EXPECT_EQ(server.exchange(take("a", first + 1)), exists(o::take));
  EXPECT_EQ(server.exchange(exchange("a", "x", 0, first + 1, o::exchangeq)), exists(o::exchangeq));
  const string reply = server.exchange(exchange("a", "two", 0, first));
  EXPECT_EQ(reply, handed(o::exchange, "one", 0, id_of(reply)));
  EXPECT_EQ(server.exchange(take("a", id_of(reply))), handed(o::take, "two", 0, id_of(reply)));
}

TEST(BinaryExchange, QuietOnesSayWhatTheyHandOver) {
  ReplyHarness server;
  const string noop = packet(o::noop), ended = response(o::noop, PacketStatus::ok);
  EXPECT_EQ(server.exchange(exchange("a", "one", 3, 0, o::exchangeq) + take("b", 0, o::takeq) + noop), ended);
  const string reply = server.exchange(exchange("a", "two", 4, 0, o::exchangeq));
  EXPECT_EQ(reply, handed(o::exchangeq, "one", 3, id_of(reply)));
  EXPECT_EQ(server.exchange(take("a", 0, o::takeq)), handed(o::takeq, "two", 4, id_of(reply)));
  EXPECT_EQ(server.exchange(take("a", 0, o::takeq) + noop), ended) << "a miss, as a quiet get's";
  EXPECT_EQ(server.exchange(exchange("a", string(2000000, 'v'), 0, 0, o::exchangeq)),
            response(o::exchangeq, PacketStatus::too_large, {.value = "Too large."}));
}

TEST(BinaryExchange, ExpiredItemsAreNoneAndRefusalsLeaveTheItem) {
  ReplyHarness server;
  server.exchange(exchange("a", "one", 0, 0, o::exchange, 10) + exchange("b", "one", 0, 0, o::exchange, 10) +
                  exchange("c", "kept", 2));
  server.set_time(ReplyHarness::start_s + 11);
  const string reply = server.exchange(exchange("a", "two"));
  EXPECT_EQ(reply, response(o::exchange, PacketStatus::ok, {.cas = id_of(reply)}));
  EXPECT_EQ(server.exchange(take("b")), not_found(o::take));
  EXPECT_EQ(server.exchange(exchange("c", string(2000000, 'v'))),
            response(o::exchange, PacketStatus::too_large, {.value = "Too large."}));
  const string kept = server.exchange(take("c"));
  EXPECT_EQ(kept, handed(o::take, "kept", 2, id_of(kept)));
}

TEST(BinaryExchange, BadRequestsAreRefusedAndClosed) {
  for (const string& bad :
       {packet(o::exchange, {.key = "a"}), packet(o::exchange, {.extras = store_extras(), .value = "v"}),
        packet(o::exchange, {.key = "a", .extras = "four", .value = "v"}), packet(o::take, {.key = "a", .value = "v"}),
        packet(o::take, {.key = "a", .extras = "four"}), packet(o::takeq, {})}) {
    ReplyHarness server;
    server.exchange(exchange("a", "one"));
    const auto code = static_cast<std::uint8_t>(bad[binary::at::opcode]);
    EXPECT_EQ(server.exchange(bad), response(code, PacketStatus::invalid, {.value = "Invalid arguments"}));
    EXPECT_TRUE(server.closed());
  }
  ReplyHarness server;
  for (const std::uint8_t code : {std::uint8_t{0x5f}, std::uint8_t{0x64}}) {
    EXPECT_EQ(server.exchange(packet(code)),
              response(code, PacketStatus::unknown_command, {.value = "Unknown command"}));
  }
}

// Both stand between what the lane takes.
TEST(BinaryExchange, TheLaneLeavesThemToTheGeneralPath) {
  const string get = packet(o::get, {.key = "a"}), noop = packet(o::noop);
  const string set = packet(o::setq, {.key = "a", .extras = store_extras(), .value = "set"});
  for (const string& asked :
       {get + exchange("a", "one") + get + exchange("a", "two") + set + exchange("a", "three", 0, 0, o::exchangeq) +
            get,
        set + take("a") + get + take("a", 0, o::takeq) + exchange("a", "x", 0, 0, o::exchangeq) + noop,
        string("set b 0 0 1\r\n1\r\nms b 1 G\r\n2\r\nms b 1\r\n3\r\nmd b G\r\nget b\r\n")}) {
    LaneHarness stores({});
    stores.exchange(asked[0] == 's' ? string("mn\r\n") : noop);  // tells which protocol it is
    const LaneHarness::Answers said = stores.exchange(asked);
    EXPECT_EQ(said.with, said.without);
    EXPECT_GT(stores.queries_of_lane, 0u);
  }
}

}  // namespace
}  // namespace tandem::codec::exchanges
