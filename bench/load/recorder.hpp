// Counts of a thread of a run, and the time window in which it counts.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process_meter.hpp"
#include "bench/load/histogram.hpp"
#include "bench/load/plan.hpp"
#include "bench/load/request.hpp"

namespace tandem::load {

struct Counts {
  std::array<std::uint64_t, workload::op_kind_count> ops{};  // answered, by kind
  std::uint64_t gets = 0, hits = 0;                          // keys read, those of read-modify-writes included
  std::uint64_t other_keys = 0;                              // getk: answers for another key, neither hits nor misses
  std::uint64_t sets = 0;  // values written, including those of read-modify-writes and inserts
  std::uint64_t scan_items = 0, scans_cut = 0;
  std::uint64_t scan_missing_keys = 0;  // keys that belong into scans and were not in them
  std::uint64_t bytes_sent = 0, bytes_received = 0;

  std::uint64_t of(workload::OpKind kind) const noexcept { return ops[static_cast<std::size_t>(kind)]; }
  std::uint64_t all_ops() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t n : ops) sum += n;
    return sum;
  }
  Counts& operator+=(const Counts& other) noexcept;
  Counts& operator-=(const Counts& other) noexcept;
};

struct Errors {
  std::uint64_t wrong_values = 0, wrong_replies = 0, unexpected_misses = 0, timeouts = 0, connection = 0;
  std::string first;
  std::uint64_t first_ns = UINT64_MAX;  // when
  // If the first is a value of another size than this run's: that size, and this run's.
  std::uint32_t other_bytes = 0, wanted_bytes = 0;

  bool none() const noexcept { return wrong_values + wrong_replies + unexpected_misses + timeouts + connection == 0; }
  void add(const Errors& other);
};

// Latencies that ended within one interval of the window: counts by the histogram's bucket.
using Interval = std::vector<std::pair<std::uint32_t, std::uint64_t>>;

// The window and its intervals. Thread safety: immutable.
struct Window {
  std::uint64_t open_ns = 0, close_ns = UINT64_MAX;  // UINT64_MAX: until there is nothing more to do
  std::uint64_t interval_ns = 100'000'000;

  static Window of(const Options& options, std::uint64_t start_ns);
};

// Operations, bytes and CPU time are those of the window; latencies are of the requests that started in it, whenever
// they were answered. Errors count from the start to the end of the run.
// Thread safety: one thread uses it; progress() may be read by any.
class Recorder {
 public:
  // `at_edge`, if any, is called when the window opens (true) and closes (false).
  Recorder(const Plan& plan, std::function<void(bool)> at_edge);
  // Called before anything else.
  void begin(const Window& window) noexcept;

  // Called often. Returns whether the window is open, or yet to open.
  bool tick(std::uint64_t now) {
    if (now >= next_edge_ns_) reach_edge(now);
    return !closed_;
  }
  void close(std::uint64_t now);

  void sent(std::size_t bytes) noexcept { counts_.bytes_sent += bytes; }
  void received(std::size_t bytes) noexcept { counts_.bytes_received += bytes; }
  // A complete reply, possibly with a wrong value. `data` begins with it.
  void reply(const Request& request, const ReplyCheck& checked, std::string_view data, std::uint64_t now);
  // How late an open loop's batch was sent: a delay of the client, not of the server.
  void sent_late(std::uint64_t due, std::uint64_t now) {
    if (due >= window_.open_ns && due < window_.close_ns) lag_.add(now - due);
  }

  // Errors. A request without an answer gets the client's waiting time as its latency.
  // `from`: where in `data` the fault is.
  void wrong_reply(const Request* request, std::string_view what, std::string_view data, std::size_t from = 0);
  void timed_out(const Request& request, std::uint64_t now, std::string_view why);
  // For an open loop, due from `due` to the end of the window at a constant rate.
  void never_sent(std::uint64_t ops, std::uint64_t due, std::uint64_t now);
  void connection_failed(std::string_view what);
  bool has_errors() const noexcept { return !errors_.none(); }

  std::uint64_t progress() const noexcept { return progress_.load(std::memory_order_relaxed); }

  // Valid after close().
  Counts window_counts() const noexcept;
  std::uint64_t close_ns() const noexcept { return window_.close_ns; }  // when an open loop ends
  std::uint64_t opened_ns() const noexcept { return opened_ns_; }
  std::uint64_t closed_ns() const noexcept { return closed_ns_; }
  std::uint64_t window_cpu_ns() const noexcept { return cpu_at_close_ns_ - cpu_at_open_ns_; }
  const Errors& errors() const noexcept { return errors_; }
  const Histogram* latency(workload::OpKind kind) const noexcept {
    return latency_[static_cast<std::size_t>(kind)].get();
  }
  const Histogram& lag() const noexcept { return lag_; }
  const std::vector<Interval>& intervals() const noexcept { return intervals_; }

 private:
  static constexpr std::size_t intervals_max = 100'000;

  void reach_edge(std::uint64_t now);
  void end_interval();
  void skip_intervals(std::uint64_t now);
  void add_latency(const Request& request, std::uint64_t now, std::uint64_t count);
  void note(std::string text);
  struct OtherSize {
    std::uint32_t bytes, wanted;
  };
  std::optional<OtherSize> other_size(const Request& request, std::string_view data) const;
  std::string describe(const Request* request, std::string_view what, std::string_view data,
                       std::size_t from = 0) const;

  const Plan& plan_;
  Window window_;
  const std::function<void(bool)> at_edge_;
  Counts counts_, at_open_, at_close_;
  bool opened_ = false, closed_ = false;
  std::uint64_t opened_ns_ = 0, closed_ns_ = 0, next_edge_ns_ = 0;
  std::uint64_t cpu_at_open_ns_ = 0, cpu_at_close_ns_ = 0;
  Errors errors_;
  std::array<std::unique_ptr<Histogram>, workload::op_kind_count> latency_;
  Histogram lag_;
  std::vector<std::uint64_t> at_interval_;  // the latencies' buckets when the last interval ended
  std::vector<Interval> intervals_;
  alignas(64) std::atomic<std::uint64_t> progress_{0};
};

// Bytes for a message: printable ASCII as it is, \r and \n, other bytes as \xNN, cut after `bytes_max`.
std::string shown_bytes(std::string_view bytes, std::size_t bytes_max = 160);

}  // namespace tandem::load
