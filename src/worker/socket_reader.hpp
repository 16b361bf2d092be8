// Receives from connections' sockets, in the clear or through OpenSSL, with its handshakes. Knows nothing of what
// is received.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstddef>

#include "net/limits.hpp"
#include "worker/connections.hpp"
#include "worker/worker_state.hpp"

namespace tandem::net {

class SocketReader {
 public:
  // Both outlive the reader.
  SocketReader(WorkerState& worker, Connections& connections) noexcept : worker_(worker), connections_(connections) {}

  void begin_pass() noexcept { handshake_steps_left_ = tls_handshake_steps_per_pass; }
  // Receives up to receive_bytes_max bytes. Returns how many; 0: nothing has come, or the connection is closed. Clears
  // Connection::readable when the socket is empty.
  std::size_t receive(Connection& c, char* to) noexcept;
  // The same for the rest of a large value (Connection::fill), which goes into its slot: returns how many bytes behind
  // the value went to `to`.
  std::size_t receive_value(Connection& c, char* to) noexcept;

 private:
  bool received(Connection& c, std::ptrdiff_t bytes) noexcept;
  bool shake_hands(Connection& c) noexcept;
  std::ptrdiff_t read_tls(Connection& c, char* to, std::size_t bytes) noexcept;
  std::size_t receive_tls(Connection& c, char* to) noexcept;
  std::size_t receive_value_tls(Connection& c, char* to) noexcept;

  WorkerState& worker_;
  Connections& connections_;
  unsigned handshake_steps_left_ = 0;  // in this pass
};

}  // namespace tandem::net
