#include "bench/load/socket.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <system_error>

#include "net/endpoint.hpp"

namespace tandem::load {
namespace {

constexpr int datagram_buffer_bytes = 4 << 20;  // requested; the kernel grants what its limits allow

net::Fd connect_socket(const Address& address, int type) {
  net::Fd fd(check(::socket(address.family(), type | SOCK_CLOEXEC, 0), "socket"));
  if (::connect(fd.get(), address.generic(), address.bytes) != 0)
    throw std::system_error(errno, std::generic_category(), fmt::format("cannot connect to {}", address.text));
  return fd;
}

}  // namespace

int check(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

Address resolve(std::string_view text, bool udp) {
  Address address;
  address.text = text;
  static constexpr std::string_view unix_prefix = "unix:";
  if (text.starts_with(unix_prefix)) {
    text.remove_prefix(unix_prefix.size());
    auto& local = reinterpret_cast<sockaddr_un&>(address.storage);
    if (udp) throw std::invalid_argument("a Unix socket has no UDP");
    if (text.empty() || text.size() >= sizeof local.sun_path)
      throw std::invalid_argument(
          fmt::format("the path of a Unix socket has 1 to {} bytes", sizeof local.sun_path - 1));
    local.sun_family = AF_UNIX;
    std::memcpy(local.sun_path, text.data(), text.size());
    address.bytes = sizeof local;
    return address;
  }
  const net::Endpoint endpoint = net::parse_endpoint(text);
  addrinfo hints{};
  hints.ai_socktype = udp ? SOCK_DGRAM : SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string host = endpoint.host.empty() ? "127.0.0.1" : endpoint.host;
  const std::string port = std::to_string(endpoint.port > 0 ? endpoint.port : default_port);
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
    throw std::system_error(error == EAI_SYSTEM ? errno : EADDRNOTAVAIL, std::generic_category(),
                            fmt::format("{}: {}", text, gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  // A name may have several addresses of which only some are served: the first that accepts a connection is used.
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    std::memcpy(&address.storage, a->ai_addr, a->ai_addrlen);
    address.bytes = a->ai_addrlen;
    const net::Fd probe(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    if (a->ai_next == nullptr || (probe && ::connect(probe.get(), a->ai_addr, a->ai_addrlen) == 0)) break;
  }
  return address;
}

net::Fd connect_stream(const Address& address) {
  net::Fd fd = connect_socket(address, SOCK_STREAM);
  const int on = 1;
  if (address.family() != AF_UNIX) check(setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
  return fd;
}

net::Fd connect_datagrams(const Address& address) {
  net::Fd fd = connect_socket(address, SOCK_DGRAM | SOCK_NONBLOCK);
  const int bytes = datagram_buffer_bytes;
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  return fd;
}

void raise_descriptor_limit(std::uint32_t wanted) {
  static constexpr rlim_t spare = 64;
  rlimit limit{};
  check(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < wanted + spare)
    throw std::invalid_argument(
        fmt::format("{} connections need more descriptors than the {} allowed (ulimit -n)", wanted, limit.rlim_max));
  limit.rlim_cur = limit.rlim_max;
  check(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
}

}  // namespace tandem::load
