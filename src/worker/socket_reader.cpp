#include "worker/socket_reader.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "net/log.hpp"
#include "net/system_calls.hpp"
#include "net/tls_context.hpp"
#include "net/tls_session.hpp"

namespace tandem::net {

// After a call that has received so many bytes, or failed (-1, errno). False: nothing has come, or the connection is
// closed.
bool SocketReader::received(Connection& c, std::ptrdiff_t bytes) noexcept {
  if (TD_LIKELY(bytes > 0)) {
    worker_.counters.bytes_read.add(static_cast<std::uint64_t>(bytes));
    connections_.touch(c);
    return true;
  }
  if (bytes == 0 || (errno != EAGAIN && errno != EINTR)) {
    connections_.close(c, bytes == 0 ? CloseReason::normal : CloseReason::error);
  } else if (errno == EAGAIN) {
    c.readable = false;
  }
  return false;
}

std::size_t SocketReader::receive(Connection& c, char* to) noexcept {
  const Meter::Timed timed(worker_.meter, Task::receive);
  if (TD_UNLIKELY(c.tls != nullptr)) return receive_tls(c, to);
  const std::size_t wanted = TD_UNLIKELY(c.after_large) ? receive_command_bytes_max : receive_bytes_max;
  const std::ptrdiff_t bytes = receive_bytes(c.fd, to, wanted);
  if (!received(c, bytes)) return 0;
  c.after_large = false;
  if (TD_LIKELY(static_cast<std::size_t>(bytes) < wanted)) c.readable = c.ended;
  return static_cast<std::size_t>(bytes);
}

std::size_t SocketReader::receive_value(Connection& c, char* to) noexcept {
  if (TD_UNLIKELY(c.tls != nullptr)) return receive_value_tls(c, to);
  Fill& fill = *c.fill;
  const std::uint64_t missing = fill.value_bytes - fill.received_bytes;
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(missing, receive_value_bytes_max));
  iovec parts[2] = {{fill.value + fill.received_bytes, wanted}, {to, receive_command_bytes_max}};
  const std::ptrdiff_t bytes = readv(c.fd, parts, wanted == missing ? 2 : 1);
  if (TD_UNLIKELY(bytes < 0) && errno == EFAULT) touch_pages(parts, 1);
  if (!received(c, bytes)) return 0;
  const auto got = static_cast<std::size_t>(bytes);
  fill.received_bytes += std::min(got, wanted);
  if (got < (wanted == missing ? wanted + receive_command_bytes_max : wanted)) c.readable = c.ended;
  return got > wanted ? got - wanted : 0;
}

// A step of the handshake. True: it is complete. False: errno is set as by recv().
bool SocketReader::shake_hands(Connection& c) noexcept {
  TlsSession& tls = *c.tls;
  if (handshake_steps_left_ == 0) {
    errno = EINTR;
    return false;
  }
  --handshake_steps_left_;
  if (!tls.has_begun()) {
    connections_.make_place_for_handshake();
    if (!tls.begin(*worker_.server.tls, worker_.counters)) {
      errno = ENOMEM;
      return false;
    }
    connections_.begin_handshake(c);
  }
  if (!tls.shake_hands()) {
    if (errno == EPROTO) {
      if (worker_.is_verbose(1)) log().info("<{} TLS handshake failed: {}", c.fd, tls.failure());
      errno = EPROTO;
      return false;
    }
    if (tls.wants_write()) connections_.watch(c, Connections::watch_input | EPOLLOUT);
    errno = errno == EINTR || (c.ended && !tls.wants_write()) ? EINTR : EAGAIN;
    return false;
  }
  connections_.end_handshake(c);
  return true;
}

std::ptrdiff_t SocketReader::read_tls(Connection& c, char* to, std::size_t bytes) noexcept {
  TlsSession& tls = *c.tls;
  if (TD_UNLIKELY(!tls.is_established()) && !shake_hands(c)) return -1;
  const std::ptrdiff_t got = tls.receive(to, bytes);
  const int error = errno;
  if (TD_UNLIKELY(tls.wants_write())) {
    connections_.watch(c, Connections::watch_input | EPOLLOUT);
  } else if (got < 0 && error == EAGAIN && c.ended) {
    errno = EINTR;  // OpenSSL stopped at a short read; the end of the stream follows
    return got;
  }
  errno = error;
  return got;
}

std::size_t SocketReader::receive_tls(Connection& c, char* to) noexcept {
  const std::ptrdiff_t bytes = read_tls(c, to, receive_bytes_max);
  if (!received(c, bytes)) return 0;
  if (static_cast<std::size_t>(bytes) < receive_bytes_max) c.readable = c.ended || c.tls->has_more();
  return static_cast<std::size_t>(bytes);
}

std::size_t SocketReader::receive_value_tls(Connection& c, char* to) noexcept {
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
    // The next call finds the end, or the error, again.
    if (more < 0 && errno == EAGAIN) c.readable = c.ended;
    return 0;
  }
  worker_.counters.bytes_read.add(static_cast<std::uint64_t>(more));
  if (static_cast<std::size_t>(more) < receive_bytes_max) c.readable = c.ended || c.tls->has_more();
  return static_cast<std::size_t>(more);
}

}  // namespace tandem::net
