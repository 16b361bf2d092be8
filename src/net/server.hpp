// The server: listeners, worker threads with an epoll loop each, connections. Built on the Engine; speaks whatever
// protocol/ parses.
//
// Threads: one acceptor and `threads` workers (docs/threads.md). Memory beside the engine's: net/limits.hpp.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/engine.hpp"

namespace tandem {
namespace net {
class Observer;
}

struct ServerOptions {
  std::vector<std::string> listen = {"127.0.0.1"};  // addresses or host names, each may carry :port (memcached -l)
  int tcp_port = 11211;                             // -p; 0: off; -1: any free port
  int udp_port = 11211;                             // -U; 0: off; -1: any free port
  std::string unix_path;                            // -s; turns TCP and UDP off
  unsigned unix_mask = 0700;                        // -a, the socket file's mode
  unsigned threads = 4;                             // -t
  unsigned connections_max = 1024;                  // -c
  unsigned requests_per_event = 20;                 // -R: a connection yields after so many requests when others wait
  unsigned backlog = 1024;                          // -b
  unsigned idle_timeout_s = 0;                      // -o idle_timeout; 0: never
  bool maxconns_fast = true;                        // past the limit: an error line and close at once
  bool flush_enabled = true;                        // -F turns flush_all off
  bool track_sizes = false;                         // -o track_sizes: `stats sizes` counts the items of each size
  bool hot_keys = true;                             // `stats hotkeys` has something to tell
  std::string metrics;                              // address of the monitoring endpoint (src/monitor); empty: none
  int verbosity = 0;                                // -v
};

class Server {
 public:
  // Binds and starts the threads; throws std::system_error with the address in its text, std::invalid_argument for one
  // that cannot be understood, std::runtime_error when the engine has no contexts left. `engine` outlives the server.
  Server(const ServerOptions& options, Engine& engine);
  ~Server();  // stop() and wait()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  int tcp_port() const noexcept;  // the port really bound (the first address's); 0: none
  int udp_port() const noexcept;
  net::Observer& observer() noexcept;  // for monitoring
  void stop() noexcept;                // any thread, also from a signal handler
  void wait();                         // until stopped: all connections are closed, the Unix socket's file is gone

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tandem
