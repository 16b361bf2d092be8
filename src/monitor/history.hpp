// The last five minutes of the server, one point a second, and the last hour, one point each ten seconds, so that a
// newly opened page has data to show.
//
// Thread safety: one thread at a time (Monitor holds a lock).
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "operate/telemetry.hpp"

namespace tandem::monitor {

// The server's activity in one interval.
struct Point {
  double time_s = 0;      // Unix time of its end
  double interval_s = 0;  // its length
  double gets_per_s = 0, hits_per_s = 0, stores_per_s = 0, others_per_s = 0, evictions_per_s = 0;
  double received_bytes_per_s = 0, sent_bytes_per_s = 0;
  double p50_us = 0, p99_us = 0, p999_us = 0;  // of all commands; 0: none was recorded
  std::uint64_t items = 0, memory_used_bytes = 0, connections = 0;

  double requests_per_s() const noexcept { return gets_per_s + stores_per_s + others_per_s; }
};

// A command in the last History::window_intervals.
struct CommandRecent {
  double per_s = 0;
  HistogramTotals ticks;
};

// Beside an index on devices alone: queries that the host answered by its hot keys, and all others.
struct HotRecent {
  HotLatencyTotals latency;
  std::optional<double> share;  // of the first; nothing: no query was sampled
};

class History {
 public:
  static constexpr std::size_t points_max = 300;
  static constexpr std::size_t window_intervals = 10;
  static constexpr std::size_t coarse_points_max = 360;
  using Time = std::chrono::steady_clock::time_point;

  // Adds the server's numbers at `now`. The first call only provides the reference for the next.
  void add(net::ServerSnapshot snapshot, Time now, double unix_s);

  bool empty() const noexcept { return moments_.empty(); }
  const net::ServerSnapshot& latest() const noexcept { return latest_; }  // REQUIRES: !empty()
  const std::deque<Point>& points() const noexcept { return points_; }
  std::uint64_t points_ever() const noexcept { return points_ever_; }
  // One for every window_intervals points, at the end of the last of them: their means, and percentiles over all of
  // them. Point number n is the last of coarse point number n / window_intervals.
  const std::deque<Point>& coarse_points() const noexcept { return coarse_points_; }
  std::array<CommandRecent, command_count> recent_commands() const;
  // Tasks' cost in the window, cycles and queries that were sampled.
  std::array<TaskCost, task_count> recent_tasks() const;
  // Which processor ran which tasks in the window; since the start, if none ran in it.
  TasksRan recent_ran() const;
  // Nothing: there is no hot table, or no window of it yet.
  std::optional<HotRecent> recent_hot() const;

 private:
  struct Moment {
    Time time;
    LatencyTotals latency;
    std::array<TaskCost, task_count> tasks;
    TasksRan ran;
    std::optional<HotLatencyTotals> hot;
  };
  void add_point(const net::ServerSnapshot& snapshot, Time now, double unix_s);
  void add_coarse_point();

  std::deque<Moment> moments_;  // the window's
  net::ServerSnapshot latest_;
  std::deque<Point> points_, coarse_points_;
  std::uint64_t points_ever_ = 0;
};

}  // namespace tandem::monitor
