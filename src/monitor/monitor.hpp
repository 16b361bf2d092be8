// The monitoring endpoint: `/` the live page, `/metrics` for Prometheus, `/api/status` the page's numbers as JSON.
//
// Threads: one that notes the server's numbers each second, and the HTTP server's. They read counters, take the
// sketches' locks for microseconds, and touch nothing that a worker waits for.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "monitor/history.hpp"
#include "monitor/http_server.hpp"

namespace tandem::monitor {

inline constexpr std::size_t page_keys = 10;  // hot and big keys shown

class Monitor {
 public:
  // Serves at once. `server` outlives the monitor. Throws what HttpServer throws.
  Monitor(const std::string& address, net::Observer& server, std::string version);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  int port() const noexcept { return http_->port(); }

 private:
  HttpReply answer(std::string_view path, std::string_view query_string);
  void note();
  void run();

  net::Observer& server_;
  const std::string version_;
  std::mutex mutex_;  // guards the next three
  std::condition_variable wakeup_;
  bool stopping_ = false;
  History history_;
  std::optional<HttpServer> http_;
  std::thread thread_;
};

}  // namespace tandem::monitor
