#include "worker/acceptor.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "net/log.hpp"

namespace tandem::net {
namespace {
constexpr std::string_view too_many = "ERROR Too many open connections\r\n";
constexpr int events_max = 16;
}  // namespace

Acceptor::Acceptor(State& state, std::vector<BoundSocket> tcp, std::vector<UnixListener> local,
                   const std::vector<std::unique_ptr<Worker>>& workers, UnixListener control)
    : state_(state),
      tcp_(std::move(tcp)),
      local_(std::move(local)),
      control_(std::move(control)),
      workers_(workers),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = -1;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, state_.acceptor_wakeup.get(), &event) != 0) {
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
  }
  resume();
}

void Acceptor::close() noexcept {
  tcp_.clear();
  local_.clear();
  control_.close();
}

std::vector<int> Acceptor::listening_fds() const {
  std::vector<int> fds;
  for (const BoundSocket& socket : tcp_) fds.push_back(socket.fd.get());
  for (const UnixListener& listener : local_) fds.push_back(listener.fd());
  if (control_.fd() >= 0) fds.push_back(control_.fd());
  return fds;
}

void Acceptor::run() {
  while (!state_.stopping.load(std::memory_order_acquire)) {
    epoll_event events[events_max];
    const bool had_run_out = retries_;
    const int count = epoll_wait(epoll_.get(), events, events_max, had_run_out ? accept_retry_ms : -1);
    bool one_closed = false;
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd >= 0) {
        if (!paused_ || events[i].data.fd == control_.fd()) accept_from(events[i].data.fd);
      } else {
        state_.acceptor_wakeup.reset();
        one_closed = true;
      }
    }
    // Without descriptors the next attempt fails, too, until one is closed, by this process or by another.
    const bool may_succeed = !retries_ || (had_run_out && (one_closed || count == 0));
    if (paused_ && may_succeed && !is_full()) {
      resume();
    } else if (paused_ && retries_ && may_succeed) {  // a full server still has its control socket
      retries_ = false;
      listen_to(control_.fd());
    }
  }
}

bool Acceptor::is_full() const noexcept {
  const std::uint32_t control = state_.control_connections.load(std::memory_order_seq_cst);
  return state_.connections.load(std::memory_order_seq_cst) - control >= state_.options.connections_max;
}

bool Acceptor::speaks_tls(int listener) const noexcept {
  return std::ranges::any_of(tcp_, [listener](const BoundSocket& s) { return s.tls && s.fd.get() == listener; });
}

void Acceptor::accept_from(int listener) {
  const bool tls = speaks_tls(listener);
  const ProtocolOptions& protocol = listener == control_.fd() ? state_.control_protocol : state_.protocol;
  for (int i = 0; i < accepts_per_wakeup; ++i) {
    if (!has_room(listener) && !state_.options.maxconns_fast) return pause(false);
    sockaddr_storage address{};
    socklen_t bytes = sizeof address;
    Fd socket(accept4(listener, reinterpret_cast<sockaddr*>(&address), &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      switch (errno) {
        case EAGAIN:
          return;
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM:
          tell_failure(errno);
          return pause(true);
        default:
          continue;  // the client has closed, or a signal interrupted
      }
    }
    if (!has_room(listener)) {
      // Sent as far as the fresh socket takes it, which is all of it. A client with TLS could not read it.
      if (!tls) {
        [[maybe_unused]] const auto sent = send(socket.get(), too_many.data(), too_many.size(), MSG_NOSIGNAL);
      }
      state_.rejected_connections.add();
      continue;
    }
    hand_over(std::move(socket), protocol, tls, PeerAddress(address));
  }
}

// Each failure is counted; at most one a minute is logged.
void Acceptor::tell_failure(int error) noexcept {
  constexpr std::chrono::minutes say_again(1);
  state_.accept_failures.add();
  const auto now = std::chrono::steady_clock::now();
  if (failure_said_at_ && now - *failure_said_at_ < say_again) return;
  failure_said_at_ = now;
  try {
    log().warn("accept: {}; {} connections are open, further ones wait until one of them ends",
               std::generic_category().message(error), state_.connections.load(std::memory_order_relaxed));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it was counted all the same
  }
}

void Acceptor::hand_over(Fd socket, const ProtocolOptions& protocol, bool tls, const PeerAddress& client) {
  state_.total_connections.add();
  // The fewest connections; round robin among equals.
  Worker* chosen = nullptr;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker* worker = workers_[(next_worker_ + i) % workers_.size()].get();
    if (chosen == nullptr || worker->connection_count() < chosen->connection_count()) chosen = worker;
  }
  ++next_worker_;
  const bool is_control = &protocol == &state_.control_protocol;
  state_.connections.fetch_add(1, std::memory_order_seq_cst);
  if (is_control) state_.control_connections.fetch_add(1, std::memory_order_seq_cst);
  if (state_.verbosity.load(std::memory_order_relaxed) >= 2)
    log().debug("<{} new auto-negotiating client connection", socket.get());
  try {
    chosen->adopt(std::move(socket), protocol, tls, client);
  } catch (const std::exception& error) {
    log().warn("a connection was dropped: {}", error.what());
    state_.connection_closed(is_control);
  }
}

// Stops listening: new clients wait in the backlog. Those of the control socket only while there are no descriptors.
void Acceptor::pause(bool retries) noexcept {
  if (!paused_) {
    paused_at_ = std::chrono::steady_clock::now();
    state_.listen_disabled.add();
  }
  paused_ = true;
  retries_ = retries;
  for (const int fd : listening_fds()) {
    if (retries || fd != control_.fd()) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
  // Before the count is read again: either the last close sees this, or run() sees its decrement.
  state_.accept_paused.store(true, std::memory_order_seq_cst);
}

void Acceptor::resume() noexcept {
  if (paused_) {
    const auto paused_for = std::chrono::steady_clock::now() - paused_at_;
    state_.listen_disabled_us.add(
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(paused_for).count()));
  }
  paused_ = retries_ = false;
  state_.accept_paused.store(false, std::memory_order_seq_cst);
  for (const int fd : listening_fds()) listen_to(fd);
}

void Acceptor::listen_to(int fd) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

}  // namespace tandem::net
