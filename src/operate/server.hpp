// The server: listeners, worker threads with an epoll loop each, connections. Serves an Engine in the protocols of
// codec/.
//
// Threads: one acceptor and `threads` workers (docs/threads.md). Memory beside the engine's: net/limits.hpp.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "net/log.hpp"
#include "net/options.hpp"

namespace tandem {
namespace net {
class Telemetry;
}  // namespace net

class Server {
 public:
  // Binds and starts the threads; throws std::system_error with the address in its text, std::invalid_argument for one
  // that cannot be understood and for UDP beside passwords, TlsError, CredentialsError when a password file cannot be
  // read, std::runtime_error when the engine has no contexts left. `engine` outlives the server.
  Server(const ServerOptions& options, Engine& engine);
  ~Server();  // stop() and wait()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  int tcp_port() const noexcept;  // the bound port of the first address; 0: none
  int udp_port() const noexcept;
  const std::vector<ListeningPort>& listening_ports() const noexcept;  // TCP first; none of a Unix socket
  // Any thread. Loads certificate, key and CAs again, for connections that come from now on. Returns why that failed
  // (the old ones stay), empty on success or without TLS.
  std::string reload_certificates();
  // Any thread. Loads certificates, key and password files again. A file that cannot be used changes nothing. Returns
  // the results as lines for the log, failures as warnings; none: there is no such file.
  std::vector<net::LogLine> reload();
  // Any thread. Warnings about certificate and password files that can be used.
  std::vector<std::string> warnings() const;
  net::Telemetry& telemetry() noexcept;  // for monitoring
  void stop() noexcept;                  // any thread, also from a signal handler
  void wait();                           // until stopped: all connections are closed, the Unix socket's file is gone

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tandem
