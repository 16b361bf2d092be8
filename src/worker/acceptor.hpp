// The acceptor: one thread that accepts connections and hands each to the worker with the fewest.
//
// It is a thread of its own because SO_REUSEPORT sockets per worker balance badly. The kernel spreads connections by a
// hash of their addresses, which is uneven for the few long-lived connections of a cache's clients, and a worker in a
// pass would delay its new ones. Handing over costs one epoll_ctl on the worker's epoll set, without a wake-up or a
// queue: the worker gets an event when the connection has something to read.
//
// Thread safety: the acceptor's thread, except for the functions marked "any thread".
#pragma once
#include <sys/epoll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "net/endpoint.hpp"
#include "worker/state.hpp"
#include "worker/worker.hpp"

namespace tandem::net {

class Acceptor {
 public:
  // control: its clients are accepted beyond the limit of connections.
  Acceptor(State& state, std::vector<BoundSocket> tcp, std::vector<UnixListener> local,
           const std::vector<std::unique_ptr<Worker>>& workers, UnixListener control = {});

  // Until State::stopping is set and State::acceptor_wakeup notified.
  void run();
  // Closes the listeners. REQUIRES: neither run() nor a worker runs.
  void close() noexcept;

  // Any thread, until close(): the listening sockets.
  std::vector<int> listening_fds() const;
  bool is_accepting() const noexcept { return !state_.accept_paused.load(std::memory_order_relaxed); }

 private:
  void accept_from(int listener);
  void hand_over(Fd socket, const ProtocolOptions& protocol, bool tls, const PeerAddress& client);
  void tell_failure(int error) noexcept;
  void pause(bool retries) noexcept;
  void resume() noexcept;
  void listen_to(int fd) noexcept;
  bool is_full() const noexcept;
  bool has_room(int listener) const noexcept { return listener == control_.fd() || !is_full(); }
  bool speaks_tls(int listener) const noexcept;

  State& state_;
  std::vector<BoundSocket> tcp_;
  std::vector<UnixListener> local_;
  UnixListener control_;  // closed: there is none
  const std::vector<std::unique_ptr<Worker>>& workers_;
  Fd epoll_;
  std::size_t next_worker_ = 0;
  bool paused_ = false,
       retries_ = false;  // retries: descriptors or memory ran out, which the closing of a connection need not cure
  std::chrono::steady_clock::time_point paused_at_;
  std::optional<std::chrono::steady_clock::time_point> failure_said_at_;
};

}  // namespace tandem::net
