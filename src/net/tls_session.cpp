#include "net/tls_session.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "net/limits.hpp"
#include "net/system_calls.hpp"

namespace tandem::net {

// OpenSSL's socket BIO writes without MSG_NOSIGNAL, and reads until EAGAIN even after a short read.
struct TlsSession::Socket {
  static TlsSession& session(BIO* bio) noexcept { return *static_cast<TlsSession*>(BIO_get_data(bio)); }

  static int read(BIO* bio, char* to, int bytes) {
    TlsSession& s = session(bio);
    BIO_clear_retry_flags(bio);
    const std::size_t wanted = std::min(static_cast<std::size_t>(bytes), s.input_bytes_left_);
    if (s.drained_ || wanted == 0) {
      BIO_set_retry_read(bio);
      return -1;
    }
    const std::ptrdiff_t got = receive_bytes(s.fd_, to, wanted);
    if (got > 0) {
      s.input_bytes_left_ -= static_cast<std::size_t>(got);
      s.drained_ = static_cast<std::size_t>(got) < wanted;
    } else if (got == 0) {
      s.socket_ended_ = true;
    } else if (errno == EAGAIN || errno == EINTR) {
      BIO_set_retry_read(bio);
    }
    return static_cast<int>(got);
  }
  static int write(BIO* bio, const char* from, int bytes) {
    BIO_clear_retry_flags(bio);
    std::ptrdiff_t sent = 0;
    do {
      sent = send_bytes(session(bio).fd_, from, static_cast<std::size_t>(bytes));
    } while (sent < 0 && errno == EINTR);  // edge-triggered: no event follows
    if (sent < 0 && errno == EAGAIN) BIO_set_retry_write(bio);
    return static_cast<int>(sent);
  }
  static long control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
    if (command == BIO_CTRL_FLUSH) return 1;
    if (command == BIO_CTRL_EOF) return session(bio).socket_ended_ ? 1 : 0;
    return 0;
  }
  // Made once. nullptr: there was no memory; the next session tries again.
  static const BIO_METHOD* method() noexcept {
    static std::atomic<BIO_METHOD*> made{nullptr};
    if (const BIO_METHOD* m = made.load(std::memory_order_acquire); TD_LIKELY(m != nullptr)) return m;
    BIO_METHOD* const fresh = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tandem connection");
    if (fresh == nullptr) return nullptr;
    BIO_meth_set_read(fresh, &Socket::read);
    BIO_meth_set_write(fresh, &Socket::write);
    BIO_meth_set_ctrl(fresh, &Socket::control);
    BIO_METHOD* others = nullptr;
    if (made.compare_exchange_strong(others, fresh, std::memory_order_acq_rel)) return fresh;
    BIO_meth_free(fresh);
    return others;
  }
};

bool TlsSession::begin(const TlsContext& context, NetCounters& counters) noexcept {
  ERR_clear_error();
  SslPtr ssl = context.new_session();
  if (ssl == nullptr) return false;
  if (context.uses_kernel()) {
    // Only OpenSSL's own BIO works with kernel TLS. The threads that use it have SIGPIPE blocked.
    if (SSL_set_fd(ssl.get(), fd_) != 1) return false;
  } else {
    const BIO_METHOD* const method = Socket::method();
    BIO* const bio = method == nullptr ? nullptr : BIO_new(method);
    if (bio == nullptr) return false;
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl.get(), bio, bio);
  }
  SSL_set_app_data(ssl.get(), &counters);
  SSL_set_accept_state(ssl.get());
  counters_ = &counters;
  ssl_ = std::move(ssl);
  return true;
}

// The session has failed for good. Returns false, errno set.
bool TlsSession::fail() noexcept {
  if (const unsigned long code = ERR_peek_error(); code != 0) {
    const char* reason = ERR_reason_error_string(code);
    failure_ = reason != nullptr ? reason : "unknown error";
  } else {
    failure_ = "connection lost";
  }
  ERR_clear_error();
  failed_ = true;
  errno = EPROTO;
  return false;
}

bool TlsSession::shake_hands() noexcept {
  drained_ = wants_write_ = false;
  input_bytes_left_ = tls_input_bytes_max;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) {
    established_ = true;
    kernel_sends_ = BIO_get_ktls_send(SSL_get_wbio(ssl_.get())) != 0;
    return true;
  }
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      errno = input_bytes_left_ == 0 ? EINTR : EAGAIN;
      return false;
    case SSL_ERROR_WANT_WRITE:
      wants_write_ = true;
      errno = EAGAIN;
      return false;
    default:
      return fail();
  }
}

std::ptrdiff_t TlsSession::receive(char* to, std::size_t bytes) noexcept {
  if (TD_UNLIKELY(failed_)) {
    errno = EPROTO;
    return -1;
  }
  if (TD_UNLIKELY(ended_)) return 0;
  drained_ = wants_write_ = false;
  input_bytes_left_ = bytes + tls_input_bytes_max;
  std::size_t got = 0;
  while (got < bytes) {
    ERR_clear_error();
    std::size_t n = 0;
    if (SSL_read_ex(ssl_.get(), to + got, bytes - got, &n) == 1) {
      got += n;
      continue;
    }
    switch (SSL_get_error(ssl_.get(), 0)) {
      case SSL_ERROR_WANT_READ:
        errno = input_bytes_left_ == 0 ? EINTR : EAGAIN;
        break;
      case SSL_ERROR_WANT_WRITE:
        wants_write_ = true;
        errno = EAGAIN;
        break;
      case SSL_ERROR_ZERO_RETURN:
        ended_ = true;
        return static_cast<std::ptrdiff_t>(got);
      case SSL_ERROR_SSL:
        counters_->ssl_proto_errors.add();
        fail();
        break;
      default:
        fail();
    }
    return got != 0 ? static_cast<std::ptrdiff_t>(got) : -1;
  }
  return static_cast<std::ptrdiff_t>(got);
}

std::ptrdiff_t TlsSession::send(const char* from, std::size_t bytes) noexcept {
  if (TD_UNLIKELY(failed_)) {
    errno = EPROTO;
    return -1;
  }
  std::size_t sent = 0;
  while (sent < bytes) {
    ERR_clear_error();
    std::size_t n = 0;
    const std::size_t wanted = std::min(bytes - sent, tls_record_bytes_max);
    if (SSL_write_ex(ssl_.get(), from + sent, wanted, &n) == 1) {
      write_pending_ = false;
      sent += n;
      continue;
    }
    // Without renegotiation a write never waits for input.
    if (SSL_get_error(ssl_.get(), 0) == SSL_ERROR_WANT_WRITE) {
      write_pending_ = true;
      errno = EAGAIN;
    } else {
      fail();
    }
    return sent != 0 ? static_cast<std::ptrdiff_t>(sent) : -1;
  }
  return static_cast<std::ptrdiff_t>(sent);
}

// Joins short parts into records.
std::ptrdiff_t TlsSession::send(const iovec* parts, std::size_t count) noexcept {
  char record[tls_record_bytes_max];
  std::size_t total = 0, part = 0, offset = 0;
  while (part < count) {
    const char* from = static_cast<const char*>(parts[part].iov_base) + offset;
    std::size_t bytes = std::min(parts[part].iov_len - offset, tls_record_bytes_max);
    if (bytes < tls_record_bytes_max && part + 1 < count) {
      bytes = 0;
      for (std::size_t p = part, at = offset; p < count && bytes < tls_record_bytes_max; ++p, at = 0) {
        const std::size_t taken = std::min(parts[p].iov_len - at, tls_record_bytes_max - bytes);
        std::memcpy(record + bytes, static_cast<const char*>(parts[p].iov_base) + at, taken);
        bytes += taken;
      }
      from = record;
    }
    const std::ptrdiff_t sent = send(from, bytes);
    if (sent < 0) return total != 0 ? static_cast<std::ptrdiff_t>(total) : -1;
    total += static_cast<std::size_t>(sent);
    if (static_cast<std::size_t>(sent) < bytes) break;
    offset += bytes;
    while (part < count && offset >= parts[part].iov_len) offset -= parts[part++].iov_len;
  }
  return static_cast<std::ptrdiff_t>(total);
}

void TlsSession::end() noexcept {
  if (!established_ || failed_ || write_pending_) return;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

}  // namespace tandem::net
