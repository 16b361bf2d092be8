// Sockets to listen on: from the text of -l, -p, -U, -s and -a to bound descriptors.
#pragma once
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "net/fd.hpp"
#include "net/options.hpp"
#include "net/peer_address.hpp"

namespace tandem::net {

// host: empty means any address. port: -1 if the text names none. plain: without TLS, also where the server has it.
struct Endpoint {
  std::string host;
  int port = -1;
  bool plain = false;
};

// One of memcached's -l entries: host, host:port, [v6], [v6]:port, v6, * (any), and notls: before any. Throws
// std::invalid_argument.
Endpoint parse_endpoint(std::string_view text);

struct BoundSocket {
  Fd fd;
  int port = 0;        // the bound one; 0: a Unix socket
  bool local = false;  // a Unix socket
  bool tls = false;    // what it accepts speaks TLS
};

// All throw std::system_error with the address in the text when an address cannot be bound (one family of a name that
// resolves to several may fail). Listening TCP sockets, non-blocking, with TCP_NODELAY and SO_KEEPALIVE, which accepted
// sockets inherit.
std::vector<BoundSocket> listen_tcp(const ServerOptions& options);
// For each address one socket per worker, in worker-major order: [address * workers + worker]. They share the port
// (SO_REUSEPORT): the kernel spreads clients over them.
std::vector<BoundSocket> bind_udp(const ServerOptions& options, unsigned workers);

// Whether a bound socket's address is of IPv6.
bool is_ipv6(int socket) noexcept;

// A listening Unix socket with its file. A file left over by a dead server is replaced; a live server's, or another
// kind of file, is an error.
class UnixListener {
 public:
  UnixListener() = default;
  UnixListener(const std::string& path, unsigned mode, unsigned backlog);
  UnixListener(UnixListener&&) noexcept = default;
  UnixListener& operator=(UnixListener&&) = delete;
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;
  ~UnixListener() { close(); }
  int fd() const noexcept { return fd_.get(); }
  // Closes the socket and removes its file, unless another has taken its place.
  void close() noexcept;

 private:
  Fd fd_;
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

// "tcp:127.0.0.1:11211", "tcp6:[::1]:11211", "udp:...", "unix:/path", as `stats conns` shows addresses. type:
// SOCK_STREAM or SOCK_DGRAM.
std::string address_text(const sockaddr_storage& address, socklen_t bytes, int type);
// The host alone, "127.0.0.1", and the address as `stats conns` shows it. A client of a Unix socket is "" and, as in
// memcached, "?:<AF 0>".
std::string_view host_text(const PeerAddress& peer, char (&text)[INET6_ADDRSTRLEN]) noexcept;
std::string peer_text(const PeerAddress& peer);
std::string local_text(int fd);

}  // namespace tandem::net
