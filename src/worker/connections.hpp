// A worker's connections: their life from adopt() to free_closed(), the epoll set that watches them, and the lists of
// those that have something to do. Closing one gives back at once what it holds of the store and of the limits.
//
// Thread safety: the worker's thread, except for the functions marked "any thread".
#pragma once
#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "net/counters.hpp"
#include "net/fd.hpp"
#include "worker/connection.hpp"
#include "worker/recorder.hpp"
#include "worker/state.hpp"

namespace tandem::net {

// An unordered list of connections, each of which knows its place.
template <std::uint32_t Connection::* place>
class ConnectionList {
 public:
  void add(Connection& c) {
    all_.push_back(&c);
    c.*place = static_cast<std::uint32_t>(all_.size() - 1);
  }
  void remove(Connection& c) noexcept {
    all_.back()->*place = c.*place;
    all_[c.*place] = all_.back();
    all_.pop_back();
  }
  bool empty() const noexcept { return all_.empty(); }
  std::size_t size() const noexcept { return all_.size(); }
  Connection& operator[](std::size_t i) const noexcept { return *all_[i]; }
  auto begin() const noexcept { return all_.begin(); }
  auto end() const noexcept { return all_.end(); }

 private:
  std::vector<Connection*> all_;
};

class Connections {
 public:
  // Edge-triggered: the kernel does not poll each served connection again, which is 4 % of a request's cost when one
  // request is in flight. In exchange the worker remembers which sockets may hold more (Connection::readable).
  static constexpr std::uint32_t watch_input = EPOLLIN | EPOLLRDHUP | EPOLLET, watch_output = EPOLLOUT | EPOLLET;

  // All outlive the connections. Throws std::system_error.
  Connections(State& state, Context& context, NetCounters& counters, Recorder& recorder);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  // Any thread. Takes over a connected, non-blocking socket, already counted in State::connections, of a client that
  // speaks `protocol`, one of State's.
  void adopt(Fd socket, const ProtocolOptions& protocol, bool tls, const PeerAddress& client);
  std::uint32_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
  // Calls f for every open connection, under the lock that adopting and freeing take. f may close() it.
  template <class F>
  void for_each(F f) const {
    const std::lock_guard lock(mutex_);
    for (Connection* c = first_; c != nullptr; c = c->next) f(*c);
  }
  // Buffers of input that is kept and of output that was not sent.
  std::uint64_t kept_inputs() const noexcept { return kept_inputs_.get(); }
  std::uint64_t kept_bytes() const noexcept { return kept_bytes_.get(); }
  std::uint64_t kept_outputs() const noexcept { return kept_outputs_.get(); }

  // The epoll set. `data`: what an event names; a connection's names the Connection. Throws std::system_error.
  void watch_file(int fd, std::uint32_t events, void* data);
  void watch(Connection& c, std::uint32_t events) noexcept;
  int wait(epoll_event* events, int count, int timeout_ms) noexcept {
    return epoll_wait(epoll_.get(), events, count, timeout_ms);
  }

  // The descriptor stays open until free_closed(), so that no new connection gets its number while a batch names it.
  void close(Connection& c, CloseReason reason = CloseReason::error) noexcept;
  void close_all(CloseReason reason) noexcept {
    for_each([&, this](Connection& c) { close(c, reason); });
  }
  // REQUIRES: no batch names a closed connection.
  void free_closed() noexcept {
    if (TD_UNLIKELY(!closed_.empty())) free_them();
  }

  // The connection has just been active, or begins now to wait for its client.
  void touch(Connection& c) const noexcept {
    c.last_active_s.store(state_.engine.shared().clock.now_s(), std::memory_order_relaxed);
  }
  // Has the connection served in the next pass without an event, if its socket or its kept input has more.
  void serve_again(Connection& c) {
    if (TD_LIKELY(!c.readable && !c.resumes) || c.is_blocked() || c.is_closed() || c.waiting) return;
    c.waiting = true;
    waiting_.push_back(&c);
  }
  bool has_waiting() const noexcept { return !waiting_.empty(); }
  // Exchanges the list with `taken`, which is empty.
  void take_waiting(std::vector<Connection*>& taken) noexcept {
    taken.swap(waiting_);
    for (Connection* c : taken) c->waiting = false;
  }

  // Throws std::bad_alloc, then nothing has changed.
  void block(Connection& c, std::unique_ptr<Unsent>&& unsent);
  // Also forgets what is not sent yet.
  void unblock(Connection& c) noexcept;
  const auto& blocked() const noexcept { return blocked_; }

  void begin_stream(Connection& c, std::unique_ptr<Stream> stream);
  void end_stream(Connection& c) noexcept;
  const auto& streams() const noexcept { return streams_; }

  // Begun handshakes are bounded: the oldest is closed. `begin_`: before the first step; `end_`: done or given up.
  void make_place_for_handshake() noexcept {
    if (handshaking_.size() >= tls_handshakes_max) close(*handshaking_.front());
  }
  void begin_handshake(Connection& c) { handshaking_.push_back(&c); }
  void end_handshake(Connection& c) noexcept;
  bool has_unfinished_handshakes() const noexcept {
    return unfinished_handshakes_.load(std::memory_order_relaxed) != 0;
  }

  // The connection's buffer of kept input has another size.
  void count_kept(Connection& c, std::size_t capacity) noexcept;

 private:
  void free_them() noexcept;

  State& state_;
  Context& context_;
  NetCounters& counters_;
  Recorder& recorder_;
  Counter kept_inputs_, kept_bytes_, kept_outputs_;  // they fall, too
  ConnectionList<&Connection::blocked_index> blocked_;
  ConnectionList<&Connection::stream_index> streams_;
  std::vector<Connection*> waiting_;
  std::vector<Connection*> closed_;
  std::vector<Connection*> handshaking_;  // that have sent something, in order
  Fd epoll_;
  std::atomic<std::uint32_t> count_{0}, unfinished_handshakes_{0};
  mutable std::mutex mutex_;
  Connection* first_ = nullptr;  // guarded by mutex_
};

}  // namespace tandem::net
