// What a run of the load generator counts, and the window of time in which it counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "clock.hpp"
#include "histogram.hpp"
#include "wire.hpp"

namespace tandem::bench {

struct RunOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 11211;
  uint32_t connections = 1;  // UDP: sockets
  double seconds = 1;
  double warmup_s = 0.1;
  double timeout_s = 5;
  uint64_t op_limit = 0;  // stop after so many operations instead of after `seconds`
  double rate_per_s = 0;  // operations; 0: closed loop
  bool spin = false;      // never sleep, so that the server never pays for waking the client
};

// Counts replies. Operations and the server's CPU time are those of the window [warm-up end, end); latencies are of the
// requests that started in it, whenever they were answered. Errors count from the start to the end of the run.
// Thread safety: none.
class Recorder {
 public:
  Recorder(const RunOptions& options, pid_t server) : options_(options), meter_(server) {}

  void start(uint64_t now) {
    if (options_.op_limit == 0) {
      open_ns_ = now + static_cast<uint64_t>(options_.warmup_s * 1e9);
      close_ns_ = open_ns_ + static_cast<uint64_t>(options_.seconds * 1e9);
    } else {
      open_ns_ = now;
      close_ns_ = UINT64_MAX;
    }
    progress_ns_ = now;
    tick(now);
  }

  // Call often. Returns whether the window is still open, or yet to open.
  bool tick(uint64_t now) {
    if (!opened_ && now >= open_ns_) {
      opened_ = true;
      first_ = snapshot(now);
    }
    if (!closed_ && now >= close_ns_) close(now);
    return !closed_;
  }

  void close(uint64_t now) {
    if (closed_) return;
    closed_ = true;
    last_ = snapshot(now);
  }

  // When the window ends: an open loop sends what is due before.
  uint64_t close_ns() const { return close_ns_; }

  void reply(const Request& request, uint32_t hits, uint64_t now) {
    if (request.kind == RequestKind::set) {
      ++sets_;
    } else {
      gets_ += request.key_count;
      misses_ += request.key_count - hits;
    }
    progress_ns_ = now;
    add_latency(request, now);
  }

  // How long after its intended time an open loop's batch left: a delay that is the client's, not the server's.
  void sent_late(uint64_t intended, uint64_t now) {
    if (intended >= open_ns_ && intended < close_ns_) lag_.add(now - intended);
  }

  void wrong(std::string_view what, std::string_view reply = {}) {
    ++wrong_;
    if (!error_.empty()) return;
    error_ = what;
    if (reply.empty()) return;
    error_ += ": ";
    for (const char c : reply.substr(0, 80)) error_ += c >= ' ' && c <= '~' ? c : '.';
  }

  // No reply: an error, and a latency of as long as the client has waited.
  void timed_out(const Request& request, uint64_t now) {
    ++timeouts_;
    progress_ns_ = now;
    if (error_.empty()) error_ = "no reply";
    add_latency(request, now);
  }

  bool stalled(uint64_t now) const {
    return now > progress_ns_ && static_cast<double>(now - progress_ns_) > options_.timeout_s * 1e9;
  }

  uint64_t gets() const { return gets_; }
  uint64_t sets() const { return sets_; }
  uint64_t misses() const { return misses_; }
  uint64_t wrong_replies() const { return wrong_; }
  uint64_t timeouts() const { return timeouts_; }
  const std::string& error() const { return error_; }
  const Histogram& latency() const { return latency_; }
  const Histogram& lag() const { return lag_; }

  uint64_t window_ops() const { return last_.ops - first_.ops; }
  double window_s() const { return static_cast<double>(last_.time_ns - first_.time_ns) * 1e-9; }
  uint64_t window_server_cpu_ns() const { return last_.server.cpu_ns - first_.server.cpu_ns; }
  uint64_t window_server_sleeps() const { return last_.server.sleeps - first_.server.sleeps; }
  uint64_t window_client_cpu_ns() const { return last_.client_cpu_ns - first_.client_cpu_ns; }

 private:
  struct Snapshot {
    uint64_t time_ns = 0;
    uint64_t ops = 0;
    ProcessUse server;
    uint64_t client_cpu_ns = 0;
  };

  void add_latency(const Request& request, uint64_t now) {
    if (request.start_ns < open_ns_ || request.start_ns >= close_ns_) return;
    latency_.add(now > request.start_ns ? now - request.start_ns : 0, request.key_count);
  }

  Snapshot snapshot(uint64_t now) const { return {now, gets_ + sets_, meter_.read(), own_cpu_ns()}; }

  RunOptions options_;
  ProcessMeter meter_;
  uint64_t open_ns_ = 0;
  uint64_t close_ns_ = 0;
  uint64_t progress_ns_ = 0;
  bool opened_ = false;
  bool closed_ = false;
  Snapshot first_;
  Snapshot last_;
  uint64_t gets_ = 0;
  uint64_t sets_ = 0;
  uint64_t misses_ = 0;
  uint64_t wrong_ = 0;
  uint64_t timeouts_ = 0;
  std::string error_;
  Histogram latency_;
  Histogram lag_;
};

// When the batches of a run start. Closed loop: always now. Open loop: at fixed intervals from the start on, whatever
// the server does.
class Schedule {
 public:
  Schedule(double rate_per_s, double ops_per_batch, uint64_t start)
      : interval_ns_(rate_per_s > 0 ? ops_per_batch / rate_per_s * 1e9 : 0), start_ns_(start) {}

  bool is_open_loop() const { return interval_ns_ > 0; }
  uint64_t next_ns() const { return start_ns_ + static_cast<uint64_t>(interval_ns_ * static_cast<double>(sent_)); }
  void advance() { ++sent_; }

 private:
  double interval_ns_;
  uint64_t start_ns_;
  uint64_t sent_ = 0;
};

}  // namespace tandem::bench
