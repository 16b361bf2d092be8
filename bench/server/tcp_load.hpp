// The load generator over TCP.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "recorder.hpp"
#include "sockets.hpp"
#include "wire.hpp"

namespace tandem::bench {

// One thread, many connections. Closed loop: a connection sends its next batch when the last reply to the one before
// has come. Open loop: batches leave at fixed times, on the connections in turn, whether or not replies have come; the
// thread spins so that they leave on time. A connection's next batch is written before it is due. Thread safety: none.
class TcpLoad {
 public:
  TcpLoad(const RunOptions& options, Wire& wire, Recorder& recorder)
      : options_(options),
        wire_(wire),
        recorder_(recorder),
        epoll_(check(epoll_create1(0), "epoll_create1")),
        connections_(options.connections),
        input_(std::max(size_t{256} << 10, 2 * wire.max_reply_bytes())) {
    for (Connection& connection : connections_) {
      connection.socket = connect_to(options.host, options.port);
      watch(connection, EPOLL_CTL_ADD, EPOLLIN);
      wire_.make(connection.next);
    }
  }

  void run() {
    uint64_t now = now_ns();
    recorder_.start(now);
    Schedule schedule(options_.rate_per_s, wire_.ops_per_batch(), now);
    is_open_loop_ = schedule.is_open_loop();
    spins_ = options_.spin || is_open_loop_;
    if (!is_open_loop_)
      for (Connection& connection : connections_) send_next(connection, now_ns());
    for (;;) {
      now = now_ns();
      issuing_ = recorder_.tick(now) && !at_op_limit();
      if (is_open_loop_) issuing_ = send_due(schedule, now);
      if (failed_ || (!issuing_ && outstanding_ == 0)) break;
      if (recorder_.stalled(now)) {
        for (const Connection& connection : connections_)
          for (const Request& request : connection.pending) recorder_.timed_out(request, now);
        break;
      }
      wait();
    }
    recorder_.close(now_ns());
  }

 private:
  struct Connection {
    Descriptor socket;
    Batch next;
    std::deque<Request> pending;
    std::string partial_reply;
    std::string unsent;
  };

  // In an open loop more than this waits at the client, as its sockets' buffers cannot hold everything.
  static constexpr size_t max_pending = 4096;
  static constexpr int max_wait_ms = 50;

  static Descriptor connect_to(const std::string& host, uint16_t port) {
    Descriptor socket(check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
    const sockaddr_in address = address_of(host, port);
    check(connect(socket.get(), generic(address), sizeof address), "connect");
    set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
    return socket;
  }

  void watch(Connection& connection, int operation, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = &connection;
    check(epoll_ctl(epoll_.get(), operation, connection.socket.get(), &event), "epoll_ctl");
  }

  bool at_op_limit() const { return options_.op_limit != 0 && issued_ops_ >= options_.op_limit; }

  // Returns whether more is to be sent. What was due before the end of the run is, however late it is.
  bool send_due(Schedule& schedule, uint64_t now) {
    while (schedule.next_ns() < recorder_.close_ns() && !at_op_limit()) {
      Connection& connection = connections_[turn_];
      if (schedule.next_ns() > now || connection.pending.size() >= max_pending || failed_) return true;
      recorder_.sent_late(schedule.next_ns(), now);
      send_next(connection, schedule.next_ns());
      schedule.advance();
      turn_ = turn_ + 1 == connections_.size() ? 0 : turn_ + 1;
      now = now_ns();
    }
    return false;
  }

  void send_next(Connection& connection, uint64_t start_ns) {
    Batch& batch = connection.next;
    for (Request& request : batch.requests) {
      request.start_ns = start_ns;
      issued_ops_ += request.key_count;
    }
    connection.pending.insert(connection.pending.end(), batch.requests.begin(), batch.requests.end());
    outstanding_ += batch.requests.size();
    write(connection, {batch.buffer.data(), batch.size});
    wire_.make(batch);
  }

  void write(Connection& connection, std::string_view bytes) {
    if (!connection.unsent.empty()) {
      connection.unsent.append(bytes);
      return;
    }
    const ssize_t sent = ::send(connection.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return fail("send", std::generic_category().message(errno));
    const size_t done = sent < 0 ? 0 : static_cast<size_t>(sent);
    if (done == bytes.size()) return;
    connection.unsent.assign(bytes.substr(done));
    watch(connection, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
  }

  void write_rest(Connection& connection) {
    const std::string rest = std::exchange(connection.unsent, {});
    write(connection, rest);
    if (connection.unsent.empty()) watch(connection, EPOLL_CTL_MOD, EPOLLIN);
  }

  void wait() {
    epoll_event events[256];
    const int count = epoll_wait(epoll_.get(), events, 256, spins_ ? 0 : max_wait_ms);
    for (int i = 0; i < count && !failed_; ++i) {
      Connection& connection = *static_cast<Connection*>(events[i].data.ptr);
      if ((events[i].events & EPOLLOUT) != 0) write_rest(connection);
      if ((events[i].events & ~uint32_t{EPOLLOUT}) != 0) receive(connection);
    }
  }

  void receive(Connection& connection) {
    const size_t kept = connection.partial_reply.size();
    std::memcpy(input_.data(), connection.partial_reply.data(), kept);
    const ssize_t got = recv(connection.socket.get(), input_.data() + kept, input_.size() - kept, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got < 0) return fail("recv", std::generic_category().message(errno));
    if (got == 0) return fail("connection closed by the server");
    const uint64_t now = now_ns();
    std::string_view input(input_.data(), kept + static_cast<size_t>(got));
    while (!input.empty()) {
      if (connection.pending.empty()) return fail("reply without request", input);
      const ReplyCheck reply = wire_.check(connection.pending.front(), input);
      if (reply.status == ReplyStatus::wrong) return fail("wrong reply", input);
      if (reply.status == ReplyStatus::partial) break;
      recorder_.reply(connection.pending.front(), reply.hits, now);
      connection.pending.pop_front();
      --outstanding_;
      input.remove_prefix(reply.bytes);
    }
    connection.partial_reply.assign(input);
    if (!is_open_loop_ && issuing_ && connection.pending.empty()) {
      send_next(connection, now);
      issuing_ = !at_op_limit();
    }
  }

  void fail(std::string_view what, std::string_view reply = {}) {
    recorder_.wrong(what, reply);
    failed_ = true;
  }

  RunOptions options_;
  Wire& wire_;
  Recorder& recorder_;
  Descriptor epoll_;
  std::vector<Connection> connections_;
  std::vector<char> input_;
  bool is_open_loop_ = false;
  bool spins_ = false;
  bool issuing_ = true;
  bool failed_ = false;
  size_t turn_ = 0;
  uint64_t outstanding_ = 0;  // requests
  uint64_t issued_ops_ = 0;
};

}  // namespace tandem::bench
