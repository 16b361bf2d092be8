// RV and SD of connections with TLS, and their handshakes.
#include <algorithm>
#include <cerrno>

#include "net/log.hpp"
#include "net/tls_context.hpp"
#include "net/tls_session.hpp"
#include "net/worker.hpp"

namespace tandem::net {

// A step of the handshake. True: it is done.
bool Worker::shake_hands(Connection& c) noexcept {
  TlsSession& tls = *c.tls;
  if (handshake_steps_left_ == 0) {
    errno = EINTR;
    return false;
  }
  --handshake_steps_left_;
  if (!tls.has_begun()) {
    // Who has taken longest is the least likely to finish.
    if (handshaking_.size() >= tls_handshakes_max) close_later(*handshaking_.front());
    if (!tls.begin(*state_.tls, counters_)) {
      errno = ENOMEM;
      return false;
    }
    handshaking_.push_back(&c);
  }
  if (!tls.shake_hands()) {
    if (errno == EPROTO) {
      if (state_.verbosity.load(std::memory_order_relaxed) >= 1)
        log().info("<{} TLS handshake failed: {}", c.fd, tls.failure());
      errno = EPROTO;
      return false;
    }
    if (tls.wants_write()) watch(c, watch_input | EPOLLOUT);
    errno = errno == EINTR || (c.ended && !tls.wants_write()) ? EINTR : EAGAIN;
    return false;
  }
  std::erase(handshaking_, &c);
  unfinished_handshakes_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

std::ptrdiff_t Worker::read_tls(Connection& c, char* to, std::size_t bytes) noexcept {
  TlsSession& tls = *c.tls;
  if (TD_UNLIKELY(!tls.is_established()) && !shake_hands(c)) return -1;
  const std::ptrdiff_t got = tls.receive(to, bytes);
  const int error = errno;
  if (TD_UNLIKELY(tls.wants_write())) {
    watch(c, watch_input | EPOLLOUT);
  } else if (got < 0 && error == EAGAIN && c.ended) {
    errno = EINTR;  // OpenSSL stopped at a short read; the end stands behind it
    return got;
  }
  errno = error;
  return got;
}

std::size_t Worker::receive_tls(Connection& c, char* to) noexcept {
  const std::ptrdiff_t bytes = read_tls(c, to, receive_bytes_max);
  if (!received(c, bytes)) return 0;
  if (static_cast<std::size_t>(bytes) < receive_bytes_max) c.readable = c.ended || c.tls->has_more();
  return static_cast<std::size_t>(bytes);
}

std::size_t Worker::receive_value_tls(Connection& c, char* to) noexcept {
  Fill& fill = *c.fill;
  const std::uint64_t missing = fill.value_bytes - fill.received_bytes;
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(missing, receive_value_bytes_max));
  const std::ptrdiff_t bytes = read_tls(c, fill.value + fill.received_bytes, wanted);
  if (!received(c, bytes)) return 0;
  fill.received_bytes += static_cast<std::uint64_t>(bytes);
  if (static_cast<std::size_t>(bytes) < wanted) {
    c.readable = c.ended || c.tls->has_more();
    return 0;
  }
  if (wanted < missing) return 0;
  const std::ptrdiff_t more = read_tls(c, to, receive_bytes_max);
  if (more <= 0) {
    // The end or an error will be found again.
    if (more < 0 && errno == EAGAIN) c.readable = c.ended;
    return 0;
  }
  counters_.bytes_read.add(static_cast<std::uint64_t>(more));
  if (static_cast<std::size_t>(more) < receive_bytes_max) c.readable = c.ended || c.tls->has_more();
  return static_cast<std::size_t>(more);
}

void Worker::close_tls(Connection& c) noexcept {
  if (!c.tls->is_established()) {
    std::erase(handshaking_, &c);
    unfinished_handshakes_.fetch_sub(1, std::memory_order_relaxed);
    counters_.ssl_handshake_errors.add();
  }
  c.tls->end();
}

void Worker::close_unfinished_handshakes(std::uint32_t now_s) {
  const unsigned timeout_s = state_.options.tls.handshake_timeout_s;
  if (timeout_s == 0 || unfinished_handshakes_.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(connections_mutex_);
  for (Connection* c = connections_; c != nullptr; c = c->next) {
    if (c->tls == nullptr || c->tls->is_established() || c->is_closed()) continue;
    if (now_s > c->tls->since_s() && now_s - c->tls->since_s() > timeout_s) close_later(*c);
  }
}

}  // namespace tandem::net
