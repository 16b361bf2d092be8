#include "bench/load/floor.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "bench/workload/keys.hpp"

namespace tandem::load {
namespace {

constexpr int backlog = 4096;
constexpr int floor_buffer_bytes = 4 << 20;

void set_option(int fd, int level, int name, int value) {
  check(setsockopt(fd, level, name, &value, sizeof value), "setsockopt");
}

net::Fd bind_to(const Address& address, bool udp, bool share_port) {
  net::Fd fd(
      check(::socket(address.family(), (udp ? SOCK_DGRAM : SOCK_STREAM | SOCK_NONBLOCK) | SOCK_CLOEXEC, 0), "socket"));
  if (address.family() != AF_UNIX)
    set_option(fd.get(), SOL_SOCKET, udp ? SO_REUSEPORT : SO_REUSEADDR, !udp || share_port);
  if (udp) set_option(fd.get(), SOL_SOCKET, SO_RCVBUF, floor_buffer_bytes);
  if (::bind(fd.get(), address.generic(), address.bytes) != 0)
    throw std::system_error(errno, std::generic_category(), fmt::format("cannot listen on {}", address.text));
  if (!udp) check(::listen(fd.get(), backlog), "listen");
  return fd;
}

void set_port(Address& address, in_port_t port) noexcept {
  if (address.family() == AF_INET) reinterpret_cast<sockaddr_in&>(address.storage).sin_port = port;
  if (address.family() == AF_INET6) reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = port;
}

std::string text_of(const Address& address) {
  char host[INET6_ADDRSTRLEN] = "";
  if (address.family() == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
    inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
    return fmt::format("[{}]:{}", host, ntohs(v6.sin6_port));
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
  inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
  return fmt::format("{}:{}", host, ntohs(v4.sin_port));
}

}  // namespace

Floor::Floor(const FloorOptions& options) : replies_(options.key_bytes, options.value_bytes) {
  if (options.threads < 1 || options.threads > 1024) throw std::invalid_argument("threads must be 1 to 1024");
  if (options.key_bytes < 1 || options.key_bytes > workload::key_bytes_max)
    throw std::invalid_argument("the key size must be 1 to 250 bytes");
  if (options.value_bytes > workload::value_bytes_limit)
    throw std::invalid_argument(fmt::format("the value size must be at most {} bytes", workload::value_bytes_limit));
  if (options.udp && options.value_bytes + options.key_bytes > 60'000)
    throw std::invalid_argument("over UDP replies must fit a datagram");
  const bool is_unix = options.listen.starts_with("unix:");
  // resolve() rejects port 0, with which the system picks one.
  const bool picks = !is_unix && options.listen.ends_with(":0");
  Address address = resolve(options.listen, options.udp);
  if (picks) set_port(address, 0);
  net::Fd first = bind_to(address, options.udp, options.threads > 1);
  if (is_unix) {
    unix_path_ = options.listen.substr(5);
    address_ = options.listen;
  } else {
    check(getsockname(first.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.bytes), "getsockname");
    address_ = text_of(address);
  }
  if (options.udp) {
    workers_.push_back(make_udp_floor(std::move(first), options, replies_));
    for (std::uint32_t i = 1; i < options.threads; ++i)
      workers_.push_back(make_udp_floor(bind_to(address, true, true), options, replies_));
  } else {
    workers_ = make_tcp_floor(std::move(first), options, replies_);
  }
  for (auto& worker : workers_) threads_.emplace_back([&worker = *worker] { worker.run(); });
}

Floor::~Floor() {
  for (auto& worker : workers_) worker->stop();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
  if (!unix_path_.empty()) ::unlink(unix_path_.c_str());
}

void Floor::wait() {
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace tandem::load
