// Whole connections: random bytes in random packets on several connections of one worker, over socket pairs; clients
// that read, do not read, go away in the middle; and datagrams. Nothing may crash, in the end nothing may be left over,
// and another client is answered right all the while. Where passwords are asked for, no client without one reaches the
// store.
//
// Input: 0xfe first for a server with passwords ("u:p"); packets, each ended by 0xff and a byte that says what comes
// next (its lower 4 bits): 0 a pass of the worker, 1 the next connection, 2 the client reads, 3 it goes and a new one
// comes, 4 it closes its sending side, 5 so many times 1,009 bytes 'x' (the next byte), 6 the last packet 32 times, 7 a
// pass and a read; without passwords also 8: the packet was the payload of a datagram, and 9: the whole of one. 10 to
// 15 are 0.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codec/udp.hpp"
#include "net/fuzz_witness.hpp"
#include "net/udp_socket.hpp"
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
  options.ordered = true;  // for mr
  return options;
}

class Harness {
 public:
  explicit Harness(bool passwords)
      : passwords_(passwords), engine_(engine_options()), state_(server_options(), engine_), control_(state_) {
    workers_.push_back(std::make_unique<Worker>(state_, control_, udp_sockets()));
    acceptor_ = std::make_unique<Acceptor>(state_, std::vector<BoundSocket>{}, std::vector<UnixListener>{}, workers_);
    control_.observe(workers_, *acceptor_, 0, 0);
    witness_socket_ = connect().socket;
    if (!passwords_) return;
    constexpr std::string_view login = "set a 0 0 3\r\nu p\r\n";
    TD_ASSERT(::send(witness_socket_.get(), login.data(), login.size(), 0) == std::ssize(login));
    while (recv_some(witness_socket_).empty()) worker().pass(0);
  }

  void run(std::string_view input) {
    const bool knows_password = input.find('u') != std::string_view::npos && input.find('p') != std::string_view::npos;
    const std::int64_t before = commands();
    std::size_t now = 0;
    for (Client& client : clients_) client = connect();
    while (!input.empty()) {
      const std::size_t end = input.find('\xff');
      const std::string_view packet = input.substr(0, end);
      input.remove_prefix(packet.size());
      const unsigned action = input.size() < 2 ? 0 : static_cast<unsigned char>(input[1]) % 16u;
      const bool is_datagram = !passwords_ && (action == 8 || action == 9);
      if (!is_datagram) send(clients_[now], std::string(packet));
      if (input.size() < 2) break;
      input.remove_prefix(2);
      switch (action) {
        case 1:
          now = (now + 1) % clients_.size();
          break;
        case 2:
          read(clients_[now]);
          break;
        case 3:
          clients_[now] = connect();
          break;
        case 4:
          shutdown(clients_[now].socket.get(), SHUT_WR);
          break;
        case 5:
          if (!input.empty()) {
            send(clients_[now], std::string(std::size_t{1009} * static_cast<unsigned char>(input[0]), 'x'));
            input.remove_prefix(1);
          }
          break;
        case 6:
          for (int i = 0; i < 32; ++i) send(clients_[now], std::string(packet));
          break;
        case 7:
          pass();
          read(clients_[now]);
          break;
        default:
          if (is_datagram) send_datagram(packet, action == 8);
          pass();
      }
    }
    finish();
    TD_ASSERT(!passwords_ || knows_password || commands() <= before);
  }

 private:
  struct Client {
    Fd socket;
    std::string tail;  // the last of what it sent, with one space for several
  };

  ServerOptions server_options() const {
    ServerOptions options;
    options.control_path = "none is made";  // `config`, which all clients may write
    options.control_tcp = true;
    if (!passwords_) return options;
    static const Fd file(memfd_create("passwords", MFD_CLOEXEC));
    TD_ASSERT(write(file.get(), "u:p\n", 4) == 4);
    options.auth_file = options.sasl_file = "/proc/self/fd/" + std::to_string(file.get());
    options.sasl = true;
    return options;
  }
  // A pair of Unix sockets: the kernel keeps what is sent through it in order and drops nothing.
  UdpPorts udp_sockets() {
    UdpPorts sockets;
    if (passwords_) return sockets;  // no server has both
    int pair[2];
    TD_ASSERT(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    udp_ = Fd(pair[0]);
    sockets.push_back(std::make_unique<UdpSocket>(Fd(pair[1])));
    return sockets;
  }
  Worker& worker() { return *workers_.front(); }
  // Commands of all clients but the witness.
  std::int64_t commands() const {
    if (!passwords_) return 0;
    const StoreTotals c = engine_.stats().counters;
    const std::uint64_t all = c.cmd_get + c.cmd_set + c.cmd_touch + c.delete_hits + c.delete_misses + c.incr_hits +
                              c.incr_misses + c.decr_hits + c.decr_misses;
    return static_cast<std::int64_t>(all - 3 * witness_.rounds());
  }

  Client connect() {
    int pair[2];
    TD_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    const int small = 4096;  // the worker's socket is full soon
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    state_.connections.fetch_add(1);
    worker().adopt(Fd(pair[1]), state_.protocol);
    return {Fd(pair[0]), {}};
  }
  static std::string_view recv_some(const Fd& socket) {
    static char bytes[65536];
    const ssize_t n = recv(socket.get(), bytes, sizeof bytes, 0);
    TD_ASSERT(n != 0);
    return {bytes, n > 0 ? static_cast<std::size_t>(n) : 0};
  }

  // A pass in which the witness asks, too, unless its last answers are still to come.
  void pass() {
    if (!witness_.waits()) {
      const std::string request = witness_.ask();
      TD_ASSERT(::send(witness_socket_.get(), request.data(), request.size(), MSG_NOSIGNAL) == std::ssize(request));
    }
    worker().pass(0);
    witness_.hear(recv_some(witness_socket_));
  }

  void send_datagram(std::string_view packet, bool adds_frame) {
    Client nobody;
    std::string bytes(adds_frame ? udp_frame_bytes : 0, '\0');
    if (adds_frame) write_udp_frame({++udp_request_, 0, 1}, bytes.data());
    bytes += packet;
    defuse(nobody, bytes);
    UdpFrame frame{};
    if (read_udp_frame(bytes.data(), bytes.size(), frame)) asked_.insert(frame.request_id);
    read_datagrams();
    if (::send(udp_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) worker().pass(0);  // its queue is full
  }
  // What comes has a frame, of a request that was made. Returns whether something came, and the last of it.
  std::string read_datagrams() {
    std::string last;
    char bytes[udp_datagram_bytes_max + 1];
    for (ssize_t n; (n = recv(udp_.get(), bytes, sizeof bytes, 0)) >= 0;) {
      last.assign(bytes, static_cast<std::size_t>(n));
      TD_ASSERT(last.size() > udp_frame_bytes && last.size() <= udp_datagram_bytes_max);
      const auto word = [&](std::size_t at) {
        return static_cast<unsigned char>(last[at]) * 256u + static_cast<unsigned char>(last[at + 1]);
      };
      TD_ASSERT(asked_.contains(static_cast<std::uint16_t>(word(0))));
      TD_ASSERT(word(2) < word(4) && word(6) == 0);
    }
    return last;
  }

  // `debugitem lock` and `ref` hold what another worker's commands would wait for until a third gives it back: here
  // there is one. They become `debugitem u...`, in whatever pieces they come.
  static void defuse(Client& client, std::string& all) {
    constexpr std::string_view command = "debugitem ";
    for (char& c : all) {
      if ((c == 'l' || c == 'r') && client.tail.ends_with(command)) c = 'u';
      if (c != ' ' || !client.tail.ends_with(' ')) client.tail.push_back(c);
      if (client.tail.size() > 64) client.tail.erase(0, client.tail.size() - command.size());
    }
  }
  void send(Client& client, std::string all) {
    const std::string tail = client.tail;
    defuse(client, all);
    std::string_view bytes = all;
    while (!bytes.empty()) {
      const ssize_t n = ::send(client.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
      if (n <= 0 || !bytes.empty()) worker().pass(0);  // takes some, unless it is blocked
      if (n > 0) continue;
      all.resize(all.size() - bytes.size());  // what was sent of it
      client.tail = tail;
      return defuse(client, all);
    }
  }
  void read(const Client& client) {
    static char sink[65536];
    while (recv(client.socket.get(), sink, sizeof sink, 0) > 0) worker().pass(0);
  }

  // The clients close; the worker must free everything that it holds for them. The one that stays is served.
  void finish() {
    for (int i = 0; i < passes_max && witness_.waits(); ++i) pass();
    TD_ASSERT(!witness_.waits());
    finish_datagrams();
    for (Client& client : clients_) client = {};
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
  // Datagrams of which nothing was complete have left nothing behind either.
  void finish_datagrams() {
    if (asked_.empty()) return;
    for (int quiet = 0; quiet < 2;) {
      worker().pass(0);
      quiet = read_datagrams().empty() ? quiet + 1 : 0;
    }
    send_datagram("mn\r\n", true);
    std::string answer;
    for (int i = 0; i < passes_max && answer.empty(); ++i) {
      worker().pass(0);
      answer = read_datagrams();
    }
    char frame[udp_frame_bytes];
    write_udp_frame({udp_request_, 0, 1}, frame);
    TD_ASSERT(answer == std::string(frame, sizeof frame) + "MN\r\n");
    asked_.clear();
  }

  static constexpr int passes_max = 1000;
  const bool passwords_;
  Fd udp_;
  Engine engine_;
  State state_;
  Control control_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Acceptor> acceptor_;
  std::array<Client, 3> clients_;
  Witness witness_;
  Fd witness_socket_;
  std::uint16_t udp_request_ = 0;
  std::set<std::uint16_t> asked_;  // request ids of this input's datagrams
};

}  // namespace
}  // namespace tandem::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using tandem::net::Harness;
  std::string_view input(reinterpret_cast<const char*>(data), bytes);
  if (input.starts_with('\xfe')) {
    static Harness with_passwords(true);
    input.remove_prefix(1);
    with_passwords.run(input);
  } else {
    static Harness open(false);
    open.run(input);
  }
  return 0;
}
