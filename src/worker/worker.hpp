// A worker: one thread with an epoll loop that owns connections and runs the CPU pipeline over their requests.
//
// A pass: epoll_wait; every ready connection is received from once (RV) into one intake of the work (work/work.hpp);
// the lane executes all of it, strip by strip, and writes the replies to one output (PP to WR); then one send per
// connection (SD), from that output. Nothing else enters the kernel: descriptors are registered once, and a worker
// without work sleeps outside any epoch. worker_state.hpp lists the parts that do this; docs/threads.md says what other
// threads may touch.
//
// With a device, an intake that the planner gives it is handed over when it is filled, and its replies are written in a
// later pass. Meanwhile the worker serves other connections.
//
// A connection with a full socket becomes blocked: its own buffer keeps what the socket did not take, its later
// requests are not executed, the input from them on is kept, and it is not received from until it has drained.
#pragma once
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "codec/protocol.hpp"
#include "net/udp_port.hpp"
#include "work/work.hpp"
#include "worker/connection_limits.hpp"
#include "worker/connections.hpp"
#include "worker/receiver.hpp"
#include "worker/replies.hpp"
#include "worker/responder.hpp"
#include "worker/sender.hpp"
#include "worker/streams.hpp"
#include "worker/worker_state.hpp"

namespace tandem::net {

class Worker final {
 public:
  // udp: this worker's own UDP ports. Throws std::system_error, std::runtime_error (no context left).
  Worker(State& state, ServerControl& control, UdpPorts udp);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // Any thread. As Connections::adopt(); `tls`: it speaks TLS.
  void adopt(Fd socket, const ProtocolOptions& protocol, bool tls = false, const PeerAddress& client = {}) {
    connections_.adopt(std::move(socket), protocol, tls, client);
  }
  std::uint32_t connection_count() const noexcept { return connections_.count(); }

  // The worker's thread: until State::stopping is set and wake() was called; closes all connections at the end.
  void run();
  // One pass, waiting at most timeout_ms for something to do (-1: for ever). For run(), tests and fuzzing.
  void pass(int timeout_ms);
  void wake() const noexcept { wakeup_.notify(); }

  // Buffers of input: one for each batch, and of each connection that has sent a part of a request. Of output: of each
  // connection that has not taken its replies yet.
  struct Buffers {
    std::uint64_t inputs, input_bytes, outputs;
  };
  Buffers buffers() const noexcept;

  // Any thread.
  const NetCounters& counters() const noexcept { return own_.counters; }
  const Context& context() const noexcept { return *own_.context; }
  const LatencyCounters& latency() const noexcept { return own_.meter.latency(); }
  HotKeyCounter* hot_keys() const noexcept { return own_.meter.hot_keys(); }  // nullptr: turned off
  // Calls f for every open connection, under the lock that adopting and closing take.
  void for_each_connection(const std::function<void(const Connection&)>& f) const;
  const UdpPorts& udp_ports() const noexcept { return udp_; }
  Work& work() noexcept { return work_; }  // for tests; the worker's thread

 private:
  void begin_pass() noexcept;
  bool pass_udp();
  int patience_ms(bool has_input, int timeout_ms) const noexcept;
  // Whether there is something to do without an event.
  bool has_input() const noexcept {
    if (connections_.has_waiting() || streams_.are_due()) return true;
    return TD_UNLIKELY(!udp_.empty()) && has_datagrams();
  }
  bool has_datagrams() const noexcept;
  void handle(const epoll_event& event);
  void serve(Connection& c);
  void end_pass() noexcept;

  WorkerState own_;
  EventFd wakeup_;  // before the connections, because their streams use it
  Connections connections_;
  ConnectionLimits limits_;
  Sender sender_;
  Streams streams_;
  const UdpPorts udp_;  // devices may read their datagrams until the work ends
  Work work_;
  Responder responder_;
  Replies replies_;
  Receiver receiver_;
  std::uint64_t pass_begin_ = 0;      // ticks
  std::vector<Connection*> serving_;  // that have input left from earlier passes, of this pass
  unsigned idle_looks_ = 0;           // passes that found neither input nor answers while some are in flight
  // A worker that serves nothing but one UDP port often finds more in it after a pass: then asking epoll first is a
  // system call too many.
  UdpPort* udp_alone_ = nullptr;  // all that the last pass served
  unsigned udp_luck_ = 0;         // of receiving without asking
  unsigned udp_passes_ = 0;       // since epoll was asked
  std::uint64_t udp_since_ = 0;   // ticks
};

}  // namespace tandem::net
