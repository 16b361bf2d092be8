#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "bench/load/floor.hpp"

namespace tandem::load {
namespace {

struct FloorConnection {
  net::Fd socket;
  std::string partial_request;
  std::string unsent;
};

class TcpFloorWorker final : public FloorWorker {
 public:
  TcpFloorWorker(const FloorOptions& options, const CannedReplies& replies)
      : replies_(replies),
        epoll_(check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        stop_(check(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
        input_(std::max(std::size_t{256} << 10, 2 * (std::size_t{options.value_bytes} + 512)) +
               CannedReplies::read_margin),
        output_(std::size_t{1} << 20) {
    watch(EPOLL_CTL_ADD, stop_.get(), &stop_, EPOLLIN);
  }
  ~TcpFloorWorker() override = default;

  // Makes this the accepting worker, for all of `peers`.
  void listen(net::Fd listener, std::vector<TcpFloorWorker*> peers) {
    listener_ = std::move(listener);
    peers_ = std::move(peers);
    watch(EPOLL_CTL_ADD, listener_.get(), &listener_, EPOLLIN);
  }

  void run() override {
    epoll_event events[256];
    for (;;) {
      const int count = epoll_wait(epoll_.get(), events, 256, -1);
      for (int i = 0; i < count; ++i) {
        if (events[i].data.ptr == &stop_) return;
        if (events[i].data.ptr == &listener_) {
          accept_one();
        } else {
          serve(*static_cast<FloorConnection*>(events[i].data.ptr));
        }
      }
    }
  }

  void stop() noexcept override {
    const std::uint64_t one = 1;
    if (::write(stop_.get(), &one, sizeof one) < 0) return;  // the counter is full: it will stop
  }

 private:
  void watch(int operation, int fd, void* what, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = what;
    check(epoll_ctl(epoll_.get(), operation, fd, &event), "epoll_ctl");
  }

  void accept_one() {
    net::Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) return;
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // fails for a Unix socket
    peers_[turn_]->take(std::move(fd));
    turn_ = turn_ + 1 == peers_.size() ? 0 : turn_ + 1;
  }

  // Called by the accepting thread.
  void take(net::Fd fd) {
    auto connection = std::make_unique<FloorConnection>();
    connection->socket = std::move(fd);
    FloorConnection* const one = connection.get();
    {
      const std::scoped_lock lock(mutex_);
      connections_.emplace(one, std::move(connection));
    }
    watch(EPOLL_CTL_ADD, one->socket.get(), one, EPOLLIN);
  }

  void drop(FloorConnection& connection) {
    const std::scoped_lock lock(mutex_);
    connections_.erase(&connection);
  }

  void serve(FloorConnection& connection) {
    if (!connection.unsent.empty()) return send_rest(connection);
    const std::size_t kept = connection.partial_request.size();
    if (input_.size() < kept + input_room_min) input_.resize(2 * (kept + input_room_min));
    if (kept > 0) std::memcpy(input_.data(), connection.partial_request.data(), kept);
    const std::size_t room = input_.size() - CannedReplies::read_margin - kept;
    const ssize_t got = recv(connection.socket.get(), input_.data() + kept, room, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return drop(connection);
    std::size_t out_bytes = 0;
    const char* end = input_.data() + kept + got;
    const char* done = replies_.answer(input_.data(), end, output_, out_bytes);
    if (static_cast<std::size_t>(end - done) > request_bytes_max) return drop(connection);
    if (kept > 0 || done != end) connection.partial_request.assign(done, end);
    if (out_bytes > 0) send_now(connection, output_.data(), out_bytes);
  }

  void send_now(FloorConnection& connection, const char* data, std::size_t size) {
    const ssize_t sent = send(connection.socket.get(), data, size, MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(size)) return;
    if (sent < 0 && errno != EAGAIN) return drop(connection);
    const std::size_t done = sent < 0 ? 0 : static_cast<std::size_t>(sent);
    connection.unsent.assign(data + done, size - done);
    watch(EPOLL_CTL_MOD, connection.socket.get(), &connection, EPOLLOUT);
  }

  void send_rest(FloorConnection& connection) {
    const ssize_t sent =
        send(connection.socket.get(), connection.unsent.data(), connection.unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return drop(connection);
    connection.unsent.erase(0, sent < 0 ? 0 : static_cast<std::size_t>(sent));
    if (connection.unsent.empty()) watch(EPOLL_CTL_MOD, connection.socket.get(), &connection, EPOLLIN);
  }

  static constexpr std::size_t input_room_min = 64 * 1024;
  static constexpr std::size_t request_bytes_max = std::size_t{1} << 30;  // memcached's own limit for -I

  const CannedReplies& replies_;
  net::Fd epoll_, stop_, listener_;
  std::vector<TcpFloorWorker*> peers_;
  std::size_t turn_ = 0;
  std::vector<char> input_, output_;
  std::mutex mutex_;
  std::unordered_map<FloorConnection*, std::unique_ptr<FloorConnection>> connections_;  // guarded by mutex_
};

}  // namespace

std::vector<std::unique_ptr<FloorWorker>> make_tcp_floor(net::Fd listener, const FloorOptions& options,
                                                         const CannedReplies& replies) {
  std::vector<std::unique_ptr<FloorWorker>> workers;
  std::vector<TcpFloorWorker*> peers;
  for (std::uint32_t i = 0; i < options.threads; ++i) {
    auto worker = std::make_unique<TcpFloorWorker>(options, replies);
    peers.push_back(worker.get());
    workers.push_back(std::move(worker));
  }
  peers.front()->listen(std::move(listener), peers);
  return workers;
}

}  // namespace tandem::load
