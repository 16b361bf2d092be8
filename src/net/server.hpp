// The server: listeners, worker threads with an epoll loop each, connections. Built on the Engine; speaks whatever protocol/ parses.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/engine.hpp"

namespace tandem {

struct ServerOptions {
  std::vector<std::string> listen = {"127.0.0.1"};  // addresses or host names, each may carry :port (memcached -l)
  int tcp_port = 11211;                             // -p; 0: off; -1: any free port
  int udp_port = 11211;                             // -U; 0: off
  std::string unix_path;                            // -s; turns TCP and UDP off
  unsigned unix_mask = 0700;                        // -a, the socket file's mode
  unsigned threads = 4;                             // -t
  unsigned connections_max = 1024;                  // -c
  unsigned requests_per_event = 20;                 // -R: a connection yields after so many requests when others wait
  unsigned backlog = 1024;                          // -b
  unsigned idle_timeout_s = 0;                      // -o idle_timeout; 0: never
  bool maxconns_fast = true;                        // past the limit: an error line and close at once
  bool flush_enabled = true;                        // -F turns flush_all off
  int verbosity = 0;                                // -v
};

class Server {
 public:
  // Binds and starts the workers; throws std::system_error with the address in its text.
  Server(const ServerOptions& options, Engine& engine);
  ~Server();  // stop() and join
  int tcp_port() const noexcept;  // the port really bound
  int udp_port() const noexcept;
  void stop() noexcept;           // any thread, also a signal-safe caller through eventfd
  void wait();                    // until stopped
};

}  // namespace tandem
