// TLS connections of one worker, over socket pairs: handshakes broken off, forged or damaged at any byte, records that
// no client sends, and whole sessions cut short. Nothing may crash, another connection with TLS is answered right all
// the while, and in the end nothing may be left over.
//
// Input: packets, each ended by 0xff and a byte that says what is done with it (its lower 3 bits): 0 sent as it is, 1
// sent inside a record of the session (encrypted once the handshake is done), 2 a step of a real client's handshake, 3
// the same with one byte damaged (which one: the packet's first two bytes), 4 the client goes and a new one comes, 5
// the next connection, 6 the sending side is closed, 7 a record header of the packet's first byte as type before it. A
// pass of the worker follows each.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/fuzz_witness.hpp"
#include "net/tls_test_files.hpp"
#include "operate/control.hpp"
#include "worker/acceptor.hpp"
#include "worker/worker.hpp"

namespace tandem::net {
namespace {

EngineOptions engine_options() {
  EngineOptions options;
  options.memory_bytes = std::uint64_t{16} << 20;
  options.huge_pages = false;
  options.hash_seed = 1;
  return options;
}

// One connection: the client's end of it, and a client to produce valid bytes.
struct Peer {
  Fd socket;
  SslPtr ssl;
  BIO *in = nullptr, *out = nullptr;  // the session's
};

class Harness {
 public:
  Harness() : engine_(engine_options()), state_(make_options(), engine_), control_(state_) {
    workers_.push_back(std::make_unique<Worker>(state_, control_, UdpPorts{}));
    acceptor_ = std::make_unique<Acceptor>(state_, std::vector<BoundSocket>{}, std::vector<UnixListener>{}, workers_);
    control_.observe(workers_, *acceptor_, 0, 0);
    client_context_.reset(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_verify(client_context_.get(), SSL_VERIFY_NONE, nullptr);
    witness_peer_ = connect();
    while (SSL_is_init_finished(witness_peer_.ssl.get()) == 0) {
      step(witness_peer_);
      send(witness_peer_, take(witness_peer_));
      worker().pass(0);
      receive(witness_peer_);
    }
  }

  void run(std::string_view input) {
    for (Peer& peer : peers_) peer = connect();
    // Both versions of the protocol, by the input's first bit.
    if (!input.empty() && (static_cast<unsigned>(input.front()) & 1u) != 0)
      SSL_set_max_proto_version(peers_.front().ssl.get(), TLS1_2_VERSION);
    std::size_t now = 0;
    while (!input.empty()) {
      const std::string_view packet = input.substr(0, input.find('\xff'));
      input.remove_prefix(packet.size());
      if (input.size() < 2) {
        send(peers_[now], packet);
        break;
      }
      const auto action = static_cast<unsigned>(input[1]) % 8;
      input.remove_prefix(2);
      act(now, action, packet);
      pass();
      receive(peers_[now]);
    }
    finish();
  }

 private:
  ServerOptions make_options() {
    identity_ = test::make_identity("fuzz");
    ServerOptions options;
    options.tls = files_.serve(identity_);
    options.tls.ca = options.tls.certificate;
    options.tls.verify_mode = 1;  // clients' certificates are parsed
    options.tls.session_cache = true;
    return options;
  }
  Worker& worker() { return *workers_.front(); }
  // A pass in which the witness asks, too, unless its last answers are still to come.
  void pass() {
    if (!witness_.waits()) {
      const std::string request = witness_.ask();
      ERR_clear_error();
      TD_ASSERT(SSL_write(witness_peer_.ssl.get(), request.data(), static_cast<int>(request.size())) ==
                std::ssize(request));
      send(witness_peer_, take(witness_peer_));
    }
    worker().pass(0);
    witness_.hear(receive(witness_peer_));
  }

  void act(std::size_t& now, unsigned action, std::string_view packet) {
    Peer& peer = peers_[now];
    switch (action) {
      case 0:
        send(peer, packet);
        break;
      case 1:
        if (SSL_is_init_finished(peer.ssl.get()) != 0 && !packet.empty())
          SSL_write(peer.ssl.get(), packet.data(), static_cast<int>(packet.size()));
        send(peer, take(peer));
        break;
      case 2:
        step(peer);
        send(peer, take(peer));
        break;
      case 3: {
        step(peer);
        std::string bytes = take(peer);
        if (!bytes.empty() && packet.size() > 2) {
          const std::size_t at = static_cast<unsigned char>(packet[0]) * 256u + static_cast<unsigned char>(packet[1]);
          bytes[at % bytes.size()] = packet[2];
        }
        send(peer, bytes);
        break;
      }
      case 4:
        peer = connect();
        break;
      case 5:
        now = (now + 1) % peers_.size();
        break;
      case 6:
        shutdown(peer.socket.get(), SHUT_WR);
        break;
      default:
        if (packet.empty()) break;
        send(peer, std::string{packet[0], 3, 3, static_cast<char>((packet.size() - 1) >> 8),
                               static_cast<char>(packet.size() - 1)});
        send(peer, packet.substr(1));
    }
  }

  Peer connect() {
    int pair[2];
    TD_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    const int small = 4096;  // the worker's socket is full soon
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    state_.connections.fetch_add(1);
    worker().adopt(Fd(pair[1]), state_.protocol, true);
    Peer peer{Fd(pair[0]), SslPtr(SSL_new(client_context_.get())), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem())};
    BIO_set_mem_eof_return(peer.in, -1);
    SSL_set_bio(peer.ssl.get(), peer.in, peer.out);
    SSL_set_connect_state(peer.ssl.get());
    return peer;
  }
  static void step(Peer& peer) {
    ERR_clear_error();
    SSL_do_handshake(peer.ssl.get());
  }
  static std::string take(Peer& peer) {
    std::string bytes(BIO_ctrl_pending(peer.out), '\0');
    if (!bytes.empty()) BIO_read(peer.out, bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  void send(const Peer& peer, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(peer.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
      if (n <= 0 || !bytes.empty()) worker().pass(0);
      if (n <= 0) return;
    }
  }
  // What the session says of it.
  std::string receive(Peer& peer) {
    static char sink[65536];
    std::string text;
    for (;;) {
      const ssize_t n = recv(peer.socket.get(), sink, sizeof sink, 0);
      if (n <= 0) return text;
      BIO_write(peer.in, sink, static_cast<int>(n));
      if (SSL_is_init_finished(peer.ssl.get()) != 0) {
        ERR_clear_error();
        for (int got; (got = SSL_read(peer.ssl.get(), sink, sizeof sink)) > 0;)
          text.append(sink, static_cast<std::size_t>(got));
      }
      worker().pass(0);
    }
  }

  // The clients close; the worker must free everything that it holds for them. The one that stays is served.
  void finish() {
    for (int i = 0; i < passes_max && witness_.waits(); ++i) pass();
    TD_ASSERT(!witness_.waits());
    for (Peer& peer : peers_) peer = {};
    for (int i = 0; i < passes_max && state_.connections.load() != 1; ++i) worker().pass(0);
    TD_ASSERT(state_.connections.load() == 1);
    TD_ASSERT(worker().connection_count() == 1);
    TD_ASSERT(state_.unsent.used_bytes() == 0);
    TD_ASSERT(state_.kept.used_bytes() == 0);
    TD_ASSERT(state_.pinned.used_bytes() == 0);
    TD_ASSERT(state_.filling.used_bytes() == 0);
    // What was flushed for a later time, or a lower limit, may take its item once more.
    int passes = 0;
    do {
      pass();
      TD_ASSERT(++passes < passes_max);
    } while (witness_.waits() || !witness_.is_content());
  }

  static constexpr int passes_max = 1000;
  Engine engine_;
  test::TlsFiles files_;
  test::Identity identity_;
  State state_;
  Control control_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Acceptor> acceptor_;
  SslContextPtr client_context_;
  std::array<Peer, 2> peers_;
  Witness witness_;
  Peer witness_peer_;
};

}  // namespace
}  // namespace tandem::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static tandem::net::Harness harness;
  harness.run({reinterpret_cast<const char*>(data), bytes});
  return 0;
}
