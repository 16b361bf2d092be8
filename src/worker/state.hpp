// What the server's threads share.
//
// Thread safety: everything here may be used from any thread; `options` and `protocol` do not change after the start.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/memory_budget.hpp"
#include "codec/protocol.hpp"
#include "engine/engine.hpp"
#include "net/event_fd.hpp"
#include "net/limits.hpp"
#include "net/options.hpp"
#include "worker/dump_stream.hpp"
#include "worker/event_log.hpp"
#include "worker/prefix_stats.hpp"
#include "worker/recorder.hpp"

namespace tandem::net {

class TlsContext;

struct State {
  State(const ServerOptions& o, Engine& e);  // throws TlsError, CredentialsError
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const ServerOptions options;
  Engine& engine;
  // Users of the binary protocol, and of the text protocol; nullptr: no authentication.
  const std::unique_ptr<Credentials> sasl, auth_file;
  const ProtocolOptions protocol;
  const ProtocolOptions control_protocol;  // of connections to the control socket
  const std::unique_ptr<TlsContext> tls;   // nullptr: without

  std::atomic<int> verbosity;
  std::atomic<bool> stopping{false};
  std::atomic<bool> stop_asked{false};  // by a client: the worker that answers it stops the server
  std::atomic<bool> track_sizes;
  std::atomic<std::uint64_t> flushes{0};
  std::atomic<std::uint32_t> connections{0};          // open now, or being handed to a worker
  std::atomic<std::uint32_t> control_connections{0};  // those of them that have no place in the limit

  // The acceptor's counts; it alone writes them.
  Counter total_connections, rejected_connections, listen_disabled, listen_disabled_us;
  Counter accept_failures;  // for lack of a descriptor or of memory
  // Set while the acceptor has stopped listening: a worker that closes a connection wakes it then.
  std::atomic<bool> accept_paused{false};
  EventFd acceptor_wakeup;

  MemoryBudget unsent{unsent_bytes_total};  // bytes copied for clients that do not read
  MemoryBudget kept;                        // buffers of input that is kept: of long lines, or of all
  MemoryBudget pinned;                      // bytes of values pinned for them
  MemoryBudget filling;                     // bytes of values not wholly received

  EventLog events;
  PrefixStats prefixes;
  ConfigStore config;
  DumpPlace dump_place;
  MaintenanceRecorder maintenance_recorder;

  // Ends the server: as Server::stop().
  void stop() noexcept {
    stopping.store(true, std::memory_order_release);
    acceptor_wakeup.notify();
  }
  // The charge to `kept` for a buffer of so many bytes.
  std::size_t kept_cost(std::size_t capacity) const noexcept {
    return options.input_limit_mib != 0 || capacity >= long_input_bytes ? capacity : 0;
  }
  // Sets the limits that depend on the engine's memory limit.
  void set_memory_limit(std::uint64_t bytes) noexcept;

  // A connection was closed and freed.
  void connection_closed(bool is_control) noexcept {
    if (is_control) control_connections.fetch_sub(1, std::memory_order_seq_cst);
    connections.fetch_sub(1, std::memory_order_seq_cst);
    if (accept_paused.load(std::memory_order_seq_cst)) acceptor_wakeup.notify();
  }
};

}  // namespace tandem::net
