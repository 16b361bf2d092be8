#include "net/endpoint.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <system_error>

#include "net/log.hpp"

namespace tandem::net {
namespace {

constexpr int socket_buffer_bytes =
    8 * 1024 * 1024;  // asked for on UDP sockets; the kernel grants what its limits allow

int parse_port(std::string_view text, std::string_view whole) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port < 0 || port > 65535) {
    throw std::invalid_argument(fmt::format("invalid port number in \"{}\"", whole));
  }
  return port;
}

void set_option(int fd, int level, int name, int value) noexcept {
  setsockopt(fd, level, name, &value, sizeof value);  // optional: a failure is ignored
}

int bound_port(int fd) noexcept {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

// getaddrinfo()'s.
struct ResolverErrors final : std::error_category {
  static const ResolverErrors& category() {
    static const ResolverErrors errors;
    return errors;
  }
  const char* name() const noexcept override { return "resolver"; }
  std::string message(int error) const override { return gai_strerror(error); }
};

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

AddressList resolve(const Endpoint& endpoint, int port, int type) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = type;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  const int error =
      getaddrinfo(endpoint.host.empty() ? nullptr : endpoint.host.c_str(), service.c_str(), &hints, &found);
  if (error != 0) {
    const std::string what = fmt::format("cannot listen on {}", endpoint.host);
    if (error == EAI_SYSTEM) throw std::system_error(errno, std::generic_category(), what);
    throw std::system_error(error, ResolverErrors::category(), what);
  }
  return {found, &freeaddrinfo};
}

// A socket bound to `address`; invalid, and errno set, when that fails.
Fd bind_socket(const addrinfo& address, bool share_port) {
  Fd fd(socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
  if (!fd) return fd;
  if (address.ai_family == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (address.ai_socktype == SOCK_STREAM) {
    set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    set_option(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  } else {
    set_option(fd.get(), SOL_SOCKET, SO_SNDBUF, socket_buffer_bytes);
    set_option(fd.get(), SOL_SOCKET, SO_RCVBUF, socket_buffer_bytes);
  }
  if (share_port) set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1);
  if (bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

void set_port(addrinfo& address, int port) noexcept {
  const auto network = htons(static_cast<std::uint16_t>(port));
  if (address.ai_family == AF_INET) reinterpret_cast<sockaddr_in*>(address.ai_addr)->sin_port = network;
  if (address.ai_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(address.ai_addr)->sin6_port = network;
}

// Binds every address of `options.listen`, `copies` sockets each. A port of -1 is chosen by the system, once for all.
std::vector<BoundSocket> bind_all(const ServerOptions& options, int port, int type, unsigned copies) {
  std::vector<BoundSocket> bound;
  const std::vector<std::string> any = {""};
  for (const std::string& text : options.listen.empty() ? any : options.listen) {
    const Endpoint endpoint = parse_endpoint(text);
    int wanted = endpoint.port >= 0 ? endpoint.port : port;
    if (wanted < 0) wanted = 0;
    const AddressList addresses = resolve(endpoint, wanted, type);
    const std::size_t before = bound.size();
    int error = EADDRNOTAVAIL;
    for (addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
      if (wanted != 0) set_port(*a, wanted);
      // Sockets that share a port could also join another server's: the first try is without sharing.
      Fd first = bind_socket(*a, false);
      if (!first) {
        error = errno;
        if (error == EADDRINUSE) break;
        continue;
      }
      wanted = bound_port(first.get());
      set_port(*a, wanted);
      if (endpoint.port < 0) port = wanted;
      if (copies == 1) {
        bound.push_back({std::move(first), wanted, false, options.tls.enabled && !endpoint.plain});
        continue;
      }
      first.reset();
      for (unsigned i = 0; i < copies; ++i) {
        Fd fd = bind_socket(*a, true);
        if (!fd)
          throw std::system_error(errno, std::generic_category(), fmt::format("cannot bind {} port {}", text, wanted));
        bound.push_back({std::move(fd), wanted});
      }
    }
    if (bound.size() == before || error == EADDRINUSE) {
      throw std::system_error(error, std::generic_category(),
                              fmt::format("cannot bind {} port {}", text.empty() ? "any address" : text, wanted));
    }
  }
  return bound;
}

void listen_on(int fd, unsigned backlog, std::string_view name) {
  if (listen(fd, static_cast<int>(backlog)) != 0) {
    throw std::system_error(errno, std::generic_category(), fmt::format("cannot listen on {}", name));
  }
}

}  // namespace

Endpoint parse_endpoint(std::string_view text) {
  Endpoint endpoint;
  constexpr std::string_view plain_prefix = "notls:";
  if (text.starts_with(plain_prefix)) {
    endpoint.plain = true;
    text.remove_prefix(plain_prefix.size());
  }
  std::string_view host = text, port;
  if (!text.empty() && text.front() == '[') {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) throw std::invalid_argument(fmt::format("invalid IPv6 address \"{}\"", text));
    host = text.substr(1, end - 1);
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty()) {
      if (rest.front() != ':') throw std::invalid_argument(fmt::format("invalid address \"{}\"", text));
      port = rest.substr(1);
      endpoint.port = parse_port(port, text);
    }
  } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos && text.rfind(':') == colon) {
    host = text.substr(0, colon);
    endpoint.port = parse_port(text.substr(colon + 1), text);
  }
  if (host != "*") endpoint.host = host;
  return endpoint;
}

std::vector<BoundSocket> listen_tcp(const ServerOptions& options) {
  std::vector<BoundSocket> bound = bind_all(options, options.tcp_port, SOCK_STREAM, 1);
  for (const BoundSocket& socket : bound)
    listen_on(socket.fd.get(), options.backlog, fmt::format("port {}", socket.port));
  return bound;
}

std::vector<BoundSocket> bind_udp(const ServerOptions& options, unsigned workers) {
  return bind_all(options, options.udp_port, SOCK_DGRAM, workers);
}

bool is_ipv6(int socket) noexcept {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  return getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) == 0 && address.ss_family == AF_INET6;
}

UnixListener::UnixListener(const std::string& path, unsigned mode, unsigned backlog) : path_(path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto fail = [&path](int error) {
    throw std::system_error(error, std::generic_category(), fmt::format("cannot listen on {}", path));
  };
  if (path.size() >= sizeof address.sun_path) fail(ENAMETOOLONG);
  path.copy(address.sun_path, path.size());
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);

  struct stat status{};
  if (lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) fail(EEXIST);
    const Fd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (connect(probe.get(), generic, sizeof address) == 0 || errno != ECONNREFUSED) fail(EADDRINUSE);
    unlink(path.c_str());
  }
  fd_ = Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd_) fail(errno);
  // The file takes its mode from the socket's (less the umask), so that it is never open to more users than it will be;
  // chmod gives the rest.
  const mode_t bits = static_cast<mode_t>(mode & 0777);
  fchmod(fd_.get(), bits);
  if (bind(fd_.get(), generic, sizeof address) != 0) fail(errno);
  if (lstat(path.c_str(), &status) == 0) {
    device_ = status.st_dev;
    inode_ = status.st_ino;
  }
  if (chmod(path.c_str(), bits) != 0 || listen(fd_.get(), static_cast<int>(backlog)) != 0) {
    const int error = errno;
    close();
    fail(error);
  }
}

void UnixListener::close() noexcept {
  if (!fd_) return;
  struct stat status{};
  if (lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_) unlink(path_.c_str());
  fd_.reset();
}

std::string address_text(const sockaddr_storage& address, socklen_t bytes, int type) {
  const char* protocol = type == SOCK_DGRAM ? "udp" : "tcp";
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return fmt::format("{}:{}:{}", protocol, text, ntohs(v4.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    return fmt::format("{}6:[{}]:{}", protocol, text, ntohs(v6.sin6_port));
  }
  if (address.ss_family == AF_UNIX) {
    const auto& local = reinterpret_cast<const sockaddr_un&>(address);
    const std::size_t path_bytes =
        bytes > offsetof(sockaddr_un, sun_path) ? bytes - offsetof(sockaddr_un, sun_path) : 0;
    return fmt::format("unix:{}", std::string_view(local.sun_path, strnlen(local.sun_path, path_bytes)));
  }
  return fmt::format("<family {}>", address.ss_family);
}

namespace {
int type_of(int fd) noexcept {
  int type = SOCK_STREAM;
  socklen_t bytes = sizeof type;
  getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes);
  return type;
}
}  // namespace

std::string_view host_text(const PeerAddress& peer, char (&text)[INET6_ADDRSTRLEN]) noexcept {
  text[0] = '\0';
  if (!peer.is_local()) inet_ntop(peer.family, peer.host.data(), text, sizeof text);
  return text;
}

std::string peer_text(const PeerAddress& peer) {
  if (peer.is_local()) return "?:<AF 0>";
  char host[INET6_ADDRSTRLEN];
  const std::string_view text = host_text(peer, host);
  return peer.family == AF_INET ? fmt::format("tcp:{}:{}", text, peer.port)
                                : fmt::format("tcp6:[{}]:{}", text, peer.port);
}

std::string local_text(int fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return "<unknown>";
  return address_text(address, bytes, type_of(fd));
}

}  // namespace tandem::net
