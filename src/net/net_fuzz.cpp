// Whole connections: random bytes in random packets on several connections of one worker, over socket pairs; clients
// that read, do not read, go away in the middle. Nothing may crash, and in the end nothing may be left over.
//
// Input: packets, each ended by 0xff and a byte that says what comes next (its lower 3 bits): 0 a pass of the worker, 1
// the next connection, 2 the client reads, 3 it goes and a new one comes, 4 it closes its sending side, 5 so many times
// 1,009 bytes 'x' (the next byte), 6 the last packet 32 times, 7 a pass and a read.
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/acceptor.hpp"
#include "net/control.hpp"
#include "net/worker.hpp"

namespace tandem::net {
namespace {

EngineOptions engine_options() {
  EngineOptions options;
  options.memory_bytes = std::uint64_t{16} << 20;
  options.huge_pages = false;
  options.hash_seed = 1;
  return options;
}

class Harness {
 public:
  Harness() : engine_(engine_options()), state_({}, engine_), control_(state_) {
    workers_.push_back(std::make_unique<Worker>(state_, control_, std::vector<Fd>{}));
    acceptor_ = std::make_unique<Acceptor>(state_, std::vector<BoundSocket>{}, std::vector<UnixListener>{}, workers_);
    control_.observe(workers_, *acceptor_, 0, 0);
  }

  void run(std::string_view input) {
    std::string_view packet;
    std::size_t now = 0;
    for (Client& client : clients_) client = connect();
    while (!input.empty()) {
      const std::size_t end = input.find('\xff');
      packet = input.substr(0, end);
      send(clients_[now], std::string(packet));
      input.remove_prefix(packet.size());
      if (input.size() < 2) break;
      const auto action = static_cast<unsigned>(input[1]) % 8;
      input.remove_prefix(2);
      switch (action) {
        case 0:
          worker().pass(0);
          break;
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
            send(clients_[now], std::string(1009 * static_cast<unsigned char>(input[0]), 'x'));
            input.remove_prefix(1);
          }
          break;
        case 6:
          for (int i = 0; i < 32; ++i) send(clients_[now], std::string(packet));
          break;
        default:
          worker().pass(0);
          read(clients_[now]);
      }
    }
    finish();
  }

 private:
  struct Client {
    Fd socket;
    std::string tail;  // the last of what it sent, with one space for several
  };

  Worker& worker() { return *workers_.front(); }

  Client connect() {
    int pair[2];
    TD_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    const int small = 4096;  // the worker's socket is full soon
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    state_.connections.fetch_add(1);
    worker().adopt(Fd(pair[1]));
    return {Fd(pair[0]), {}};
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

  // The clients go; the worker must notice, and hold nothing for them.
  void finish() {
    for (Client& client : clients_) client = {};
    for (int i = 0; i < 1000 && state_.connections.load() != 0; ++i) worker().pass(0);
    TD_ASSERT(state_.connections.load() == 0);
    TD_ASSERT(worker().connection_count() == 0);
    TD_ASSERT(state_.unsent.used_bytes() == 0);
    TD_ASSERT(state_.kept.used_bytes() == 0);
    TD_ASSERT(state_.pinned.used_bytes() == 0);
    TD_ASSERT(state_.filling.used_bytes() == 0);
  }

  Engine engine_;
  State state_;
  Control control_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Acceptor> acceptor_;
  std::array<Client, 3> clients_;
};

}  // namespace
}  // namespace tandem::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static tandem::net::Harness harness;
  harness.run({reinterpret_cast<const char*>(data), bytes});
  return 0;
}
