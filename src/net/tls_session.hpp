// One connection's TLS: OpenSSL over its non-blocking socket. It begins with the first bytes from the client, so that a
// silent client costs no more than this object.
//
// receive() and send() answer as recv() and send() do, with errno: EAGAIN (an event will come), EINTR (there is more to
// do; call again later) or EPROTO (the session has ended).
//
// Thread safety: the worker's thread alone.
#pragma once
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "net/counters.hpp"
#include "net/tls_context.hpp"

namespace tandem::net {

class TlsSession {
 public:
  TlsSession(int fd, std::uint32_t now_s) noexcept : fd_(fd), since_s_(now_s) {}
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  std::uint32_t since_s() const noexcept { return since_s_; }
  bool has_begun() const noexcept { return ssl_ != nullptr; }
  bool is_established() const noexcept { return established_; }
  // The kernel encrypts: plain bytes are sent to the socket.
  bool kernel_sends() const noexcept { return kernel_sends_; }
  // The last call waits until the socket takes output, not for input.
  bool wants_write() const noexcept { return wants_write_; }
  // receive() has more to return without another event: the end, or input that it left for later.
  bool has_more() const noexcept { return ended_ || failed_ || input_bytes_left_ == 0; }

  // False: no memory. `counters` outlive the session.
  bool begin(const TlsContext& context, NetCounters& counters) noexcept;
  // A step of the handshake. True: it is complete; else errno as above.
  bool shake_hands() noexcept;
  std::ptrdiff_t receive(char* to, std::size_t bytes) noexcept;
  // After EAGAIN the next call must begin with the same bytes, and as many at least.
  std::ptrdiff_t send(const char* from, std::size_t bytes) noexcept;
  std::ptrdiff_t send(const iovec* parts, std::size_t count) noexcept;
  // Sends close_notify, if the socket takes it.
  void end() noexcept;

  // What made it fail, for the log.
  const std::string& failure() const noexcept { return failure_; }

 private:
  struct Socket;  // OpenSSL's view of fd_
  friend struct Socket;

  bool fail() noexcept;

  SslPtr ssl_;
  NetCounters* counters_ = nullptr;
  std::string failure_;
  const int fd_;
  const std::uint32_t since_s_;
  // Input that OpenSSL may still take in this call: a bound for records without data, which a client can send for ever.
  std::size_t input_bytes_left_ = 1;
  bool drained_ = false;  // a read was short in this call: the socket is empty
  bool established_ = false, kernel_sends_ = false, wants_write_ = false, ended_ = false, failed_ = false;
  bool socket_ended_ = false;
  bool write_pending_ = false;  // a record waits inside OpenSSL for the socket to take it
};

}  // namespace tandem::net
