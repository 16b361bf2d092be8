// TLS as clients meet it: requests and replies in any records, handshakes in pieces and broken off, blocked sockets,
// certificates on both sides.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "net/limits.hpp"
#include "net/options.hpp"
#include "operate/tls_test_client.hpp"

namespace tandem::net::test {
namespace {

constexpr int tls_scale = is_sanitized ? 10 : 1;

class Tls : public testing::Test {
 protected:
  Tls() : authority(make_identity("authority")), identity(make_identity("first", &authority)) {
    options = any_port();
    options.tls = files.serve(identity);
    std::signal(SIGPIPE, SIG_DFL);  // a write that raised it would end the test
  }

  TlsFiles files;
  Identity authority, identity;
  ServerOptions options;
};

TEST_F(Tls, StoresAndReadsBack) {
  TestServer s(options);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient c(s.port(), {.version = version});
    EXPECT_EQ(SSL_version(c.ssl()), version);
    EXPECT_EQ(c.set("key", "value"), "STORED\r\n");
    EXPECT_EQ(c.get("key"), "value");
    EXPECT_EQ(c.get("other"), "<none>");
    const auto settings = c.stats("settings");
    EXPECT_EQ(settings.at("ssl_enabled"), "yes");
    EXPECT_EQ(settings.at("ssl_chain_cert"), options.tls.certificate);
    EXPECT_EQ(settings.at("ssl_min_version"), "tlsv1.2");
    EXPECT_EQ(c.stat("ssl_handshake_errors"), 0u);
    EXPECT_EQ(c.stats().count("ssl_new_sessions"), 0u) << "there is no session cache";
    EXPECT_EQ(c.ask("quit\r\n"), "");
    EXPECT_TRUE(c.got_close_notify());
  }
}

TEST_F(Tls, PlainServerSaysSo) {
  TestServer s;
  Client c(s.port());
  EXPECT_EQ(c.stats("settings").at("ssl_enabled"), "no");
  EXPECT_EQ(c.stats().count("ssl_handshake_errors"), 0u);
  EXPECT_EQ(c.ask("refresh_certs\r\n"), "Error TLS not enabled\r\n");
  EXPECT_EQ(s.server.reload_certificates(), "");
}

TEST_F(Tls, AnswersDoNotDependOnRecordsAndPackets) {
  TestServer s(options);
  const std::string requests =
      "set a 5 0 3\r\nabc\r\nget a b a\r\ngets b\r\nset b 0 0 2 noreply\r\nxy\r\nbad\r\nmg a v f\r\nms m 3 "
      "T0\r\nqqq\r\nincr a 1\r\nget m\r\ngat 0 a b\r\ndelete a\r\ndelete b\r\ndelete m\r\nmn\r\n";
  TlsClient whole(s.port());
  whole.send(requests);
  const std::string expected = whole.read_until("MN\r\n");
  ASSERT_NE(expected.find("VALUE a 5 3\r\nabc\r\n"), std::string::npos) << expected;
  for (const std::size_t record : {1u, 2u, 3u, 7u, 50u}) {
    for (const std::size_t piece : {0u, 1u, 5u, 100u}) {
      TlsClient c(s.port(), {.piece_bytes = piece});
      c.send_records(requests, record);
      ASSERT_EQ(c.read_until("MN\r\n"), expected) << record << " bytes a record, " << piece << " a packet";
    }
  }
}

TEST_F(Tls, HandshakeInPieces) {
  TestServer s(options);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    for (const std::size_t piece : {1u, 3u, 64u}) {
      TlsClient c(s.port(), {.version = version, .piece_bytes = piece});
      EXPECT_EQ(c.set("k", "v"), "STORED\r\n");
    }
  }
}

// The first request comes in the packet that ends the handshake.
TEST_F(Tls, RequestBehindTheHandshake) {
  TestServer s(options);
  TlsClient c(s.port(), {.version = TLS1_3_VERSION, .shakes_hands = false});
  ASSERT_FALSE(c.handshake_step());
  ASSERT_TRUE(c.flush());
  while (!c.handshake_step()) ASSERT_TRUE(c.receive_raw());
  c.send("set a 0 0 1\r\nx\r\nget a\r\n");
  EXPECT_EQ(c.read_until("END\r\n"), "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}

TEST_F(Tls, PipelineOfManyRequests) {
  TestServer s(options);
  TlsClient c(s.port());
  constexpr int count = 50'000 / tls_scale;
  std::string requests, expected;
  for (int i = 0; i < count; ++i) {
    const std::string key = "k" + std::to_string(i % 1000), value = "v" + std::to_string(i);
    requests +=
        "set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nget " + key + " missing\r\n";
    expected += "STORED\r\nVALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nEND\r\n";
  }
  ASSERT_TRUE(c.send(requests));
  EXPECT_TRUE(c.read(expected.size()) == expected);
}

// Sizes around a record's, around what is copied and what is pinned.
TEST_F(Tls, ValuesOfAllSizes) {
  TestServer s(options);
  TlsClient c(s.port());
  for (const std::size_t bytes : {0u, 1u, 4095u, 8192u, 8193u, 16383u, 16384u, 16385u, 65536u, 300'000u, 1'000'000u}) {
    const std::string value = pattern(bytes, static_cast<unsigned>(bytes));
    ASSERT_EQ(c.set("k", value), "STORED\r\n") << bytes;
    ASSERT_TRUE(c.get("k") == value) << bytes;
  }
}

// The client asks for much more than its buffers hold and reads only then; other connections are served meanwhile.
TEST_F(Tls, BlockedClientGetsAll) {
  TestServer s(options);
  TlsClient writer(s.port());
  std::string requests, expected;
  for (int i = 0; i < 8; ++i) {
    const std::string key = "k" + std::to_string(i);
    const std::string value =
        pattern(i % 2 == 0 ? 700'000 : 3000 + static_cast<std::size_t>(i), static_cast<unsigned>(i));
    ASSERT_EQ(writer.set(key, value), "STORED\r\n");
    requests += "get " + key + "\r\n";
    expected += "VALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nEND\r\n";
  }
  constexpr int rounds = 8;
  Client* const plain = &writer;
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const std::uint64_t blocked = plain->stat("blocked", "tandem");
    TlsClient c(s.port(), {.version = version, .receive_buffer_bytes = 4096});
    for (int i = 0; i < rounds; ++i) ASSERT_TRUE(c.send(requests));
    ASSERT_TRUE(eventually([&] { return plain->stat("blocked", "tandem") > blocked; }));
    for (int i = 0; i < rounds; ++i) ASSERT_TRUE(c.read(expected.size()) == expected) << i;
    EXPECT_EQ(c.ask("mn\r\n"), "MN\r\n");
  }
  EXPECT_EQ(plain->stat("unsent_bytes", "tandem"), 0u);
  EXPECT_EQ(plain->stat("pinned_bytes", "tandem"), 0u);
}

// What the worker has received and decrypted, but not taken when the connection became blocked, is no event of epoll's.
TEST_F(Tls, InputThatWaitsInsideOpenSslIsTakenWhenTheOutputHasGone) {
  options.threads = 1;
  TestServer s(options);
  TlsClient writer(s.port());
  const std::string value = pattern(700'000, 1);
  ASSERT_EQ(writer.set("big", value), "STORED\r\n");
  constexpr std::size_t received_at_once = 16 * 1024;
  std::string last = "get";
  std::string reply;
  for (int i = 0; i < 20; ++i) {  // more than sockets hold
    last += " big";
    reply += "VALUE big 0 700000\r\n" + value + "\r\n";
  }
  last += "\r\n";
  reply += "END\r\n";
  std::string requests;
  for (const std::size_t bytes : {5000u, 5000u, 0u}) {  // few commands: they fit one batch
    const std::size_t left = received_at_once - last.size() - requests.size();
    const std::size_t value_bytes = bytes != 0 ? bytes : left - std::string("set f 0 0 0000 noreply\r\n\r\n").size();
    requests += "set f 0 0 " + std::to_string(value_bytes) + " noreply\r\n" + std::string(value_bytes, 'f') + "\r\n";
  }
  requests += last;
  ASSERT_EQ(requests.size(), received_at_once);
  const std::string& expected = reply;
  for (int round = 0; round < 3; ++round) {
    TlsClient c(s.port(), {.receive_buffer_bytes = 4096});
    ASSERT_EQ(c.ask("mn\r\n"), "MN\r\n");
    TlsClient busy(s.port());
    ASSERT_TRUE(busy.send(last));  // keeps the worker from looking before both records are there
    ASSERT_TRUE(c.send(requests.substr(0, 10'000)));
    ASSERT_TRUE(c.send(requests.substr(10'000) + "mn\r\n"));
    ASSERT_TRUE(c.read(expected.size()) == expected) << round;
    ASSERT_EQ(c.read(4), "MN\r\n") << round;
  }
}

TEST_F(Tls, ClientsThatLeaveInTheMiddle) {
  TestServer s(options);
  TlsClient witness(s.port());
  ASSERT_EQ(witness.set("k", pattern(900'000, 1)), "STORED\r\n");
  for (int i = 0; i < 20; ++i) {
    TlsClient c(s.port(), {.receive_buffer_bytes = 4096});
    c.send("get k k k k\r\nset half 0 0 500000\r\n" + pattern(static_cast<std::size_t>(i) * 1000, 2));
    const linger hard{1, 0};
    if (i % 2 == 0) setsockopt(c.fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  }
  EXPECT_TRUE(eventually([&] { return witness.stat("curr_connections") == 1; }));
  EXPECT_EQ(witness.stat("pinned_bytes", "tandem"), 0u);
  EXPECT_EQ(witness.stat("filling_bytes", "tandem"), 0u);
}

TEST_F(Tls, HalfClosedClientGetsItsAnswers) {
  TestServer s(options);
  for (const bool says_so : {true, false}) {
    TlsClient c(s.port());
    c.send("set a 0 0 1\r\nx\r\nget a\r\nget a\r\nget incompl");
    if (says_so) c.close_notify();
    c.shutdown_write();
    EXPECT_EQ(c.read_all(), "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    EXPECT_TRUE(c.got_close_notify());
  }
}

TEST_F(Tls, GarbageEndsOnlyItsOwnConnection) {
  TestServer s(options);
  TlsClient witness(s.port());
  std::uint64_t handshake_errors = 0, protocol_errors = 0;
  const std::string noise = pattern(2000, 7);
  for (const std::string& bytes : {std::string("get a\r\n"), std::string("GET / HTTP/1.1\r\n\r\n"), noise,
                                   std::string("\x16\x03\x01\x02\x00", 5) + noise, std::string(3, '\x80')}) {
    Client plain(s.port());
    plain.send(bytes);
    plain.shutdown_write();
    plain.read_all();
    ++handshake_errors;
  }
  {  // after the ClientHello
    TlsClient c(s.port(), {.shakes_hands = false});
    c.handshake_step();
    c.flush();
    c.send_raw(noise);
    c.shutdown_write();
    Client& raw = c;
    while (raw.is_readable(patience_ms) && recv(raw.fd(), std::string(4096, '\0').data(), 4096, 0) > 0) {
    }
    ++handshake_errors;
  }
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {  // established
    TlsClient c(s.port(), {.version = version});
    ASSERT_EQ(c.ask("mn\r\n"), "MN\r\n");
    c.send_raw(std::string("\x17\x03\x03\x00\x40", 5) + noise.substr(0, 64));
    EXPECT_EQ(c.read_all(), "");
    ++protocol_errors;
  }
  EXPECT_TRUE(eventually([&] { return witness.stat("curr_connections") == 1; }));
  EXPECT_EQ(witness.stat("ssl_handshake_errors"), handshake_errors);
  EXPECT_EQ(witness.stat("ssl_proto_errors"), protocol_errors);
}

// A client's first flight, cut off after any number of bytes.
TEST_F(Tls, HandshakesThatBreakOff) {
  TestServer s(options);
  TlsClient witness(s.port());
  std::uint64_t count = 0;
  for (std::size_t bytes = 0; bytes < 600; bytes += bytes < 16 ? 1 : 97, ++count) {
    TlsClient c(s.port(), {.shakes_hands = false});
    c.handshake_step();
    c.send_raw(c.take_raw().substr(0, bytes));
  }
  // Connections that are not accepted yet do not count as current ones.
  EXPECT_TRUE(eventually(
      [&] { return witness.stat("total_connections") == count + 1 && witness.stat("curr_connections") == 1; }));
  EXPECT_EQ(witness.stat("ssl_handshake_errors"), count);
}

TEST_F(Tls, UnfinishedHandshakesAreClosedInTime) {
  options.tls.handshake_timeout_s = 3;  // the witness's own may take its time on a busy machine
  TestServer s(options);
  TlsClient done(s.port());
  Client silent(s.port());
  TlsClient halfway(s.port(), {.shakes_hands = false});
  halfway.handshake_step();
  halfway.flush();
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_TRUE(eventually([&] { return done.stat("curr_connections") == 1; }));
  EXPECT_EQ(done.stat("ssl_handshake_errors"), 2u);
}

TEST_F(Tls, OldestOfTooManyHandshakesIsClosed) {
  options.threads = 1;
  options.tls.handshake_timeout_s = 0;
  TestServer s(options);
  TlsClient witness(s.port());
  std::vector<std::unique_ptr<TlsClient>> halfway;
  for (std::size_t i = 0; i < tls_handshakes_max; ++i) {
    halfway.push_back(std::make_unique<TlsClient>(s.port(), TlsClientOptions{.shakes_hands = false}));
    halfway.back()->handshake_step();
    halfway.back()->flush();
    if (i == 0) {
      ASSERT_TRUE(halfway.front()->is_readable(patience_ms)) << "it is the first to begin";
    }
  }
  for (const auto& c : halfway) ASSERT_TRUE(c->is_readable(patience_ms));
  EXPECT_EQ(witness.stat("ssl_handshake_errors"), 0u);
  TlsClient one_more(s.port());
  EXPECT_EQ(one_more.ask("mn\r\n"), "MN\r\n");
  EXPECT_EQ(witness.stat("ssl_handshake_errors"), 1u);
  EXPECT_TRUE(halfway.back()->shake_hands());
  EXPECT_EQ(halfway.back()->ask("mn\r\n"), "MN\r\n");
  EXPECT_FALSE(halfway.front()->shake_hands() && halfway.front()->ask("mn\r\n") == "MN\r\n");
}

TEST_F(Tls, ReloadIsForNewConnections) {
  TestServer s(options);
  TlsClient before(s.port());
  EXPECT_EQ(before.server_name(), "first");
  const Identity second = make_identity("second", &authority);
  files.write("server.pem", second.certificate.get());
  const std::string mismatch = before.ask("refresh_certs\r\n");
  EXPECT_TRUE(mismatch.starts_with("Error loading the key: " + options.tls.key + " : error:")) << mismatch;
  EXPECT_EQ(TlsClient(s.port()).server_name(), "first") << "a failed reload changes nothing";
  files.write("server.key", second.key.get());
  EXPECT_EQ(before.ask("refresh_certs\r\n"), "OK\r\n");
  EXPECT_EQ(TlsClient(s.port()).server_name(), "second");
  files.serve(identity);
  EXPECT_EQ(s.server.reload_certificates(), "");
  EXPECT_EQ(TlsClient(s.port()).server_name(), "first");
  EXPECT_EQ(before.set("k", "v"), "STORED\r\n") << "who was connected goes on";
  EXPECT_LT(before.stat("time_since_server_cert_refresh"), 60u);
}

TEST_F(Tls, ClientsCertificates) {
  const Identity known = make_identity("known", &authority), strange = make_identity("strange");
  options.tls.ca = files.write("ca.pem", authority.certificate.get());
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    for (const unsigned mode : {0u, 1u, 2u, 3u}) {
      options.tls.verify_mode = mode;
      TestServer s(options);
      EXPECT_EQ(can_connect(s.port(), {.version = version}), mode < 2) << mode;
      EXPECT_EQ(can_connect(s.port(), {.version = version, .identity = &strange}), mode < 1) << mode;
      EXPECT_TRUE(can_connect(s.port(), {.version = version, .identity = &known})) << mode;
    }
  }
}

TEST_F(Tls, OldVersionsAreRefused) {
  struct Case {
    unsigned minimum;
    int version;
    bool taken;
  };
  for (const Case& c : {Case{2, TLS1_1_VERSION, false},
                        {2, TLS1_2_VERSION, true},
                        {2, TLS1_3_VERSION, true},
                        {3, TLS1_2_VERSION, false},
                        {3, TLS1_3_VERSION, true}}) {
    options.tls.min_version = c.minimum;
    TestServer s(options);
    EXPECT_EQ(can_connect(s.port(), {.version = c.version}), c.taken) << c.minimum << ' ' << c.version;
  }
}

TEST_F(Tls, SessionsAreResumedOnlyWithTheCache) {
  for (const bool cache : {false, true}) {
    options.tls.session_cache = cache;
    TestServer s(options);
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
      TlsClient first(s.port(), {.version = version});
      EXPECT_EQ(first.ask("mn\r\n"), "MN\r\n");  // tickets of TLS 1.3 come with the first reply
      SSL_SESSION* session = SSL_get1_session(first.ssl());
      TlsClient second(s.port(), {.version = version, .resume = session});
      EXPECT_EQ(second.ask("mn\r\n"), "MN\r\n");
      EXPECT_EQ(SSL_session_reused(second.ssl()) != 0, cache) << version;
      SSL_SESSION_free(session);
    }
    TlsClient c(s.port());
    EXPECT_EQ(c.stats().count("ssl_new_sessions"), cache ? 1u : 0u);
    if (cache) {
      EXPECT_GE(c.stat("ssl_new_sessions"), 2u);
    }
  }
}

TEST_F(Tls, RenegotiationIsRefused) {
  TestServer s(options);
  TlsClient witness(s.port());
  TlsClient c(s.port(), {.version = TLS1_2_VERSION});
  ASSERT_EQ(SSL_renegotiate(c.ssl()), 1);
  EXPECT_FALSE(c.shake_hands());
  EXPECT_EQ(witness.ask("mn\r\n"), "MN\r\n");
}

// Each asks the server for a message; the client reads none of them for a while.
TEST_F(Tls, KeyUpdates) {
  TestServer s(options);
  TlsClient witness(s.port());
  TlsClient c(s.port(), {.version = TLS1_3_VERSION, .receive_buffer_bytes = 4096});
  for (int i = 0; i < 20'000 / tls_scale; ++i) {
    if (SSL_key_update(c.ssl(), SSL_KEY_UPDATE_REQUESTED) != 1 || !c.handshake_step() || !c.flush()) break;
  }
  EXPECT_EQ(witness.ask("mn\r\n"), "MN\r\n");
  c.send("set a 0 0 1\r\nx\r\nget a\r\n");
  EXPECT_EQ(c.read_until("END\r\n"), "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}

TEST_F(Tls, WhatStaysPlain) {
  options.listen = {"notls:127.0.0.1", "127.0.0.1:0"};
  options.udp_port = -1;
  {
    TestServer s(options);
    Client c(s.port());  // the first address's
    EXPECT_EQ(c.set("k", "v"), "STORED\r\n");
    EXPECT_EQ(UdpClient(s.server.udp_port()).ask(1, "get k\r\n"), "VALUE k 0 1\r\nv\r\nEND\r\n");
  }
  options.unix_path = files.path("socket");
  TestServer s(options);
  Client c(options.unix_path);
  EXPECT_EQ(c.set("k", "v"), "STORED\r\n");
}

TEST_F(Tls, ManyClientsAtOnce) {
  options.threads = 2;
  TestServer s(options);
  constexpr int count = 200 / tls_scale;
  std::vector<std::unique_ptr<TlsClient>> clients;
  for (int i = 0; i < count; ++i) {  // all send their hello before any continues
    clients.push_back(std::make_unique<TlsClient>(s.port(), TlsClientOptions{.shakes_hands = false}));
    clients.back()->handshake_step();
    clients.back()->flush();
  }
  for (const auto& c : clients) ASSERT_TRUE(c->shake_hands());
  for (int i = 0; i < count; ++i)
    clients[static_cast<std::size_t>(i)]->send("set k" + std::to_string(i) + " 0 0 1\r\nx\r\n");
  for (const auto& c : clients) EXPECT_EQ(c->read_line(), "STORED\r\n");
  EXPECT_EQ(clients.front()->stat("ssl_handshake_errors"), 0u);
}

}  // namespace
}  // namespace tandem::net::test
