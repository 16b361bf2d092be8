// SD: sends output to connections' sockets, in the clear or through OpenSSL. What a socket does not take is kept by the
// connection, which then is blocked until it has drained; its share of the limits is charged for it.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstddef>
#include <string_view>

#include "work/output_range.hpp"
#include "worker/connection_limits.hpp"
#include "worker/connections.hpp"
#include "worker/worker_state.hpp"

namespace tandem::net {

class Sender {
 public:
  // All outlive the sender.
  Sender(WorkerState& worker, Connections& connections, ConnectionLimits& limits) noexcept
      : worker_(worker), connections_(connections), limits_(limits) {}

  // Sends the range, behind what the connection has not sent yet, and takes its pins over. The connection may be
  // blocked or closed afterwards; a closed one's range is dropped.
  void send(Connection& c, const OutputRange& range);
  // The same for bytes that lie elsewhere. Like lent stretches of a range, they need only last until it returns: what
  // the socket does not take is copied.
  void send(Connection& c, std::string_view replies);
  // Sends unsent output. True: none is left, and the connection can be served. REQUIRES: it is blocked.
  bool drain(Connection& c);
  // Unpins the items of a range that is not sent.
  void drop_pins(const OutputRange& range) const noexcept {
    if (TD_UNLIKELY(range.has_externals())) unpin(range);
  }

 private:
  std::size_t send_now(Connection& c, const char* from, std::size_t bytes);
  std::size_t note_sent(Connection& c, std::ptrdiff_t sent);
  std::size_t send_stretches(Connection& c, const OutputRange& range);
  void send_lent(Connection& c, const OutputRange& range);
  void send_copy(Connection& c);
  void wait_for_socket(Connection& c, const OutputRange& rest);
  bool hold(Connection& c, const OutputRange& range);
  void unpin(const OutputRange& range) const noexcept;

  WorkerState& worker_;
  Connections& connections_;
  ConnectionLimits& limits_;
  Output copy_;  // empty between two replies
};

}  // namespace tandem::net
