// The bare server: what a memcached server costs above it is that server's own doing; what it costs is the kernel's.
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
  bool use_epoll = false;  // UDP: waits in epoll_wait, as a server with more than one socket must, not in recvmmsg
  std::uint32_t threads = 1;
  std::uint32_t key_bytes = 16, value_bytes = 64;  // of replies
};

// One thread of the floor, on a socket of its own.
class FloorWorker {
 public:
  virtual ~FloorWorker() = default;
  // Until stop() is called. A connection that does anything wrong is dropped.
  virtual void run() = 0;
  virtual void stop() noexcept = 0;
};

// TCP: level-triggered epoll; per readable connection one recv, the ready-made replies, one send. The first thread
// accepts and hands connections out in turn. UDP: recvmmsg, the replies behind memcached's 8-byte frame, sendmmsg;
// requests and replies of one datagram only.
// Thread safety: as any object; its threads are its own.
class Floor {
 public:
  // Listens, and starts the threads. Throws std::system_error, std::invalid_argument.
  explicit Floor(const FloorOptions& options);
  ~Floor();
  Floor(const Floor&) = delete;
  Floor& operator=(const Floor&) = delete;

  // Where clients connect to: HOST:PORT or unix:/PATH.
  const std::string& address() const noexcept { return address_; }
  // Until the process ends.
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
