// A small HTTP server for read-only pages: GET and HEAD of fixed paths. Uses civetweb, which reads a request under one
// time limit for the whole of it, in a fixed number of threads.
//
// Thread safety: the handler is called on the server's threads, several at a time.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tandem::monitor {

// Limits for all clients.
inline constexpr int http_threads = 4;
inline constexpr int http_queue = 16;            // connections that wait for a thread; more wait in the kernel
inline constexpr int http_request_ms = 5000;     // for receiving a whole request, and for sending a reply
inline constexpr int http_request_bytes = 8192;  // of the request line and headers; longer ones are refused

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpServer {
 public:
  using Handler = std::function<HttpReply(std::string_view path, std::string_view query_string)>;
  // Whether a client with this Authorization header (empty: none) may see the path.
  using Permission = std::function<bool(std::string_view path, std::string_view authorization)>;

  // address: "127.0.0.1:9150", "[::1]:9150", "localhost:9150", "*:9150"; port 0 means any. Throws std::invalid_argument
  // for an invalid address, std::runtime_error when it cannot be bound.
  // permission: nullptr shows everything to every client.
  HttpServer(const std::string& address, Handler handler, Permission permission = nullptr);
  ~HttpServer();  // waits for the requests in flight
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  int port() const noexcept;  // the port that was bound

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Whether a request with this Host header may have come from one of our pages. When only this machine can reach the
// server, a name other than this machine's means that a foreign page had its own name resolved to a local address.
bool is_host_of_loopback(std::string_view host) noexcept;

}  // namespace tandem::monitor
