// The binary protocol's replies, byte for byte; tests/conformance compares the same with memcached.
#include <gtest/gtest.h>

#include <string>

#include "codec/packet_builder.hpp"
#include "engine/reply_harness.hpp"

namespace tandem::codec::binary {
namespace {

using std::string;
namespace o = opcode;

const string no_flags(4, '\0');

string error(std::uint8_t code, Status status) {
  const std::string_view body = status == Status::not_found      ? "Not found"
                                : status == Status::exists       ? "Data exists for key."
                                : status == Status::too_large    ? "Too large."
                                : status == Status::invalid      ? "Invalid arguments"
                                : status == Status::not_stored   ? "Not stored."
                                : status == Status::not_a_number ? "Non-numeric server-side value for incr or decr"
                                : status == Status::auth_error   ? "Auth failure."
                                                                 : "Unknown command";
  return response(code, status, {.value = body});
}
string set(std::string_view key, std::string_view value, std::uint32_t flags = 0, std::uint64_t cas = 0) {
  return packet(o::set, {.key = key, .extras = store_extras(flags), .value = value, .cas = cas});
}
string noop() { return packet(o::noop, {.opaque = 99}); }
string noop_answer() { return response(o::noop, Status::ok, {.opaque = 99}); }
std::uint64_t cas_of(std::string_view reply) { return read<std::uint64_t>(reply.data() + at::cas); }

TEST(BinaryReplies, GetsAndTheirQuietForms) {
  ReplyHarness server;
  const std::uint64_t cas = cas_of(server.exchange(set("k", "value", 0x01020304)));
  EXPECT_NE(cas, 0u);
  const string flags = "\x01\x02\x03\x04";
  for (const std::uint8_t code : {o::get, o::getq})
    EXPECT_EQ(server.exchange(packet(code, {.key = "k", .opaque = 5})),
              response(code, Status::ok, {.extras = flags, .value = "value", .cas = cas, .opaque = 5}));
  for (const std::uint8_t code : {o::getk, o::getkq})
    EXPECT_EQ(server.exchange(packet(code, {.key = "k"})),
              response(code, Status::ok, {.key = "k", .extras = flags, .value = "value", .cas = cas}));
  EXPECT_EQ(server.exchange(packet(o::get, {.key = "absent"})), error(o::get, Status::not_found));
  EXPECT_EQ(server.exchange(packet(o::getk, {.key = "absent"})),
            response(o::getk, Status::not_found, {.key = "absent"}));
  EXPECT_EQ(server.exchange(packet(o::getq, {.key = "absent"}) + packet(o::getkq, {.key = "absent"}) + noop()),
            noop_answer());
}

TEST(BinaryReplies, Stores) {
  ReplyHarness server;
  const auto store = [&](std::uint8_t code, std::uint64_t cas = 0) {
    return server.exchange(packet(code, {.key = "k", .extras = store_extras(), .value = "v", .cas = cas}));
  };
  EXPECT_EQ(store(o::replace), error(o::replace, Status::not_found));
  EXPECT_EQ(store(o::replaceq), error(o::replaceq, Status::not_found));
  EXPECT_EQ(store(o::set, 5), error(o::set, Status::not_found));
  EXPECT_EQ(store(o::add, 5), error(o::add, Status::not_found)) << "with a CAS id, an add is a compare and swap";
  const string added = store(o::add);
  const std::uint64_t cas = cas_of(added);
  EXPECT_EQ(added, response(o::add, Status::ok, {.cas = cas}));
  EXPECT_EQ(store(o::add), error(o::add, Status::exists));
  EXPECT_EQ(store(o::addq), error(o::addq, Status::exists));
  EXPECT_EQ(store(o::set, cas + 1), error(o::set, Status::exists));
  EXPECT_EQ(store(o::replace, cas + 1), error(o::replace, Status::exists));
  EXPECT_EQ(store(o::setq, cas + 1), error(o::setq, Status::exists)) << "quiet forms hide successes only";
  const std::uint64_t next = cas_of(store(o::add, cas));
  EXPECT_GT(next, cas);
  EXPECT_EQ(store(o::setq, next), "");
  EXPECT_EQ(store(o::setq), "");
  EXPECT_EQ(store(o::replaceq), "");
}

TEST(BinaryReplies, Concatenates) {
  ReplyHarness server;
  const auto add_to = [&](std::uint8_t code, std::string_view value, std::uint64_t cas = 0) {
    return server.exchange(packet(code, {.key = "k", .value = value, .cas = cas}));
  };
  for (const std::uint8_t code : {o::append, o::prepend, o::appendq, o::prependq})
    EXPECT_EQ(add_to(code, "x"), error(code, Status::not_stored));
  server.exchange(set("k", "-", 7));
  const string appended = add_to(o::append, "b");
  const std::uint64_t cas = cas_of(appended);
  EXPECT_EQ(appended, response(o::append, Status::ok, {.cas = cas}));
  EXPECT_EQ(add_to(o::append, "x", cas + 9), error(o::append, Status::exists));
  EXPECT_NE(cas_of(add_to(o::prepend, "a", cas)), 0u);
  EXPECT_EQ(add_to(o::appendq, "c") + add_to(o::prependq, "0"), "");
  EXPECT_EQ(server.exchange(packet(o::get, {.key = "k"})).substr(header_bytes), string("\0\0\0\x07", 4) + "0a-bc");
}

TEST(BinaryReplies, Deletes) {
  ReplyHarness server;
  const std::uint64_t cas = cas_of(server.exchange(set("k", "v")));
  EXPECT_EQ(server.exchange(packet(o::remove, {.key = "k", .cas = cas + 1})), error(o::remove, Status::exists));
  EXPECT_EQ(server.exchange(packet(o::remove, {.key = "k", .cas = cas})), response(o::remove, Status::ok));
  EXPECT_EQ(server.exchange(packet(o::remove, {.key = "k"})), error(o::remove, Status::not_found));
  EXPECT_EQ(server.exchange(packet(o::removeq, {.key = "k"})), error(o::removeq, Status::not_found));
  EXPECT_EQ(server.exchange(set("k", "v") + packet(o::removeq, {.key = "k"})).size(), header_bytes);
}

TEST(BinaryReplies, Arithmetic) {
  ReplyHarness server;
  const auto count = [&](std::uint8_t code, const string& extras, std::uint64_t cas = 0) {
    return server.exchange(packet(code, {.key = "n", .extras = extras, .cas = cas}));
  };
  const auto number = [](const string& reply) { return read<std::uint64_t>(reply.data() + header_bytes); };
  EXPECT_EQ(count(o::increment, arithmetic_extras(1, 10, 0xffffffff)), error(o::increment, Status::not_found));
  EXPECT_EQ(count(o::incrementq, arithmetic_extras(1, 10, 0xffffffff)), error(o::incrementq, Status::not_found));
  const string made = count(o::increment, arithmetic_extras(1, 10), 77);  // a new one has no CAS id to compare
  EXPECT_EQ(made, response(o::increment, Status::ok, {.value = string("\0\0\0\0\0\0\0\x0a", 8), .cas = cas_of(made)}));
  EXPECT_NE(cas_of(made), 0u);
  const string eleven = count(o::increment, arithmetic_extras(1), cas_of(made));
  EXPECT_EQ(number(eleven), 11u);
  EXPECT_EQ(count(o::increment, arithmetic_extras(1), cas_of(made)), error(o::increment, Status::exists));
  EXPECT_EQ(number(count(o::decrement, arithmetic_extras(100))), 0u);
  EXPECT_EQ(number(count(o::increment, arithmetic_extras(~0ull))), ~0ull);
  EXPECT_EQ(number(count(o::increment, arithmetic_extras(3))), 2u) << "it wraps";
  EXPECT_EQ(count(o::incrementq, arithmetic_extras(1)) + count(o::decrementq, arithmetic_extras(1)), "");
  server.exchange(set("n", "text"));
  EXPECT_EQ(count(o::increment, arithmetic_extras(1)), error(o::increment, Status::not_a_number));
  EXPECT_EQ(count(o::decrementq, arithmetic_extras(1)), error(o::decrementq, Status::not_a_number));
}

TEST(BinaryReplies, InitialValueExpires) {
  ReplyHarness server;
  server.exchange(packet(o::incrementq, {.key = "n", .extras = arithmetic_extras(1, 5, 10)}));
  EXPECT_EQ(server.exchange("") + server.exchange(packet(o::getq, {.key = "n"})).substr(header_bytes), no_flags + "5");
  server.set_time(ReplyHarness::start_s + 10);
  EXPECT_EQ(server.exchange(packet(o::getq, {.key = "n"})), "");
}

TEST(BinaryReplies, TouchAndGetAndTouch) {
  ReplyHarness server;
  const string hundred = number_text(std::uint32_t{100});
  const std::uint64_t cas = cas_of(server.exchange(set("k", "value", 7)));
  const string flags("\0\0\0\x07", 4);
  EXPECT_EQ(server.exchange(packet(o::touch, {.key = "k", .extras = hundred})),
            response(o::touch, Status::ok, {.extras = flags, .cas = cas}));
  for (const std::uint8_t code : {o::gat, o::gatq})
    EXPECT_EQ(server.exchange(packet(code, {.key = "k", .extras = hundred})),
              response(code, Status::ok, {.extras = flags, .value = "value", .cas = cas}));
  for (const std::uint8_t code : {o::gatk, o::gatkq})
    EXPECT_EQ(server.exchange(packet(code, {.key = "k", .extras = hundred})),
              response(code, Status::ok, {.key = "k", .extras = flags, .value = "value", .cas = cas}));
  EXPECT_EQ(server.exchange(packet(o::touch, {.key = "absent", .extras = hundred})),
            error(o::touch, Status::not_found));
  EXPECT_EQ(server.exchange(packet(o::gat, {.key = "absent", .extras = hundred})), error(o::gat, Status::not_found));
  EXPECT_EQ(server.exchange(packet(o::gatk, {.key = "absent", .extras = hundred})),
            response(o::gatk, Status::not_found, {.key = "absent"}));
  EXPECT_EQ(server.exchange(packet(o::gatq, {.key = "absent", .extras = hundred}) +
                            packet(o::gatkq, {.key = "absent", .extras = hundred})),
            "");
  server.set_time(ReplyHarness::start_s + 100);
  EXPECT_EQ(server.exchange(packet(o::getq, {.key = "k"})), "") << "the touches counted";
}

TEST(BinaryReplies, LargeValuesAreSentFromWhereTheyLie) {
  ReplyHarness server;
  const string value(100000, 'L');
  server.exchange(set("k", value), 30);
  const string reply = server.exchange(packet(o::getk, {.key = "k"}) + noop());
  EXPECT_EQ(reply,
            response(o::getk, Status::ok, {.key = "k", .extras = no_flags, .value = value, .cas = cas_of(reply)}) +
                noop_answer());
  EXPECT_EQ(server.pinned_values(), 1u);
}

TEST(BinaryReplies, TooLargeValues) {
  ReplyHarness server;
  const string value((1 << 20) + 1, 'X');
  const auto keeps = [&] { return !server.exchange(packet(o::getq, {.key = "k"})).empty(); };
  for (const std::uint8_t code : {o::add, o::addq, o::replace}) {
    server.exchange(set("k", "old"));
    EXPECT_EQ(server.exchange(packet(code, {.key = "k", .extras = store_extras(), .value = value}) + noop(), 1000),
              error(code, Status::too_large) + noop_answer());
    EXPECT_TRUE(keeps());
  }
  for (const std::uint8_t code : {o::append, o::prependq}) {
    EXPECT_EQ(server.exchange(packet(code, {.key = "k", .value = value}) + noop()),
              error(code, Status::too_large) + noop_answer());
    EXPECT_TRUE(keeps());
  }
  for (const std::uint64_t cas : {0u, 99u}) {
    for (const std::uint8_t code : {o::set, o::setq}) {
      server.exchange(set("k", "old"));
      EXPECT_EQ(server.exchange(packet(code, {.key = "k", .extras = store_extras(), .value = value, .cas = cas})),
                error(code, Status::too_large));
      EXPECT_FALSE(keeps()) << "a failed set leaves nothing of the old value";
    }
  }
}

TEST(BinaryReplies, WithoutCasIds) {
  ProtocolOptions options;
  options.cas = false;
  EngineOptions engine = ReplyHarness::small_engine();
  engine.cas = false;
  ReplyHarness server(options, engine);
  EXPECT_EQ(server.exchange(set("k", "1", 0, 12345)), response(o::set, Status::ok)) << "nothing is compared";
  EXPECT_EQ(cas_of(server.exchange(packet(o::get, {.key = "k"}))), 0u);
  EXPECT_EQ(cas_of(server.exchange(packet(o::increment, {.key = "k", .extras = arithmetic_extras(1)}))), 0u);
  EXPECT_EQ(server.exchange(packet(o::remove, {.key = "k", .cas = 5})), error(o::remove, Status::exists));
}

TEST(BinaryReplies, FlushVersionQuitAndUnknown) {
  ReplyHarness server;
  server.exchange(set("k", "v"));
  EXPECT_EQ(server.exchange(packet(o::flushq) + packet(o::getq, {.key = "k"})), "");
  EXPECT_EQ(server.exchange(packet(o::flush)), response(o::flush, Status::ok));
  EXPECT_EQ(server.exchange(packet(o::flush, {.extras = number_text(std::uint32_t{9})})),
            response(o::flush, Status::ok));
  EXPECT_EQ(server.exchange(packet(o::flushq, {.extras = number_text(std::uint32_t{2592001})})), "");
  EXPECT_EQ(server.calls, (std::vector<string>{"flush_all 0", "flush_all 0", "flush_all 1008"}));
  EXPECT_EQ(server.exchange(packet(o::version)), response(o::version, Status::ok, {.value = "1.6.18"}));
  EXPECT_EQ(server.exchange(packet(o::verbosity, {.extras = "four"})), error(o::verbosity, Status::unknown_command));
  EXPECT_EQ(server.exchange(packet(o::sasl_list)), error(o::sasl_list, Status::unknown_command));
  EXPECT_EQ(server.exchange(packet(o::sasl_auth, {.key = "PLAIN", .value = plain("u", "p")})),
            error(o::sasl_auth, Status::unknown_command));
  EXPECT_EQ(server.exchange(packet(o::quit, {.opaque = 3})), response(o::quit, Status::ok, {.opaque = 3}));
  EXPECT_TRUE(server.closed());
}

TEST(BinaryReplies, FlushTurnedOff) {
  ProtocolOptions options;
  options.flush_enabled = false;
  ReplyHarness server(options);
  EXPECT_EQ(server.exchange(packet(o::flush) + packet(o::flushq)),
            error(o::flush, Status::auth_error) + error(o::flushq, Status::auth_error));
  EXPECT_TRUE(server.calls.empty());
}

TEST(BinaryReplies, Stats) {
  ReplyHarness server;
  const string end = response(o::stat, Status::ok);
  const string one = response(o::stat, Status::ok, {.key = "name", .value = "value"});
  const auto stat = [&](std::string_view group) { return server.exchange(packet(o::stat, {.key = group})); };
  EXPECT_EQ(stat(""), one + end);
  EXPECT_EQ(stat("settings"), one + end);
  EXPECT_EQ(stat("items"), end);
  EXPECT_EQ(stat("nosuch"), error(o::stat, Status::not_found));
  EXPECT_EQ(stat("detail on"), end);
  EXPECT_EQ(stat("detail off"), end);
  EXPECT_EQ(
      stat("detail dump"),
      response(o::stat, Status::ok, {.key = "detailed", .value = "PREFIX a get 1 hit 0 set 0 del 0\r\nEND\r\n"}) + end);
  EXPECT_EQ(stat("detail"), error(o::stat, Status::not_found));
  const auto sizes = [&](std::string_view status) {
    return response(o::stat, Status::ok, {.key = "sizes_status", .value = status}) + end;
  };
  EXPECT_EQ(stat("sizes"), sizes("disabled"));
  EXPECT_EQ(stat("sizes_enable"), sizes("enabled"));
  EXPECT_EQ(stat("sizes"), sizes("enabled"));
  EXPECT_EQ(server.calls, (std::vector<string>{"stats ", "stats settings", "stats items", "stats nosuch", "detail on",
                                               "detail off"}));
}

TEST(BinaryReplies, FullStore) {
  EngineOptions engine = ReplyHarness::small_engine();
  engine.memory_bytes = std::uint64_t{8} << 20;
  engine.evict = false;
  ReplyHarness server({}, engine);
  const string value(500000, 'v');
  string reply;
  for (int i = 0; i < 40; ++i) reply = server.exchange(set("k" + std::to_string(i), value));
  EXPECT_EQ(reply, response(o::set, Status::no_memory, {.value = "Out of memory allocating item"}));
  EXPECT_EQ(server.exchange(noop()), noop_answer());
}

}  // namespace
}  // namespace tandem::codec::binary
