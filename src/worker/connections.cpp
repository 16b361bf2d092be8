#include "worker/connections.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "net/log.hpp"

namespace tandem::net {

static_assert(sizeof(Connection) <= 512, "a quiet connection's memory, as docs/memory.md states it");

Connections::Connections(State& state, Context& context, NetCounters& counters, Recorder& recorder)
    : state_(state), context_(context), counters_(counters), recorder_(recorder), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
}

Connections::~Connections() {
  close_all(CloseReason::error);
  free_closed();
}

void Connections::watch_file(int fd, std::uint32_t events, void* data) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = data;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
}

void Connections::watch(Connection& c, std::uint32_t events) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &c;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, c.fd, &event) != 0) close(c);
}

void Connections::adopt(Fd socket, const ProtocolOptions& protocol, bool tls, const PeerAddress& client) {
  const Clock& clock = state_.engine.shared().clock;
  auto owned = std::make_unique<Connection>(socket.get(), client, protocol, clock);
  Connection* const c = owned.get();
  c->is_control = &protocol == &state_.control_protocol;
  if (tls) c->tls = std::make_unique<TlsSession>(c->fd, clock.now_s());
  note_opened(state_.events, c->fd, client);
  // Until the lock is released the worker cannot free the connection.
  const std::lock_guard lock(mutex_);
  count_.fetch_add(1, std::memory_order_relaxed);
  if (tls) unfinished_handshakes_.fetch_add(1, std::memory_order_relaxed);
  try {
    watch_file(c->fd, watch_input, c);
  } catch (const std::system_error&) {
    count_.fetch_sub(1, std::memory_order_relaxed);
    if (tls) unfinished_handshakes_.fetch_sub(1, std::memory_order_relaxed);
    throw;
  }
  c->next = first_;
  if (first_ != nullptr) first_->previous = c;
  first_ = c;
  static_cast<void>(socket.release());
  static_cast<void>(owned.release());
}

void Connections::close(Connection& c, CloseReason reason) noexcept {
  if (c.is_closed()) return;
  TD_ASSERT(!c.in_flight || state_.stopping.load(std::memory_order_relaxed));
  c.close_reason = reason;
  if (c.stream != nullptr) end_stream(c);
  c.state.store(ConnectionState::closed, std::memory_order_relaxed);
  if (c.is_blocked()) unblock(c);
  if (c.fill != nullptr) {
    state_.engine.abandon_fill(context_, c.fill->location);
    state_.filling.give_back(c.fill->value_bytes);
    c.fill.reset();
  }
  if (TD_UNLIKELY(c.tls != nullptr)) {
    if (!c.tls->is_established()) {
      end_handshake(c);
      counters_.ssl_handshake_errors.add();
    }
    c.tls->end();
  }
  closed_.push_back(&c);
}

void Connections::free_them() noexcept {
  for (Connection* c : closed_) {
    if (c->waiting) std::erase(waiting_, c);
    const bool stopping = state_.stopping.load(std::memory_order_relaxed);  // memcached is silent then
    if (TD_UNLIKELY((state_.events.flags() & watch_event::connevents) != 0) && !stopping)
      recorder_.closed(c->fd, c->peer, c->close_reason);
    {
      const std::lock_guard lock(mutex_);
      (c->previous != nullptr ? c->previous->next : first_) = c->next;
      if (c->next != nullptr) c->next->previous = c->previous;
    }
    if (state_.verbosity.load(std::memory_order_relaxed) >= 2) log().debug("<{} connection closed.", c->fd);
    ::close(c->fd);
    state_.kept.give_back(state_.kept_cost(c->kept_counted));
    count_kept(*c, 0);
    const bool is_control = c->is_control;
    delete c;
    count_.fetch_sub(1, std::memory_order_relaxed);
    state_.connection_closed(is_control);
  }
  closed_.clear();
}

void Connections::block(Connection& c, std::unique_ptr<Unsent>&& unsent) {
  blocked_.add(c);
  kept_outputs_.set(blocked_.size());
  c.unsent = std::move(unsent);
  // Its answer may be late; the client's time to read it begins now.
  touch(c);
}

void Connections::unblock(Connection& c) noexcept {
  c.unsent->drop(state_.engine.shared().heap);
  state_.unsent.give_back(c.unsent->copied_bytes());
  state_.pinned.give_back(c.unsent->pinned_bytes());
  c.unsent.reset();
  blocked_.remove(c);
  kept_outputs_.set(blocked_.size());
}

void Connections::begin_stream(Connection& c, std::unique_ptr<Stream> stream) {
  streams_.add(c);
  c.stream = std::move(stream);
  c.state.store(ConnectionState::streaming, std::memory_order_relaxed);
}

void Connections::end_stream(Connection& c) noexcept {
  c.stream.reset();
  streams_.remove(c);
}

void Connections::end_handshake(Connection& c) noexcept {
  std::erase(handshaking_, &c);
  unfinished_handshakes_.fetch_sub(1, std::memory_order_relaxed);
}

void Connections::count_kept(Connection& c, std::size_t capacity) noexcept {
  kept_bytes_.add(capacity - c.kept_counted);
  kept_inputs_.add(std::uint64_t{capacity != 0} - std::uint64_t{c.kept_counted != 0});
  c.kept_counted = capacity;
}

}  // namespace tandem::net
