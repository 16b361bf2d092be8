#include "monitor/http_server.hpp"

#include <arpa/inet.h>
#include <civetweb.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "net/endpoint.hpp"

namespace tandem::monitor {
namespace {

constexpr int default_port = 9150;

struct Bound {
  std::string ports;  // in civetweb's syntax
  bool loopback = false;
  sockaddr_storage address{};
};

// Why the address cannot be bound, which civetweb does not report; 0: it can.
int bind_error(const sockaddr_storage& address) {
  const int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool is_bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  // Without listen() the check would pass for a port on which another socket listens with SO_REUSEADDR.
  const int error = is_bound && listen(fd, 1) == 0 ? 0 : errno;
  close(fd);
  return error;
}

// The process' sockets that listen on this TCP port; 0: on any port.
std::vector<int> listening_on(int port) {
  std::vector<int> found;
  std::error_code ended;
  for (std::filesystem::directory_iterator file("/proc/self/fd", ended), end; !ended && file != end;
       file.increment(ended)) {
    const int fd = std::atoi(file->path().filename().c_str());
    int listens = 0;
    socklen_t bytes = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || listens == 0) continue;
    sockaddr_storage address{};
    bytes = sizeof address;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) continue;
    in_port_t at = 0;  // at the same offset for both families
    static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
    std::memcpy(&at, reinterpret_cast<const char*>(&address) + offsetof(sockaddr_in, sin_port), sizeof at);
    if (port == 0 || ntohs(at) == port) found.push_back(fd);
  }
  return found;
}

Bound resolve(const std::string& address) {
  const net::Endpoint endpoint = net::parse_endpoint(address);
  const int port = endpoint.port >= 0 ? endpoint.port : default_port;
  if (endpoint.host.empty()) {
    Bound bound{.ports = fmt::format("+{}", port)};
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(static_cast<in_port_t>(port));
    std::memcpy(&bound.address, &any, sizeof any);
    return bound;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(endpoint.host.c_str(), nullptr, &hints, &found); error != 0)
    throw std::runtime_error(fmt::format("metrics on {}: {}", address, gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  char text[INET6_ADDRSTRLEN] = {};
  if (found->ai_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, found->ai_addr, sizeof in);
    inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
    Bound bound{.ports = fmt::format("[{}]:{}", text, port), .loopback = IN6_IS_ADDR_LOOPBACK(&in.sin6_addr) != 0};
    in.sin6_port = htons(static_cast<in_port_t>(port));
    std::memcpy(&bound.address, &in, sizeof in);
    return bound;
  }
  sockaddr_in in{};
  std::memcpy(&in, found->ai_addr, sizeof in);
  inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
  Bound bound{.ports = fmt::format("{}:{}", text, port), .loopback = ntohl(in.sin_addr.s_addr) >> 24 == 127};
  in.sin_port = htons(static_cast<in_port_t>(port));
  std::memcpy(&bound.address, &in, sizeof in);
  return bound;
}

// Receives civetweb's messages on this thread while it starts.
thread_local std::string* last_message = nullptr;

std::string_view text_or_empty(const char* text) noexcept { return text != nullptr ? text : ""; }

std::string_view reason(int status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 503:
      return "Service Unavailable";
    case 421:
      return "Misdirected Request";
    default:
      return "Internal Server Error";
  }
}

// Basic is for browsers, which then ask for the token.
constexpr std::string_view further_header(int status) noexcept {
  if (status == 401) return "WWW-Authenticate: Bearer realm=\"tandem\"\r\nWWW-Authenticate: Basic realm=\"tandem\"\r\n";
  if (status == 405) return "Allow: GET, HEAD\r\n";
  return {};
}

// The page must not load foreign resources or be framed, and browsers must not guess types.
constexpr std::string_view headers =
    "Cache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Connection: close\r\n";

}  // namespace

bool is_host_of_loopback(std::string_view host) noexcept {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1) == "[::1]";
  host = host.substr(0, host.find(':'));
  if (host == "localhost") return true;
  in_addr address{};
  char text[INET_ADDRSTRLEN] = {};
  if (host.size() >= sizeof text) return false;
  std::memcpy(text, host.data(), host.size());
  return inet_pton(AF_INET, text, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

struct HttpServer::Impl {
  static int begin_request(mg_connection* connection) noexcept;
  HttpReply reply_to(const mg_connection* connection, const mg_request_info& request) const;

  Handler handler;
  Permission permission;
  bool loopback = false;
  mg_context* context = nullptr;
  std::vector<int> listeners;  // civetweb's; it closes them
};

HttpReply HttpServer::Impl::reply_to(const mg_connection* connection, const mg_request_info& request) const {
  const std::string_view method = text_or_empty(request.request_method);
  if (method != "GET" && method != "HEAD") return {.status = 405, .body = "only GET and HEAD\n"};
  if (loopback && !is_host_of_loopback(text_or_empty(mg_get_header(connection, "Host"))))
    return {.status = 421, .body = "this address answers to localhost only\n"};
  const std::string_view path = text_or_empty(request.local_uri);
  if (permission != nullptr && !permission(path, text_or_empty(mg_get_header(connection, "Authorization"))))
    return {.status = 401, .body = "a token is needed\n"};
  return handler(path, text_or_empty(request.query_string));
}

int HttpServer::Impl::begin_request(mg_connection* connection) noexcept {
  const mg_request_info& request = *mg_get_request_info(connection);
  HttpReply reply;
  try {
    reply = static_cast<const Impl*>(request.user_data)->reply_to(connection, request);
    const std::string head =
        fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{}\r\n", reply.status,
                    reason(reply.status), reply.content_type, reply.body.size(), further_header(reply.status), headers);
    mg_write(connection, head.data(), head.size());
  } catch (const std::exception&) {  // no memory
    return 500;
  }
  if (text_or_empty(request.request_method) != "HEAD") mg_write(connection, reply.body.data(), reply.body.size());
  return reply.status;
}

HttpServer::HttpServer(const std::string& address, Handler handler, Permission permission)
    : impl_(std::make_unique<Impl>()) {
  const Bound bound = resolve(address);
  impl_->handler = std::move(handler);
  impl_->permission = std::move(permission);
  impl_->loopback = bound.loopback;
  const std::string threads = std::to_string(http_threads), queue = std::to_string(http_queue),
                    request_ms = std::to_string(http_request_ms), request_bytes = std::to_string(http_request_bytes);
  const char* options[] = {"listening_ports",
                           bound.ports.c_str(),
                           "num_threads",
                           threads.c_str(),
                           "connection_queue",
                           queue.c_str(),
                           "request_timeout_ms",
                           request_ms.c_str(),
                           "max_request_size",
                           request_bytes.c_str(),
                           "enable_keep_alive",
                           "no",
                           "tcp_nodelay",
                           "1",
                           nullptr};
  mg_callbacks callbacks{};
  callbacks.begin_request = &Impl::begin_request;
  callbacks.log_message = [](const mg_connection*, const char* message) {
    if (last_message != nullptr) *last_message = text_or_empty(message);
    return 1;
  };
  mg_init_library(0);
  std::string said;
  const std::vector<int> before = listening_on(0);
  last_message = &said;
  impl_->context = mg_start(&callbacks, impl_.get(), options);
  last_message = nullptr;
  if (impl_->context == nullptr) {
    mg_exit_library();
    const int error = bind_error(bound.address);
    throw std::runtime_error(
        fmt::format("metrics on {}: {}", address, error != 0 ? std::generic_category().message(error) : said));
  }
  for (const int listener : listening_on(port())) {
    if (std::find(before.begin(), before.end(), listener) == before.end()) impl_->listeners.push_back(listener);
  }
}

// civetweb checks for a stop only when a listening socket wakes it, or after two seconds. So its listeners are shut
// down; a connection to them, which would also wake it, may be forbidden (cli/system_call_filter.hpp).
HttpServer::~HttpServer() {
  for (const int listener : impl_->listeners) shutdown(listener, SHUT_RDWR);
  mg_stop(impl_->context);
  mg_exit_library();
}

int HttpServer::port() const noexcept {
  mg_server_port port{};
  return mg_get_server_ports(impl_->context, 1, &port) == 1 ? port.port : 0;
}

}  // namespace tandem::monitor
