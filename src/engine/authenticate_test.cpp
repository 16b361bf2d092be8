// Authentication: SASL over the binary protocol, a set over text. A client without credentials cannot read, write or
// learn anything, and authentication survives any split of the input and any rewinding.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "codec/packet_builder.hpp"
#include "codec/parse_harness.hpp"
#include "engine/reply_harness.hpp"

namespace tandem::codec {
namespace {

using binary::packet;
using binary::plain;
using binary::response;
using std::string;
namespace o = binary::opcode;
using binary::Status;

constexpr std::string_view file = "user:pass\nother:word\n";

class Sasl : public testing::Test {
 protected:
  Sasl() { options_.sasl = credentials_.get(); }

  const std::unique_ptr<Credentials> credentials_ = Credentials::from_text(file, Credentials::Format::sasl_file);
  ProtocolOptions options_;
  const string list_ = packet(o::sasl_list), noop_ = packet(o::noop);
  const string mechanisms_ = response(o::sasl_list, Status::ok, {.value = "PLAIN"});
  const string noop_answer_ = response(o::noop, Status::ok);

  static string auth(std::string_view message, std::string_view mechanism = "PLAIN") {
    return packet(o::sasl_auth, {.key = mechanism, .value = message});
  }
  static string step(std::string_view message, std::string_view mechanism = "PLAIN") {
    return packet(o::sasl_step, {.key = mechanism, .value = message});
  }
  static string passed(std::uint8_t code) { return response(code, Status::ok, {.value = "Authenticated"}); }
  static string failed(std::uint8_t code) { return response(code, Status::auth_error, {.value = "Auth failure."}); }
};

TEST_F(Sasl, NothingWithoutAuthentication) {
  for (unsigned code = 0; code < 256; ++code) {
    if (code == o::version || (code >= o::sasl_list && code <= o::sasl_step)) continue;
    ReplyHarness server(options_);
    const auto opcode = static_cast<std::uint8_t>(code);
    EXPECT_EQ(server.exchange(packet(opcode, {.key = "k", .value = "v"}).substr(0, binary::header_bytes)),
              failed(opcode));
    EXPECT_TRUE(server.closed()) << code;
    EXPECT_TRUE(server.calls.empty());
  }
  ReplyHarness server(options_);
  EXPECT_EQ(server.exchange(packet(o::version)), response(o::version, Status::ok, {.value = "1.6.18"}));
  EXPECT_EQ(server.exchange(list_), mechanisms_);
  for (const char* text : {"version\r\n", "get k\r\n", "mn\r\n", "set k 0 0 9\r\nuser pass\r\n"}) {
    ReplyHarness other(options_);
    EXPECT_EQ(other.exchange(text), "");
    EXPECT_TRUE(other.closed()) << "text is refused";
  }
}

TEST_F(Sasl, Authenticates) {
  for (const string& good : {auth(plain("user", "pass")), auth(plain("user", "pass", "user")),
                             auth(plain("other", "word"), "plain"), auth(plain("user", "pass"), "pLaIn")}) {
    ReplyHarness server(options_);
    EXPECT_EQ(server.exchange(good + noop_), passed(o::sasl_auth) + noop_answer_);
  }
  EXPECT_EQ(credentials_->attempts(), 4u);
  EXPECT_EQ(credentials_->failures(), 0u);
}

TEST_F(Sasl, Fails) {
  for (const string& bad :
       {auth(plain("user", "pasx")), auth(plain("user", "word")), auth(plain("nobody", "pass")),
        auth(plain("user", "pass", "other")), auth(plain("user", "")), auth("user pass"), auth(string(1, '\0')),
        auth(plain("user", "pass") + string(1, '\0')), auth(plain("user", "pass"), "PLAINS"),
        auth(plain("user", "pass"), "DIGEST-MD5"), auth(plain("user", string(5000, 'p'))), auth("", "CRAM-MD5")}) {
    ReplyHarness server(options_);
    EXPECT_EQ(server.exchange(bad + list_), failed(o::sasl_auth) + mechanisms_);
    EXPECT_EQ(server.exchange(noop_), failed(o::noop));
    EXPECT_TRUE(server.closed());
  }
  EXPECT_EQ(credentials_->attempts(), 12u);
  EXPECT_EQ(credentials_->failures(), 12u);
}

TEST_F(Sasl, InTwoSteps) {
  ReplyHarness server(options_);
  const string goes_on = response(o::sasl_auth, Status::auth_continue);
  EXPECT_EQ(server.exchange(step(plain("user", "pass"))), failed(o::sasl_step)) << "nothing was begun";
  EXPECT_EQ(server.exchange(auth("")), goes_on);
  EXPECT_EQ(server.exchange(step("")), failed(o::sasl_step));
  EXPECT_EQ(server.exchange(step(plain("user", "nope"))), failed(o::sasl_step));
  EXPECT_EQ(server.exchange(step(plain("user", "pass"), "ANY")), passed(o::sasl_step));
  EXPECT_EQ(server.exchange(noop_), noop_answer_);
  EXPECT_EQ(server.exchange(step(plain("user", "pass"))), failed(o::sasl_step)) << "that exchange is over";
  EXPECT_EQ(server.exchange(noop_), failed(o::noop)) << "and what it had given";
  EXPECT_EQ(credentials_->attempts(), 5u);
  EXPECT_EQ(credentials_->failures(), 4u);
}

TEST_F(Sasl, RightsEnd) {
  const string good = auth(plain("user", "pass"));
  for (const auto& [request, answer] :
       {std::pair{auth(plain("user", "x")), failed(o::sasl_auth)}, std::pair{list_, mechanisms_},
        std::pair{auth(""), response(o::sasl_auth, Status::auth_continue)}}) {
    ReplyHarness server(options_);
    EXPECT_EQ(server.exchange(good + request + noop_), passed(o::sasl_auth) + answer + failed(o::noop));
    EXPECT_TRUE(server.closed());
  }
  ReplyHarness server(options_);
  const string long_mechanism(33, 'P');
  EXPECT_EQ(
      server.exchange(good + auth("", long_mechanism) + noop_),
      passed(o::sasl_auth) + response(o::sasl_auth, Status::invalid, {.value = "Invalid arguments"}) + noop_answer_)
      << "a request that is none takes nothing away";
}

TEST_F(Sasl, CutAnywhere) {
  const string input = list_ + auth(plain("user", "no")) + auth("") + step(plain("user", "pass")) +
                       packet(o::set, {.key = "k", .extras = binary::store_extras(), .value = "v"}) +
                       auth(plain("user", string(3000, 'p'))) + auth(plain("user", "pass")) + noop_ + list_ + noop_;
  ParseHarness whole(options_);
  whole.offer(input);
  ASSERT_EQ(whole.queries.back(), "close");
  for (std::size_t cut = 1; cut < input.size(); ++cut) {
    ParseHarness parts(options_, static_cast<std::uint32_t>(1 + cut % 3));
    parts.offer(std::string_view(input).substr(0, cut));
    parts.offer(std::string_view(input).substr(cut));
    ASSERT_EQ(parts.queries, whole.queries) << cut;
  }
}

// A blocked client's queries are parsed again later, with the rights that they had the first time.
TEST_F(Sasl, RewindingGivesBackTheRightsOfThen) {
  const string input = auth("") + step(plain("user", "pass")) + noop_ + auth(plain("user", "no")) + noop_;
  const Clock clock;
  Batch batch(64);
  Parser parser(options_, clock);
  std::size_t consumed = 0;
  ASSERT_EQ(parser.parse(input.data(), input.data() + input.size(), batch, consumed), ParseStop::close);
  ASSERT_EQ(batch.size(), 5u);
  for (std::uint32_t i = 0; i < batch.size(); ++i) {
    Batch again(64);
    EXPECT_EQ(parser.parse(parser.rewind(batch.query(i)), input.data() + input.size(), again, consumed),
              ParseStop::close);
    ASSERT_EQ(again.size(), batch.size() - i);
    for (std::uint32_t k = 0; k < again.size(); ++k)
      EXPECT_EQ(text_of(again.query(k), {}), text_of(batch.query(i + k), {})) << i << " " << k;
  }
}

class AuthFile : public testing::Test {
 protected:
  AuthFile() { options_.auth_file = credentials_.get(); }

  const std::unique_ptr<Credentials> credentials_ = Credentials::from_text(file, Credentials::Format::auth_file);
  ProtocolOptions options_;
  const string good_ = "set key 0 0 9\r\nuser pass\r\n";
  const string unauthenticated_ = "CLIENT_ERROR unauthenticated\r\n";
};

TEST_F(AuthFile, NothingWithoutAuthentication) {
  ReplyHarness server(options_);
  for (const char* line : {"get k",
                           "gets k",
                           "gat 0 k",
                           "version",
                           "quit",
                           "mn",
                           "mg k v",
                           "ms k 2",
                           "ab",
                           "me k",
                           "md k",
                           "ma k",
                           "stats",
                           "stats settings",
                           "flush_all",
                           "verbosity 1",
                           "shutdown",
                           "add k 0 0 9",
                           "cas k 0 0 9 1",
                           "set",
                           "set k 0 9",
                           "set k 0 0",
                           "set k 0 0 x",
                           "set k 0 0 -9",
                           "SET k 0 0 9",
                           "set\tk 0 0 9",
                           "watch",
                           "lru_crawler metadump all",
                           "refresh_certs",
                           "GET / HTTP/1.0",
                           " ",
                           "\x80\x0b"}) {
    EXPECT_EQ(server.exchange(string(line) + "\r\n"), unauthenticated_) << line;
  }
  EXPECT_EQ(server.exchange(packet(o::version) + "\n"), unauthenticated_) << "the binary protocol is refused";
  EXPECT_TRUE(server.calls.empty());
  EXPECT_FALSE(server.closed());
  EXPECT_EQ(credentials_->attempts(), 0u);
  EXPECT_EQ(server.exchange(good_ + "get k\r\n"), "STORED\r\nEND\r\n");
}

TEST_F(AuthFile, Authenticates) {
  for (const char* good :
       {"set key 0 0 9\r\nuser pass\r\n", "set a b c 9\r\nuser pass\r\n", "set a b c 9 noreply\r\nuser pass\r\n",
        "  set  a 0 0 9\nuser pass\r\n", "set a 0 0 14\r\n  user  pass  \r\n", "set a 0 0 11\r\nuser pass x\r\n",
        "set a 0 0 10\r\nother word\r\n", "set a 0 0 4294967305\r\nuser pass\r\n"}) {
    ReplyHarness server(options_);
    EXPECT_EQ(server.exchange(good), "STORED\r\n") << good;
    EXPECT_EQ(server.exchange("get a\r\nget key\r\n"), "END\r\nEND\r\n") << "nothing was stored";
    EXPECT_EQ(server.exchange(good_), "STORED\r\n");
    EXPECT_NE(server.exchange("get key\r\n"), "END\r\n") << "now a set is a set";
  }
  EXPECT_EQ(credentials_->attempts(), 8u);
  EXPECT_EQ(credentials_->failures(), 0u);
  ReplyHarness server(options_);
  EXPECT_EQ(server.exchange(string("set a 0 0 14\r\nuser pass\0junk\r\n", 30)), "STORED\r\n") << "a C string";
}

TEST_F(AuthFile, Fails) {
  ReplyHarness server(options_);
  const string failure = "CLIENT_ERROR authentication failure\r\n";
  const string token = "CLIENT_ERROR bad authentication token format\r\n";
  const string termination = "CLIENT_ERROR bad command line termination\r\n";
  EXPECT_EQ(server.exchange("set k 0 0 9\r\nuser pasx\r\n"), failure);
  EXPECT_EQ(server.exchange("set k 0 0 9\r\nuser word\r\n"), failure);
  EXPECT_EQ(server.exchange("set k 0 0 9\r\nUSER pass\r\n"), failure);
  EXPECT_EQ(server.exchange("set k 0 0 4\r\nuser\r\n"), token);
  EXPECT_EQ(server.exchange("set k 0 0 0\r\n\r\n"), token);
  EXPECT_EQ(server.exchange("set k 0 0 9\r\nuser\tpass\r\n"), token);
  EXPECT_EQ(server.exchange("set k 0 0 9\r\nuser passXX"), termination);
  EXPECT_EQ(credentials_->attempts(), 3u);
  EXPECT_EQ(credentials_->failures(), 3u);
  EXPECT_EQ(server.exchange("get k\r\n"), unauthenticated_);
}

TEST_F(AuthFile, LongLinesAndValuesEndTheConnection) {
  for (const string& input :
       {string(2049, 'x'), string("set k 0 0 2049\r\n"), string("set k 0 0 4294967295\r\nuser")}) {
    ReplyHarness server(options_);
    const string reply = server.exchange(input);
    EXPECT_TRUE(server.closed());
    EXPECT_TRUE(reply.empty() || reply == unauthenticated_);
  }
  ReplyHarness server(options_);
  EXPECT_EQ(server.exchange(string(5000, 'x') + "\r\n" + good_), unauthenticated_ + "STORED\r\n")
      << "a line that is there whole is one";
}

TEST_F(AuthFile, CutAnywhere) {
  const string input = "version\r\nset k 0 0 9\r\nuser nope\r\nset k 0 0 4\r\nuser\r\n" + good_ + "get k\r\nmn\r\n";
  ParseHarness whole(options_);
  whole.offer(input);
  ASSERT_EQ(whole.queries.size(), 6u);
  for (std::size_t cut = 1; cut < input.size(); ++cut) {
    ParseHarness parts(options_, static_cast<std::uint32_t>(1 + cut % 3));
    parts.offer(std::string_view(input).substr(0, cut));
    parts.offer(std::string_view(input).substr(cut));
    ASSERT_EQ(parts.queries, whole.queries) << cut;
  }
}

TEST_F(AuthFile, RewindingBeforeAuthenticationUndoesIt) {
  const string input = "version\r\n" + good_ + "get k\r\n";
  const Clock clock;
  Batch batch(64);
  Parser parser(options_, clock);
  std::size_t consumed = 0;
  parser.parse(input.data(), input.data() + input.size(), batch, consumed);
  ASSERT_EQ(batch.size(), 3u);
  for (const std::uint32_t i : {0u, 1u, 2u}) {
    Batch again(64);
    parser.parse(parser.rewind(batch.query(i)), input.data() + input.size(), again, consumed);
    ASSERT_EQ(again.size(), batch.size() - i);
    for (std::uint32_t k = 0; k < again.size(); ++k)
      EXPECT_EQ(text_of(again.query(k), {}), text_of(batch.query(i + k), {}));
  }
}

TEST(Authentication, EachProtocolAsksItsOwn) {
  const auto sasl = Credentials::from_text("bin:one\n", Credentials::Format::sasl_file);
  const auto text = Credentials::from_text("txt:two\n", Credentials::Format::auth_file);
  ProtocolOptions options;
  options.sasl = sasl.get();
  options.auth_file = text.get();
  ReplyHarness over_text(options), over_binary(options);
  EXPECT_EQ(over_text.exchange("set k 0 0 7\r\nbin one\r\nset k 0 0 7\r\ntxt two\r\nmn\r\n"),
            "CLIENT_ERROR authentication failure\r\nSTORED\r\nMN\r\n");
  const string denied = response(o::sasl_auth, Status::auth_error, {.value = "Auth failure."});
  EXPECT_EQ(over_binary.exchange(packet(o::sasl_auth, {.key = "PLAIN", .value = plain("txt", "two")})), denied);
  EXPECT_EQ(over_binary.exchange(packet(o::sasl_auth, {.key = "PLAIN", .value = plain("bin", "one")})),
            response(o::sasl_auth, Status::ok, {.value = "Authenticated"}));
}

TEST(Authentication, NothingIsTakenWhereNeitherProtocolMayBe) {
  const auto sasl = Credentials::from_text("bin:one\n", Credentials::Format::sasl_file);
  ProtocolOptions options;
  options.sasl = sasl.get();
  options.dialect = Dialect::text;
  ReplyHarness over_text(options), over_binary(options);
  EXPECT_EQ(over_text.exchange("version\r\n"), "");
  EXPECT_TRUE(over_text.closed());
  EXPECT_EQ(over_binary.exchange(packet(o::version)), "");
  EXPECT_TRUE(over_binary.closed());
}

}  // namespace
}  // namespace tandem::codec
