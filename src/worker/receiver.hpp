// RV: receives from a ready connection or UDP port once a pass, into the work's input, where it waits for its answer.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstddef>

#include "net/udp_port.hpp"
#include "work/work.hpp"
#include "worker/connection_limits.hpp"
#include "worker/connections.hpp"
#include "worker/socket_reader.hpp"
#include "worker/worker_state.hpp"

namespace tandem::net {

class Receiver {
 public:
  // All outlive the receiver.
  Receiver(WorkerState& worker, Connections& connections, ConnectionLimits& limits, Work& work) noexcept;

  void begin_pass() noexcept { reader_.begin_pass(); }
  // Receives from the connection, or continues with the input that it has kept. REQUIRES: it is neither closed nor in
  // flight, and has no unsent output.
  void receive(Connection& c);
  // Receives datagrams, at most once a pass. Each is a connection of its own: an incomplete request in it is dropped.
  // Returns how many have come.
  unsigned receive(UdpPort& port);

 private:
  void receive_long(Connection& c);

  WorkerState& worker_;
  Connections& connections_;
  ConnectionLimits& limits_;
  Work& work_;
  SocketReader reader_;
};

}  // namespace tandem::net
