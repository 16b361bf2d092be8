// A server in this process and clients of it, for the tests of this folder. Clients block, and fail a test instead of
// hanging for ever.
#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "codec/udp.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/sim/sim_device.hpp"
#include "engine/engine.hpp"
#include "net/fd.hpp"
#include "operate/server.hpp"
#include "preset/preset.hpp"

namespace tandem::net::test {

using namespace std::chrono_literals;

inline constexpr int patience_ms = 60'000;  // a client that waits longer fails its test

// With $TANDEM_TEST_GPU every batch of these servers goes through devices, which have copies of small items: sim, a
// simulated one; cuda, the first GPU; sim2 or cuda2, two of them, and
// workers steal. With sim-mirrored, and so on, they have no copies; with sim-index they alone have the index.
inline std::string_view test_gpu() {
  const char* const variable = std::getenv("TANDEM_TEST_GPU");
  return variable != nullptr ? variable : "";
}
inline bool test_index_is_on_device() { return test_gpu().ends_with("-index"); }
inline std::vector<std::shared_ptr<Device>> test_devices() {
  const std::string_view gpu = test_gpu().substr(0, test_gpu().find('-'));
  if (gpu.empty()) return {};
  std::vector<std::shared_ptr<Device>> devices;
  for (std::uint32_t i = 0; i < (gpu.ends_with('2') ? 2u : 1u); ++i) {
    if (gpu.starts_with("cuda")) {
      devices.push_back(make_cuda_device(i));
    } else {
      devices.push_back(make_sim_device({.number = i}));
    }
  }
  return devices;
}

inline EngineOptions small_engine(std::uint64_t mebibytes = 64) {
  EngineOptions options;
  options.memory_bytes = mebibytes << 20;
  options.huge_pages = false;
  options.devices = test_devices();
  options.index_on_device = test_index_is_on_device();
  if (!options.index_on_device && !test_gpu().ends_with("-mirrored")) {
    options.device_values = {.bytes = std::uint64_t{16} << 20};
    options.scheduler.steal = options.devices.size() == 2;
  }
  return options;
}

inline ServerOptions any_port(unsigned threads = 2) {
  ServerOptions options;
  options.tcp_port = -1;
  options.udp_port = 0;
  options.threads = threads;
  if (!test_gpu().empty()) options.preset = number_of(test_index_is_on_device() ? Preset::mega_kv : Preset::mirrored);
  return options;
}

struct TestServer {
  explicit TestServer(const ServerOptions& options = any_port(), const EngineOptions& engine_options = small_engine())
      : engine(engine_options), server(options, engine) {
    if (test_gpu().empty()) return;
    while (!engine.schedulers()->serves()) std::this_thread::sleep_for(1ms);
  }
  int port() const { return server.tcp_port(); }

  Engine engine;
  Server server;
};

class Client {
 public:
  explicit Client(int port, int receive_buffer_bytes = 0) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer_bytes != 0)
      setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
    const int on = 1;
    setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect_to(reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  explicit Client(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connect_to(reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }

  virtual ~Client() = default;
  Client(Client&&) = delete;
  Client& operator=(Client&&) = delete;

  int fd() const { return fd_.get(); }

  // False: the server has closed the connection.
  virtual bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  // Sends what the socket takes at once; returns how many bytes.
  std::size_t send_some(std::string_view bytes) {
    const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return n < 0 ? 0 : static_cast<std::size_t>(n);
  }

  // Exactly `bytes` bytes, fewer at the end of the stream.
  std::string read(std::size_t bytes) {
    while (buffer_.size() < bytes && fill()) {
    }
    return take(std::min(bytes, buffer_.size()));
  }
  // Up to and with `end`; what there is at the end of the stream.
  std::string read_until(std::string_view end) {
    for (std::size_t from = 0;;) {
      const std::size_t at = buffer_.find(end, from);
      if (at != std::string::npos) return take(at + end.size());
      from = buffer_.size() < end.size() ? 0 : buffer_.size() - end.size() + 1;
      if (!fill()) return take(buffer_.size());
    }
  }
  std::string read_line() { return read_until("\r\n"); }
  std::string read_all() {
    while (fill()) {
    }
    return take(buffer_.size());
  }
  bool is_closed() { return buffer_.empty() && !fill(); }
  // Something to read, or the end, within `ms`.
  bool is_readable(int ms) {
    pollfd p{fd_.get(), POLLIN, 0};
    return !buffer_.empty() || poll(&p, 1, ms) == 1;
  }
  void shutdown_write() { shutdown(fd_.get(), SHUT_WR); }

  std::string ask(std::string_view request) {
    send(request);
    return read_line();
  }
  std::string set(std::string_view key, std::string_view value) {
    std::string request = "set " + std::string(key) + " 0 0 " + std::to_string(value.size()) + "\r\n";
    request.append(value).append("\r\n");
    return ask(request);
  }
  // The value; "<none>" on a miss.
  std::string get(std::string_view key) {
    const std::string line = ask("get " + std::string(key) + "\r\n");
    if (line == "END\r\n") return "<none>";
    const std::size_t bytes = std::stoul(line.substr(line.rfind(' ') + 1));
    std::string value = read(bytes);
    EXPECT_EQ(read(7), "\r\nEND\r\n");
    return value;
  }
  std::map<std::string, std::string> stats(std::string_view group = "") {
    send(group.empty() ? "stats\r\n" : "stats " + std::string(group) + "\r\n");
    std::map<std::string, std::string> found;
    for (std::string line = read_line(); line.starts_with("STAT "); line = read_line()) {
      const std::size_t space = line.find(' ', 5);
      found[line.substr(5, space - 5)] = line.substr(space + 1, line.size() - space - 3);
    }
    return found;
  }
  std::uint64_t stat(const std::string& name, std::string_view group = "") {
    const auto found = stats(group);
    const auto it = found.find(name);
    if (it == found.end()) throw std::runtime_error("no statistic " + name);
    return std::stoull(it->second);
  }

 protected:
  // receive() has some without the socket.
  virtual bool has_pending() const { return false; }
  // Receives some into `to`; false at the end of the stream.
  virtual bool receive(std::string& to) {
    char chunk[64 * 1024];
    const ssize_t n = recv(fd_.get(), chunk, sizeof chunk, 0);
    if (n <= 0) return false;
    to.append(chunk, static_cast<std::size_t>(n));
    return true;
  }

 private:
  void connect_to(const sockaddr* address, socklen_t bytes) {
    if (connect(fd_.get(), address, bytes) != 0) throw std::system_error(errno, std::generic_category(), "connect");
  }
  bool fill() {
    pollfd p{fd_.get(), POLLIN, 0};
    if (!has_pending() && poll(&p, 1, patience_ms) != 1)
      throw std::runtime_error("no answer; so far: " + buffer_.substr(0, 200));
    return receive(buffer_);
  }
  std::string take(std::size_t bytes) {
    std::string out = buffer_.substr(0, bytes);
    buffer_.erase(0, bytes);
    return out;
  }

  Fd fd_;
  std::string buffer_;
};

class UdpClient {
 public:
  explicit UdpClient(int port) : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const int buffer_bytes = 4 << 20;
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("connect");
  }
  void send_raw(std::string_view datagram) { ::send(fd_.get(), datagram.data(), datagram.size(), 0); }
  void send(std::uint16_t request_id, std::string_view payload) {
    std::string datagram(udp_frame_bytes, '\0');
    write_udp_frame({request_id, 0, 1}, datagram.data());
    send_raw(datagram.append(payload));
  }
  // The next datagram; empty when none comes in time.
  std::string receive(int ms = patience_ms) {
    pollfd p{fd_.get(), POLLIN, 0};
    if (poll(&p, 1, ms) != 1) return {};
    std::string datagram(70'000, '\0');
    const ssize_t n = recv(fd_.get(), datagram.data(), datagram.size(), 0);
    datagram.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return datagram;
  }
  // One whole reply, its datagrams put in order.
  std::string receive_reply(std::uint16_t request_id) {
    std::map<unsigned, std::string> parts;
    for (;;) {
      const std::string datagram = receive();
      UdpFrame frame{};
      if (datagram.size() < udp_frame_bytes) return "<none>";
      const auto word = [&datagram](std::size_t at) {
        return static_cast<std::uint16_t>(static_cast<unsigned char>(datagram[at]) << 8 |
                                          static_cast<unsigned char>(datagram[at + 1]));
      };
      frame = {word(0), word(2), word(4)};
      EXPECT_EQ(frame.request_id, request_id);
      EXPECT_LE(datagram.size(), udp_datagram_bytes_max);
      parts[frame.sequence] = datagram.substr(udp_frame_bytes);
      if (parts.size() == frame.total) break;
    }
    std::string reply;
    for (const auto& [sequence, part] : parts) reply += part;
    return reply;
  }
  std::string ask(std::uint16_t request_id, std::string_view payload) {
    send(request_id, payload);
    return receive_reply(request_id);
  }

 private:
  Fd fd_;
};

// Waits until f() holds.
template <class F>
bool eventually(F f, std::chrono::milliseconds limit = std::chrono::milliseconds(patience_ms)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!f()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

// `bytes` bytes that differ from place to place and seed to seed.
inline std::string pattern(std::size_t bytes, unsigned seed) {
  std::string out(bytes, '\0');
  std::uint32_t x = seed * 2654435761u + 12345;
  for (char& c : out) {
    x = x * 1664525u + 1013904223u;
    c = static_cast<char>(x >> 24);
  }
  return out;
}

}  // namespace tandem::net::test
