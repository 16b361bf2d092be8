// The bare epoll server: one thread, level-triggered epoll; per readable connection one recv, the ready-made replies of
// canned.hpp, one send. What a memcached server costs above this is its own doing; what this costs is the kernel's.
//
//   floor_tcp --port 11300 --key-size 16 --value-size 64

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "canned.hpp"
#include "sockets.hpp"

namespace tandem::bench {
namespace {

struct Connection {
  Descriptor socket;
  std::string partial_request;
  std::string unsent;
};

class FloorServer {
 public:
  FloorServer(uint16_t port, size_t key_bytes, size_t value_bytes)
      : replies_(key_bytes, value_bytes),
        listener_(check(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket")),
        epoll_(check(epoll_create1(0), "epoll_create1")),
        input_(std::max(size_t{256} << 10, 2 * (value_bytes + 512)) + CannedReplies::read_margin),
        output_(size_t{1} << 20) {
    const sockaddr_in address = address_of("127.0.0.1", port);
    set_option(listener_.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    check(bind(listener_.get(), generic(address), sizeof address), "bind");
    check(listen(listener_.get(), 4096), "listen");
    watch(EPOLL_CTL_ADD, listener_.get(), nullptr, EPOLLIN);
  }

  [[noreturn]] void run() {
    epoll_event events[256];
    for (;;) {
      const int count = epoll_wait(epoll_.get(), events, 256, -1);
      for (int i = 0; i < count; ++i) {
        if (events[i].data.ptr == nullptr) {
          accept_one();
        } else {
          serve(*static_cast<Connection*>(events[i].data.ptr));
        }
      }
    }
  }

 private:
  void watch(int operation, int fd, Connection* connection, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = connection;
    check(epoll_ctl(epoll_.get(), operation, fd, &event), "epoll_ctl");
  }

  void accept_one() {
    const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    auto* connection = new Connection{Descriptor(fd), {}, {}};  // owned by the epoll set, deleted in drop()
    watch(EPOLL_CTL_ADD, fd, connection, EPOLLIN);
  }

  static void drop(Connection& connection) { delete &connection; }

  void serve(Connection& connection) {
    if (!connection.unsent.empty()) return send_rest(connection);
    const size_t kept = connection.partial_request.size();
    if (kept > 0) std::memcpy(input_.data(), connection.partial_request.data(), kept);
    const size_t room = input_.size() - CannedReplies::read_margin - kept;
    const ssize_t got = recv(connection.socket.get(), input_.data() + kept, room, 0);
    if (got <= 0) return drop(connection);
    size_t out_bytes = 0;
    const char* end = input_.data() + kept + got;
    const char* done = replies_.answer(input_.data(), end, output_, out_bytes);
    if (kept > 0 || done != end) connection.partial_request.assign(done, end);
    if (out_bytes > 0) send_now(connection, output_.data(), out_bytes);
  }

  void send_now(Connection& connection, const char* data, size_t size) {
    const ssize_t sent = send(connection.socket.get(), data, size, MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(size)) return;
    if (sent < 0 && errno != EAGAIN) return drop(connection);
    const size_t done = sent < 0 ? 0 : static_cast<size_t>(sent);
    connection.unsent.assign(data + done, size - done);
    watch(EPOLL_CTL_MOD, connection.socket.get(), &connection, EPOLLOUT);
  }

  void send_rest(Connection& connection) {
    const ssize_t sent =
        send(connection.socket.get(), connection.unsent.data(), connection.unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return drop(connection);
    connection.unsent.erase(0, sent < 0 ? 0 : static_cast<size_t>(sent));
    if (connection.unsent.empty()) watch(EPOLL_CTL_MOD, connection.socket.get(), &connection, EPOLLIN);
  }

  CannedReplies replies_;
  Descriptor listener_;
  Descriptor epoll_;
  std::vector<char> input_;
  std::vector<char> output_;
};

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  CLI::App app("Bare epoll server with ready-made replies: the floor of the server benchmark");
  uint16_t port = 11300;
  size_t key_bytes = 16;
  size_t value_bytes = 64;
  app.add_option("-p,--port", port, "TCP port on 127.0.0.1")->capture_default_str();
  app.add_option("--key-size", key_bytes, "bytes of a reply's key")->capture_default_str();
  app.add_option("--value-size", value_bytes, "bytes of a reply's value")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    tandem::bench::raise_descriptor_limit();
    tandem::bench::FloorServer(port, key_bytes, value_bytes).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "floor_tcp: %s\n", error.what());
    return 1;
  }
}
