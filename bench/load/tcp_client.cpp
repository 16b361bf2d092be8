// The load generator over TCP and Unix sockets.
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "bench/load/client.hpp"

namespace tandem::load {
namespace {

// Received input that is not parsed yet. Thread safety: none.
class Input {
 public:
  explicit Input(std::size_t bytes) : data_(bytes) {}

  char* room() noexcept { return data_.data() + end_; }
  std::size_t room_bytes() const noexcept { return data_.size() - end_; }
  std::string_view bytes() const noexcept { return {data_.data() + begin_, end_ - begin_}; }
  void filled(std::size_t bytes) noexcept { end_ += bytes; }
  void take(std::size_t bytes) noexcept { begin_ += bytes; }
  void clear() noexcept { begin_ = end_ = 0; }
  void append(std::string_view more) {
    std::memcpy(room(), more.data(), more.size());
    end_ += more.size();
  }
  // Makes room for `bytes` at least.
  void make_room(std::size_t bytes) {
    if (room_bytes() >= bytes) return;
    std::memmove(data_.data(), data_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    if (room_bytes() < bytes) data_.resize(std::max(2 * data_.size(), end_ + bytes));
  }

 private:
  std::vector<char> data_;
  std::size_t begin_ = 0, end_ = 0;
};

constexpr std::size_t input_bytes = 256 * 1024;
// A shorter beginning of a reply is copied before the next receive; a longer one keeps its own buffer until the rest
// has arrived.
constexpr std::size_t short_rest_bytes = 4096;
// In an open loop up to this many requests wait at the client, as its sockets' buffers cannot hold everything.
constexpr std::size_t pending_max = 4096;

struct Connection {
  net::Fd socket;
  std::uint32_t number = 0;  // among all of the run
  Batch next;
  PendingRequests pending;
  std::string rest;             // the beginning of a reply
  std::unique_ptr<Input> held;  // a long one
  std::string unsent;
  std::string gathered;  // an open loop's batches that were due together
  std::vector<FollowUp> follow_ups;
  std::uint64_t progress_ns = 0;  // when it last received, or began to wait
};

// Closed loop: a connection sends its next batch when it has the last reply to the previous one. Open loop: batches are
// sent when they are due, on the connections in turn, whether or not replies have arrived; those due together are sent
// at once. A connection's next batch is prepared before it is due. Thread safety: none.
class TcpClient final : public Client {
 public:
  TcpClient(const Plan& plan, const Address& address, std::uint32_t thread, Recorder& recorder, RunState& state)
      : plan_(plan),
        recorder_(recorder),
        state_(state),
        thread_(thread),
        timeout_ns_(static_cast<std::uint64_t>(plan.options.timeout_s * 1e9)),
        epoll_(check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        input_(input_bytes) {
    for (const std::uint32_t number : connections_of(plan.options, thread)) {
      Connection& connection = *connections_.emplace_back(std::make_unique<Connection>());
      connection.socket = connect_stream(address);
      connection.number = number;
      makers_.emplace_back(plan, number);
    }
    is_alone_ = connections_.size() == 1 && plan.options.rate_per_s == 0 && plan.options.replay_speed == 0;
    for (auto& connection : connections_) {
      if (!is_alone_) watch(*connection, EPOLL_CTL_ADD, EPOLLIN);
    }
    if (is_alone_ && !plan.options.spin) {
      const timeval limit{0, wait_max_ns / 1000};
      check(setsockopt(connections_[0]->socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), "SO_RCVTIMEO");
    }
  }

  void run(std::uint64_t start_ns) override {
    makes_ahead_ = plan_.phases.size() == 1 || plan_.options.alternation.every_ops != 0;
    Arrival arrival(plan_, thread_, start_ns, makers_);
    is_open_loop_ = arrival.is_open_loop();
    for (std::size_t i = 0; makes_ahead_ && i < connections_.size(); ++i)
      makers_[i].make(connections_[i]->next, start_ns);
    std::uint64_t now = wait_until(start_ns);
    issuing_ = recorder_.tick(now);
    for (std::size_t i = 0; !is_open_loop_ && issuing_ && i < connections_.size(); ++i)
      send_next(i, monotonic_ns(), now);
    for (;;) {
      now = monotonic_ns();
      issuing_ = recorder_.tick(now);
      if (is_open_loop_) issuing_ = send_due(arrival, now);
      if (failed_ || state_.stop.load(std::memory_order_relaxed) || (!issuing_ && outstanding_ == 0)) break;
      if (!is_open_loop_ && outstanding_ == 0) break;
      if (now >= next_look_ns_) look_for_silence(now, arrival);
      wait(arrival.next_ns());
    }
    recorder_.close(monotonic_ns());
    if (failed_) state_.stop.store(true, std::memory_order_relaxed);
  }

 private:
  static std::uint64_t wait_until(std::uint64_t start_ns) {
    std::uint64_t now = monotonic_ns();
    for (; now < start_ns; now = monotonic_ns()) {
      const timespec rest{0, static_cast<long>(std::min<std::uint64_t>(start_ns - now, wait_max_ns))};
      nanosleep(&rest, nullptr);
    }
    return now;
  }

  void watch(Connection& connection, int operation, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = connection.number / plan_.options.threads;  // index in connections_
    check(epoll_ctl(epoll_.get(), operation, connection.socket.get(), &event), "epoll_ctl");
  }

  // Returns whether more is to be sent. Batches due before the end of the run are sent however late, unless the server
  // needs longer for them than its time limit for one reply.
  bool send_due(Arrival& arrival, std::uint64_t now) {
    const std::uint64_t close_ns = recorder_.close_ns();
    if (close_ns != UINT64_MAX && now > close_ns + timeout_ns_ && arrival.next_ns() < close_ns) {
      recorder_.never_sent(arrival.ops_until(close_ns), arrival.next_ns(), now);
      failed_ = true;
    }
    bool has_more = false;
    while (arrival.next_ns() < close_ns && !failed_) {
      const std::size_t index = arrival.connection();
      Connection& connection = *connections_[index];
      const std::uint64_t due = arrival.next_ns();
      has_more = due > now || connection.pending.size() >= pending_max;
      if (has_more) break;
      if (!makes_ahead_) makers_[index].make(connection.next, now);
      Batch& batch = connection.next;
      const std::uint64_t ops = batch.ops;
      if (ops == 0) {
        arrival.sent(0, false, UINT64_MAX);
        continue;
      }
      recorder_.sent_late(due, now);
      if (connection.pending.empty()) connection.progress_ns = now;
      connection.pending.push(batch, due);
      outstanding_ += batch.requests.size();
      if (connection.gathered.empty()) gathered_.push_back(index);
      connection.gathered.append(batch.bytes());
      const std::uint64_t next_due_ns = arrival.replays() ? makers_[index].next_due_ns() : 0;
      if (makes_ahead_) makers_[index].make(batch, now);
      arrival.sent(ops, !makes_ahead_ || batch.ops != 0, next_due_ns);
    }
    for (const std::size_t index : gathered_) {
      Connection& connection = *connections_[index];
      write(connection, connection.gathered);
      connection.gathered.clear();
    }
    gathered_.clear();
    return has_more;
  }

  // Closed loop. Sends nothing if the connection has done its share.
  void send_next(std::size_t index, std::uint64_t start_ns, std::uint64_t now) {
    Connection& connection = *connections_[index];
    if (!makes_ahead_) makers_[index].make(connection.next, now);
    Batch& batch = connection.next;
    if (batch.requests.empty()) return;
    connection.progress_ns = start_ns;
    connection.pending.push(batch, start_ns);
    outstanding_ += batch.requests.size();
    write(connection, batch.bytes());
    if (makes_ahead_) makers_[index].make(batch, now);
  }

  // The writes of read-modify-writes after the answers to their reads.
  void send_follow_ups(std::size_t index, std::uint64_t now) {
    Connection& connection = *connections_[index];
    makers_[index].make_follow_ups(follow_up_batch_, connection.follow_ups);
    connection.follow_ups.clear();
    for (const Request& request : follow_up_batch_.requests) connection.pending.push(request);
    outstanding_ += follow_up_batch_.requests.size();
    connection.progress_ns = now;
    write(connection, follow_up_batch_.bytes());
  }

  void write(Connection& connection, std::string_view bytes) {
    recorder_.sent(bytes.size());
    if (!connection.unsent.empty()) {
      connection.unsent.append(bytes);
      return;
    }
    write_now(connection, bytes);
  }

  void write_now(Connection& connection, std::string_view bytes) {
    const ssize_t sent = ::send(connection.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return fail_connection("send", errno);
    const std::size_t done = sent < 0 ? 0 : static_cast<std::size_t>(sent);
    if (done == bytes.size()) return;
    connection.unsent.assign(bytes.substr(done));
    if (!is_alone_) watch(connection, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
  }

  void write_rest(Connection& connection) {
    const std::string rest = std::exchange(connection.unsent, {});
    if (!rest.empty()) write_now(connection, rest);
    if (connection.unsent.empty() && !is_alone_) watch(connection, EPOLL_CTL_MOD, EPOLLIN);
  }

  void wait(std::uint64_t until_ns) {
    if (is_alone_) return wait_for_one();
    epoll_event events[256];
    const int count = wait_for_events(epoll_.get(), events, 256, until_ns, plan_.options.spin);
    for (int i = 0; i < count && !failed_; ++i) {
      const auto index = static_cast<std::size_t>(events[i].data.u64);
      if ((events[i].events & EPOLLOUT) != 0) write_rest(*connections_[index]);
      if ((events[i].events & ~std::uint32_t{EPOLLOUT}) != 0 && !failed_) receive(index, MSG_DONTWAIT);
    }
  }

  // A single connection needs no epoll: the receive itself blocks.
  void wait_for_one() {
    Connection& connection = *connections_[0];
    if (connection.unsent.empty()) return receive(0, plan_.options.spin ? MSG_DONTWAIT : 0);
    pollfd ready{connection.socket.get(), POLLIN | POLLOUT, 0};
    if (poll(&ready, 1, wait_max_ns / 1'000'000) <= 0) return;
    if ((ready.revents & POLLOUT) != 0) write_rest(connection);
    if ((ready.revents & ~POLLOUT) != 0 && !failed_) receive(0, MSG_DONTWAIT);
  }

  void receive(std::size_t index, int flags) {
    Connection& connection = *connections_[index];
    Input& input = connection.held ? *connection.held : input_;
    if (connection.held) {
      input.make_room(input_bytes / 4);
    } else {
      input.clear();
      input.append(connection.rest);
    }
    const ssize_t got = ::recv(connection.socket.get(), input.room(), input.room_bytes(), flags);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got < 0) return fail_connection("receive", errno);
    if (got == 0) return fail_closed(connection);
    const std::uint64_t now = monotonic_ns();
    recorder_.received(static_cast<std::size_t>(got));
    connection.progress_ns = now;
    input.filled(static_cast<std::size_t>(got));
    while (!input.bytes().empty()) {
      if (connection.pending.empty()) return fail_reply(nullptr, "a reply that nothing was asked for", input.bytes());
      const Request& request = connection.pending.front();
      const ReplyCheck reply = plan_.codec_of(request).check(request, connection.pending.front_keys(), input.bytes());
      if (reply.status == ReplyStatus::partial) break;
      if (reply.status == ReplyStatus::wrong) return fail_reply(&request, reply.what, input.bytes(), reply.fault_at);
      recorder_.reply(request, reply, input.bytes(), now);
      if (request.op == workload::OpKind::read_modify_write && request.kind == RequestKind::get)
        connection.follow_ups.push_back(follow_up_of(request));
      connection.pending.pop();
      --outstanding_;
      input.take(reply.bytes);
    }
    keep_rest(connection, input);
    if (!connection.follow_ups.empty() && (is_open_loop_ || connection.pending.empty())) send_follow_ups(index, now);
    if (!is_open_loop_ && connection.pending.empty()) {
      issuing_ = recorder_.tick(now);
      if (issuing_) send_next(index, now, now);
    }
  }

  FollowUp follow_up_of(const Request& request) const {
    return {request.key, request.start_ns, request.value_bytes, request.ttl_s, request.phase};
  }

  void keep_rest(Connection& connection, Input& input) {
    const std::string_view rest = input.bytes();
    if (connection.held) {
      if (rest.empty()) {
        connection.held.reset();
        connection.rest.clear();
      }
      return;
    }
    if (rest.size() < short_rest_bytes) {
      connection.rest.assign(rest);
      return;
    }
    connection.held = std::make_unique<Input>(input_bytes + rest.size());
    connection.held->append(rest);
    connection.rest.clear();
  }

  // Finds connections that wait for a reply and have not received anything for too long.
  void look_for_silence(std::uint64_t now, const Arrival& /*arrival*/) {
    next_look_ns_ = now + std::min(wait_max_ns, timeout_ns_ / 4);
    bool is_silent = false;
    for (auto& connection : connections_) {
      if (connection->pending.empty() || now < connection->progress_ns + timeout_ns_) continue;
      is_silent = true;
      for (; !connection->pending.empty(); connection->pending.pop())
        recorder_.timed_out(connection->pending.front(), now,
                            fmt::format("no reply within {} s{}", plan_.options.timeout_s,
                                        partial_of(*connection).empty() ? "" : " to the end"));
    }
    failed_ = failed_ || is_silent;
  }

  static std::string_view partial_of(const Connection& connection) {
    return connection.held ? connection.held->bytes() : std::string_view(connection.rest);
  }

  void fail_reply(const Request* request, std::string_view what, std::string_view data, std::size_t from = 0) {
    recorder_.wrong_reply(request, what, data, from);
    failed_ = true;
  }
  void fail_connection(std::string_view call, int error) {
    recorder_.connection_failed(fmt::format("{}: {}", call, std::generic_category().message(error)));
    failed_ = true;
  }
  void fail_closed(const Connection& connection) {
    const std::string_view unfinished = partial_of(connection);
    recorder_.connection_failed(
        fmt::format("the server closed the connection with {} requests unanswered{}", connection.pending.size(),
                    unfinished.empty() ? "" : "; the beginning of a reply: " + shown_bytes(unfinished)));
    failed_ = true;
  }

  const Plan& plan_;
  Recorder& recorder_;
  RunState& state_;
  const std::uint32_t thread_;
  const std::uint64_t timeout_ns_;
  net::Fd epoll_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<RequestMaker> makers_;  // of the connection at the same index
  Input input_;
  Batch follow_up_batch_;
  std::vector<std::size_t> gathered_;
  bool is_alone_ = false, is_open_loop_ = false, makes_ahead_ = true, issuing_ = true, failed_ = false;
  std::uint64_t outstanding_ = 0;  // requests
  std::uint64_t next_look_ns_ = 0;
};

}  // namespace

std::unique_ptr<Client> make_tcp_client(const Plan& plan, const Address& address, std::uint32_t thread,
                                        Recorder& recorder, RunState& state) {
  return std::make_unique<TcpClient>(plan, address, thread, recorder, state);
}

}  // namespace tandem::load
