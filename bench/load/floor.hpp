// The bare server. Its cost is the kernel's; what a memcached server costs beyond that is the server's own.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/load/canned.hpp"
#include "bench/load/socket.hpp"
#include "net/fd.hpp"

namespace tandem::load {

struct FloorOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT or unix:/PATH; port 0: the system picks one
  bool udp = false;
  bool use_epoll = false;  // UDP: waits in epoll_wait, as a server with several sockets must, not in recvmmsg
  std::uint32_t threads = 1;
  std::uint32_t key_bytes = 16, value_bytes = 64;  // of replies
};

// One thread of the floor, with its own socket.
class FloorWorker {
 public:
  virtual ~FloorWorker() = default;
  // Runs until stop() is called. Drops a connection on any error.
  virtual void run() = 0;
  virtual void stop() noexcept = 0;
};

// TCP: level-triggered epoll; per readable connection one recv, the ready-made replies, one send. The first thread
// accepts and distributes connections in turn. UDP: recvmmsg, the replies behind memcached's 8-byte frame, sendmmsg;
// requests and replies of one datagram only.
// Thread safety: as any object; its threads are its own.
class Floor {
 public:
  // Listens, and starts the threads. Throws std::system_error, std::invalid_argument.
  explicit Floor(const FloorOptions& options);
  ~Floor();
  Floor(const Floor&) = delete;
  Floor& operator=(const Floor&) = delete;

  // The address for clients: HOST:PORT or unix:/PATH.
  const std::string& address() const noexcept { return address_; }
  // Blocks until the process ends.
  void wait();

 private:
  std::string address_, unix_path_;
  CannedReplies replies_;
  std::vector<std::unique_ptr<FloorWorker>> workers_;
  std::vector<std::thread> threads_;
};

std::vector<std::unique_ptr<FloorWorker>> make_tcp_floor(net::Fd listener, const FloorOptions& options,
                                                         const CannedReplies& replies);
std::unique_ptr<FloorWorker> make_udp_floor(net::Fd socket, const FloorOptions& options, const CannedReplies& replies);

}  // namespace tandem::load
