// The binary protocol's framing: all cuts of the input and all batch sizes give the same queries, and a wrong header is
// refused without its body.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codec/packet_builder.hpp"
#include "codec/parse_harness.hpp"

namespace tandem::codec::binary {
namespace {

using std::string;
using Queries = std::vector<string>;

ProtocolOptions small_options() {
  ProtocolOptions options;
  options.ordered = true;
  options.item_bytes_max = 4096;
  options.large_value_bytes = 16;
  return options;
}

Queries parse(std::string_view input, const ProtocolOptions& options = small_options()) {
  ParseHarness harness(options);
  harness.offer(input);
  return harness.queries;
}

const string large_value(100, 'L');
const string too_large_value(5000, 'X');
const string longest_binary_key(250, 'k'), longest_end(247, 'm');

// One request of every opcode, good and bad, none of which closes the connection.
const std::vector<string>& pieces() {
  static const std::vector<string> all = [] {
    std::vector<string> list;
    namespace o = opcode;
    const string expiry = number_text(std::uint32_t{100}), store = store_extras(7, 100);
    for (const std::uint8_t i : {o::get, o::getq, o::getk, o::getkq, o::remove, o::removeq}) {
      list.push_back(packet(i, {.key = "k"}));
      list.push_back(packet(i, {.key = longest_binary_key, .cas = 9, .opaque = 0xfffefdfc}));
    }
    for (const std::uint8_t i : {o::touch, o::gat, o::gatq, o::gatk, o::gatkq})
      list.push_back(packet(i, {.key = "k", .extras = expiry}));
    for (const std::uint8_t i : {o::set, o::add, o::replace, o::setq, o::addq, o::replaceq}) {
      for (const string& value : {string(), string("abc"), large_value, too_large_value}) {
        list.push_back(packet(i, {.key = "k", .extras = store, .value = value}));
        list.push_back(packet(i, {.key = "k", .extras = store, .value = value, .cas = 5}));
      }
    }
    for (const std::uint8_t i : {o::append, o::prepend, o::appendq, o::prependq}) {
      for (const string& value : {string(), string("abc"), large_value, too_large_value})
        list.push_back(packet(i, {.key = "k", .value = value, .cas = value.size()}));
    }
    for (const std::uint8_t i : {o::increment, o::decrement, o::incrementq, o::decrementq}) {
      list.push_back(packet(i, {.key = "n", .extras = arithmetic_extras(5, 12345678901234567890u, 60)}));
      list.push_back(packet(i, {.key = "n", .extras = arithmetic_extras(~0ull, 1, 0xffffffff), .cas = 3}));
    }
    for (const std::uint8_t i : {o::flush, o::flushq}) {
      list.push_back(packet(i));
      list.push_back(packet(i, {.extras = expiry}));
      list.push_back(packet(i, {.extras = number_text(std::uint32_t{2592001})}));
    }
    list.push_back(packet(o::noop));
    list.push_back(packet(o::version));
    list.push_back(packet(o::stat));
    list.push_back(packet(o::stat, {.key = "settings"}));
    for (const std::uint8_t i : {o::verbosity, std::uint8_t{0x1f}, std::uint8_t{0x25}, std::uint8_t{0xff}}) {
      list.push_back(packet(i));
      list.push_back(packet(i, {.key = "key", .extras = "four", .value = "a value that is nobody's"}));
    }
    for (const std::uint8_t i : {o::rget, o::rdelete, o::rdeleteq}) {
      list.push_back(packet(i, {.extras = range_extras({}, 0)}));
      list.push_back(packet(i, {.key = "k", .extras = range_extras("m", 3, 100)}));
      list.push_back(packet(i, {.key = longest_binary_key, .extras = range_extras(longest_end, 2)}));
      list.push_back(packet(i, {.key = "k", .extras = range_extras("m", 4)}));
    }
    list.push_back(packet(o::sasl_list));
    list.push_back(packet(o::sasl_auth, {.key = "PLAIN", .value = plain("u", "p")}));
    list.push_back(packet(o::sasl_step, {.key = "PLAIN", .value = plain("u", "p")}));
    return list;
  }();
  return all;
}

string conversation() {
  string input;
  for (const string& piece : pieces()) input += piece;
  return input;
}

TEST(PacketParser, HeaderIsRead) {
  const string text = packet(0x12, {.key = "abc", .extras = "12345678", .value = "v", .cas = 0x0102030405060708});
  const Request r = Request::read(text.data());
  EXPECT_EQ(r.opcode, 0x12);
  EXPECT_EQ(r.key_bytes, 3);
  EXPECT_EQ(r.extras_bytes, 8);
  EXPECT_EQ(r.body_bytes, 12u);
  EXPECT_EQ(r.value_bytes(), 1u);
  EXPECT_EQ(read<std::uint64_t>(text.data() + at::cas), 0x0102030405060708u);
  EXPECT_EQ(text.substr(at::opaque, 4), "\x01\x02\x03\x04");
}

TEST(PacketParser, EveryPieceMakesTheSameQueriesInAnyCuts) {
  for (const string& piece : pieces()) {
    const Queries whole = parse(piece);
    for (std::size_t cut = 1; cut < piece.size(); cut += piece.size() > 1000 ? 37u : 1u) {
      ParseHarness harness(small_options());
      harness.offer(std::string_view(piece).substr(0, cut));
      harness.offer(std::string_view(piece).substr(cut));
      ASSERT_EQ(harness.queries, whole) << "opcode " << static_cast<int>(static_cast<unsigned char>(piece[1]))
                                        << " cut at " << cut;
      ASSERT_EQ(harness.kept_bytes(), 0u);
    }
  }
}

TEST(PacketParser, ConversationInAnyPiecesThroughAnyBatch) {
  const string input = conversation();
  const Queries whole = parse(input);
  EXPECT_GT(whole.size(), pieces().size() * 9 / 10) << "only a quiet flush of the past makes no query";
  for (const std::uint32_t batch : {1u, 2u, 7u, 1000u}) {
    for (const std::size_t bytes : {1u, 2u, 3u, 23u, 24u, 25u, 100u, 1000u, 100000u}) {
      ParseHarness harness(small_options(), batch);
      for (std::size_t i = 0; i < input.size(); i += bytes) harness.offer(std::string_view(input).substr(i, bytes));
      ASSERT_EQ(harness.queries, whole) << "batch of " << batch << ", pieces of " << bytes;
    }
  }
}

TEST(PacketParser, EveryQueryCanBeRewoundTo) {
  const string input = conversation();
  const Clock clock;
  const ProtocolOptions options = small_options();
  Batch batch(4096);
  Parser parser(options, clock);
  std::size_t consumed = 0;
  ASSERT_EQ(parser.parse(input.data(), input.data() + input.size(), batch, consumed), ParseStop::need_more);
  ASSERT_EQ(consumed, input.size());
  Queries texts;
  for (std::uint32_t i = 0; i < batch.size(); ++i)
    texts.push_back(text_of(batch.query(i), {batch.query(i).value, batch.query(i).value_bytes}));
  for (std::uint32_t i = 0; i < texts.size(); ++i) {
    const char* const at = parser.rewind(batch.query(i));
    Batch again(4096);
    parser.parse(at, input.data() + input.size(), again, consumed);
    ASSERT_EQ(again.size(), batch.size() - i);
    for (std::uint32_t k = 0; k < again.size(); ++k)
      ASSERT_EQ(text_of(again.query(k), {again.query(k).value, again.query(k).value_bytes}), texts[i + k]);
  }
}

TEST(PacketParser, MalformedHeadersAreAnsweredWithoutTheirBodies) {
  struct Bad {
    const char* what;
    string header;
    Status status;
  };
  const auto head = [](std::uint8_t code, const Parts& parts) { return packet(code, parts).substr(0, header_bytes); };
  const Bad all[] = {
      {"body shorter than the key", head(opcode::set, {.key = "k", .body_bytes = 0}), Status::unknown_command},
      {"body shorter than key and extras", head(opcode::set, {.key = "k", .extras = "12345678", .body_bytes = 8}),
       Status::unknown_command},
      {"key of 251", head(opcode::get, {.key_bytes = 251, .body_bytes = 251}), Status::invalid},
      {"key of 65535", head(opcode::set, {.key_bytes = 65535, .extras_bytes = 8, .body_bytes = 0xffffffff}),
       Status::invalid},
      {"key of 251, unknown opcode", head(0x55, {.key_bytes = 251, .body_bytes = 251}), Status::invalid},
      {"get without a key", head(opcode::get, {}), Status::invalid},
      {"get with extras", head(opcode::getkq, {.key = "k", .extras = "1234"}), Status::invalid},
      {"get with a value", head(opcode::getq, {.key = "k", .value = "v"}), Status::invalid},
      {"set without extras", head(opcode::set, {.key = "k", .value = "v"}), Status::invalid},
      {"set without a key", head(opcode::setq, {.extras = "12345678", .value = "v"}), Status::invalid},
      {"append with extras", head(opcode::append, {.key = "k", .extras = "12345678"}), Status::invalid},
      {"incr with too few extras", head(opcode::increment, {.key = "k", .extras = "12345678"}), Status::invalid},
      {"incr with a value", head(opcode::decrement, {.key = "k", .extras = string(20, '0'), .value = "v"}),
       Status::invalid},
      {"delete with extras", head(opcode::remove, {.key = "k", .extras = "1234"}), Status::invalid},
      {"touch without extras", head(opcode::touch, {.key = "k"}), Status::invalid},
      {"touch with a value", head(opcode::touch, {.key = "k", .extras = "1234", .value = "v"}), Status::invalid},
      {"gat with a value", head(opcode::gatkq, {.key = "k", .extras = "1234", .value = "v"}), Status::invalid},
      {"flush with eight extras", head(opcode::flush, {.extras = "12345678"}), Status::invalid},
      {"flush with a key", head(opcode::flushq, {.key = "k"}), Status::invalid},
      {"noop with a key", head(opcode::noop, {.key = "k"}), Status::invalid},
      {"version with a value", head(opcode::version, {.value = "v"}), Status::invalid},
      {"quit with a key", head(opcode::quit, {.key = "k"}), Status::invalid},
      {"stat with extras", head(opcode::stat, {.key = "k", .extras = "1234"}), Status::invalid},
      {"stat with a value", head(opcode::stat, {.key = "k", .value = "1234"}), Status::invalid},
      {"mechanisms with a key", head(opcode::sasl_list, {.key = "k"}), Status::invalid},
      {"sasl without a mechanism", head(opcode::sasl_auth, {.value = "v"}), Status::invalid},
      {"sasl with extras", head(opcode::sasl_step, {.key = "PLAIN", .extras = "1234"}), Status::invalid},
      {"range without extras", head(opcode::rget, {.key = "k"}), Status::invalid},
      {"range with too few extras", head(opcode::rdelete, {.extras = "1234567"}), Status::invalid},
      {"range with a value", head(opcode::rdeleteq, {.extras = range_extras({}, 0), .value = "v"}), Status::invalid},
      {"range's end missing", packet(opcode::rget, {.extras = range_extras("m", 0).substr(0, 8)}), Status::invalid},
      {"range's end too long", packet(opcode::rget, {.key = "k", .extras = range_extras("m", 0) + "m"}),
       Status::invalid},
  };
  for (const Bad& bad : all) {
    const Queries queries = parse(bad.header);
    ASSERT_EQ(queries.size(), 2u) << bad.what;
    EXPECT_NE(queries[0].find(" status" + std::to_string(static_cast<unsigned>(bad.status)) + " "), string::npos)
        << bad.what << ": " << queries[0];
    EXPECT_EQ(queries[1], "close") << bad.what;
  }
}

TEST(PacketParser, AnotherMagicCloses) {
  EXPECT_EQ(parse(packet(opcode::noop) + packet(opcode::noop, {.magic = 0x81})).back(), "close");
  EXPECT_EQ(parse(packet(opcode::noop) + "get k\r\n").back(), "close") << "its first byte is enough";
  EXPECT_EQ(parse(packet(opcode::noop)).size(), 1u);
  EXPECT_EQ(parse("mn\r\n" + packet(opcode::version) + "\n").size(), 2u) << "a connection cannot change its protocol";
}

TEST(PacketParser, Quit) {
  EXPECT_EQ(parse(packet(opcode::noop) + packet(opcode::quit) + packet(opcode::noop)).size(), 3u);
  EXPECT_EQ(parse(packet(opcode::noop) + packet(opcode::quitq) + packet(opcode::noop)).size(), 2u);
}

TEST(PacketParser, UnknownOpcodeTakesItsBodyOnce) {
  const string unknown = packet(0x42, {.key = "key", .extras = "four", .value = large_value});
  const Queries queries = parse(unknown + packet(opcode::get, {.key = "k"}));
  ASSERT_EQ(queries.size(), 2u);
  EXPECT_NE(queries[1].find("key[k]"), string::npos);
}

TEST(PacketParser, WithoutAnOrderRangesAreUnknown) {
  ProtocolOptions options = small_options();
  options.ordered = false;
  for (const std::uint8_t code : {opcode::rget, opcode::rdelete, opcode::rdeleteq}) {
    const string range = packet(code, {.key = "k", .extras = range_extras("m", 0)});
    const string none = packet(code, {.key = "key", .extras = "four", .value = large_value});
    const Queries queries = parse(range + none + packet(opcode::get, {.key = "k"}), options);
    ASSERT_EQ(queries.size(), 3u);
    EXPECT_NE(queries[0].find("line[Unknown command] status129 "), string::npos) << queries[0];
    EXPECT_EQ(queries[1].substr(0, queries[1].find(" wire")), queries[0].substr(0, queries[0].find(" wire")));
    EXPECT_NE(queries[2].find("key[k]"), string::npos);
  }
}

TEST(PacketParser, RefusedLargeValueIsSwallowed) {
  for (const std::uint8_t code : {opcode::set, opcode::setq, opcode::add, opcode::append}) {
    const bool has_extras = code != opcode::append;
    const string extras = has_extras ? store_extras() : string();
    const string input = packet(code, {.key = "k", .extras = extras, .value = large_value, .cas = 1}) +
                         packet(opcode::get, {.key = "after"});
    ParseHarness harness(small_options());
    harness.refuses_large = true;
    for (std::size_t i = 0; i < input.size(); i += 10) harness.offer(std::string_view(input).substr(i, 10));
    ASSERT_EQ(harness.queries.size(), 2u);
    const bool removes = code == opcode::set || code == opcode::setq;
    const Opcode wanted = removes ? Opcode::remove : Opcode::nothing;
    EXPECT_EQ(harness.queries[0].substr(0, 3), "op" + std::to_string(static_cast<int>(wanted)));
    EXPECT_NE(harness.queries[0].find("line[Out of memory allocating item] status130 "), string::npos);
    EXPECT_NE(harness.queries[1].find("key[after]"), string::npos);
  }
}

// A value that ends where the input ends, since no line end follows it.
TEST(PacketParser, LargeValueNeedsNothingBehindIt) {
  const string input = packet(opcode::set, {.key = "k", .extras = store_extras(), .value = large_value});
  ParseHarness harness(small_options());
  harness.offer(std::string_view(input).substr(0, 40));
  EXPECT_TRUE(harness.queries.empty());
  harness.offer(std::string_view(input).substr(40));
  ASSERT_EQ(harness.queries.size(), 1u);
  EXPECT_NE(harness.queries[0].find("value[" + large_value + "]"), string::npos);
}

TEST(PacketParser, DialectsRefuseEachOther) {
  ProtocolOptions text = small_options(), binary = small_options();
  text.dialect = Dialect::text;
  binary.dialect = Dialect::binary;
  const Queries as_text = parse(packet(opcode::version) + "\r\n", text);
  ASSERT_EQ(as_text.size(), 1u);
  EXPECT_NE(as_text[0].find("line[ERROR\r\n]"), string::npos) << "an unknown command, as memcached -B ascii has it";
  EXPECT_EQ(parse("version\r\n", binary), Queries{"close"});
  EXPECT_EQ(parse(packet(opcode::noop), binary).size(), 1u);
}

}  // namespace
}  // namespace tandem::codec::binary
