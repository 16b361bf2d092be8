// The monitoring endpoint: `/` the live page, `/metrics` for Prometheus (`/metrics/memcached`: under
// memcached_exporter's names), `/api/status` the page's numbers as JSON, `/healthz`: 200 while clients are served, 503
// before.
//
// Threads: one that samples the server's numbers each second, and the HTTP server's. They read counters, take the
// sketches' locks for microseconds, and never block a worker.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "monitor/history.hpp"
#include "monitor/http_server.hpp"
#include "monitor/token.hpp"
#include "net/log.hpp"

namespace tandem::monitor {

inline constexpr std::size_t page_keys = 10;  // hot and big keys shown

class Monitor {
 public:
  // Answers requests at once, before there is data. token_file: with the token to ask for; empty: none is asked for.
  // Throws what HttpServer and Token throw.
  Monitor(const std::string& address, const std::string& token_file, std::string version, std::string commit);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  // Called once. `server` outlives the monitor.
  void watch(net::Telemetry& server);
  int port() const noexcept { return http_.port(); }
  // Reads the token's file again, and returns the result as a line for the log; nothing without such a file. Any
  // thread.
  std::optional<net::LogLine> reload();

 private:
  HttpReply answer(std::string_view path, std::string_view query_string);
  void note(const net::Telemetry& server);
  void run(net::Telemetry& server);

  const std::string version_, commit_;
  std::optional<Token> token_;
  std::atomic<net::Telemetry*> server_{nullptr};
  std::mutex mutex_;  // guards the next three
  std::condition_variable wakeup_;
  bool stopping_ = false;
  History history_;
  std::thread thread_;
  HttpServer http_;  // destroyed first: its threads use the rest
};

}  // namespace tandem::monitor
