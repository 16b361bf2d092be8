#include "monitor/history.hpp"

#include <algorithm>
#include <utility>

#include "base/ticks.hpp"

namespace tandem::monitor {
namespace {

// Growth of a counter; after `stats reset`, which sets it back, its whole value.
std::uint64_t grown(std::uint64_t before, std::uint64_t now) noexcept { return now >= before ? now - before : now; }

std::uint64_t others(const StoreTotals& c) noexcept {
  return c.delete_hits + c.delete_misses + c.incr_hits + c.incr_misses + c.decr_hits + c.decr_misses + c.touch_hits +
         c.touch_misses;
}

double seconds(History::Time from, History::Time to) noexcept {
  return std::chrono::duration<double>(to - from).count();
}

// Of all commands between the two moments.
void put_percentiles(const LatencyTotals& before, const LatencyTotals& now, Point& point) {
  HistogramTotals all;
  for (std::size_t c = 0; c < command_count; ++c) {
    HistogramTotals h = now.ticks[c];
    h.subtract(before.ticks[c]);
    all.add(h);
  }
  const double tick_us = ns_per_tick() / 1000;
  point.p50_us = all.quantile(0.5) * tick_us;
  point.p99_us = all.quantile(0.99) * tick_us;
  point.p999_us = all.quantile(0.999) * tick_us;
}

}  // namespace

void History::add(net::ServerSnapshot snapshot, Time now, double unix_s) {
  if (!moments_.empty()) add_point(snapshot, now, unix_s);
  moments_.push_back({now, snapshot.latency, snapshot.task_costs, snapshot.ran, std::nullopt});
  if (snapshot.hot) moments_.back().hot = snapshot.hot->latency;
  if (moments_.size() > window_intervals + 1) moments_.pop_front();
  latest_ = std::move(snapshot);
  if (points_ever_ != 0 && points_ever_ % window_intervals == 0) add_coarse_point();
}

void History::add_point(const net::ServerSnapshot& snapshot, Time now, double unix_s) {
  const StoreTotals& was = latest_.engine.counters;
  const StoreTotals& is = snapshot.engine.counters;
  const double passed_s = std::max(seconds(moments_.back().time, now), 1e-3);
  const auto rate = [passed_s](std::uint64_t before, std::uint64_t after) {
    return static_cast<double>(grown(before, after)) / passed_s;
  };
  Point point{.time_s = unix_s,
              .interval_s = passed_s,
              .gets_per_s = rate(was.cmd_get, is.cmd_get),
              .hits_per_s = rate(was.get_hits, is.get_hits),
              .stores_per_s = rate(was.cmd_set, is.cmd_set),
              .others_per_s = rate(others(was), others(is)),
              .evictions_per_s = rate(was.evictions, is.evictions),
              .received_bytes_per_s = rate(latest_.net.bytes_read, snapshot.net.bytes_read),
              .sent_bytes_per_s = rate(latest_.net.bytes_written, snapshot.net.bytes_written),
              .items = snapshot.engine.items,
              .memory_used_bytes = snapshot.engine.memory_used_bytes,
              .connections = snapshot.connections};
  put_percentiles(moments_.back().latency, snapshot.latency, point);
  points_.push_back(point);
  if (points_.size() > points_max) points_.pop_front();
  ++points_ever_;
}

// REQUIRES: the window is full, with points and moments of the last window_intervals.
void History::add_coarse_point() {
  constexpr double Point::* rates[] = {&Point::gets_per_s,      &Point::hits_per_s,      &Point::stores_per_s,
                                       &Point::others_per_s,    &Point::evictions_per_s, &Point::received_bytes_per_s,
                                       &Point::sent_bytes_per_s};
  Point coarse = points_.back();
  coarse.interval_s = 0;
  for (double Point::* const rate : rates) coarse.*rate = 0;
  const auto first = points_.end() - static_cast<std::ptrdiff_t>(window_intervals);
  for (auto p = first; p != points_.end(); ++p) {
    coarse.interval_s += p->interval_s;
    for (double Point::* const rate : rates) coarse.*rate += (*p).*rate * p->interval_s;
  }
  for (double Point::* const rate : rates) coarse.*rate /= coarse.interval_s;
  put_percentiles(moments_.front().latency, moments_.back().latency, coarse);
  coarse_points_.push_back(coarse);
  if (coarse_points_.size() > coarse_points_max) coarse_points_.pop_front();
}

std::array<CommandRecent, command_count> History::recent_commands() const {
  std::array<CommandRecent, command_count> out;
  if (moments_.size() < 2) return out;
  const double passed_s = std::max(seconds(moments_.front().time, moments_.back().time), 1e-3);
  for (std::size_t c = 0; c < command_count; ++c) {
    out[c].ticks = moments_.back().latency.ticks[c];
    out[c].ticks.subtract(moments_.front().latency.ticks[c]);
    out[c].per_s = static_cast<double>(out[c].ticks.count()) / passed_s;
  }
  return out;
}

TasksRan History::recent_ran() const {
  if (moments_.size() < 2) return latest_.ran;
  TasksRan ran = moments_.back().ran;
  const TasksRan& before = moments_.front().ran;
  std::uint64_t any = 0;
  for (std::size_t t = 0; t < task_count; ++t) {
    for (std::size_t p = 0; p < processor_count; ++p) any += ran.queries[t][p] -= before.queries[t][p];
  }
  return any != 0 ? ran : latest_.ran;
}

std::optional<HotRecent> History::recent_hot() const {
  if (moments_.size() < 2 || !moments_.front().hot || !moments_.back().hot) return std::nullopt;
  HotRecent recent{.latency = *moments_.back().hot, .share = std::nullopt};
  recent.latency.hot.subtract(moments_.front().hot->hot);
  recent.latency.cold.subtract(moments_.front().hot->cold);
  const double hot = static_cast<double>(recent.latency.hot.count());
  const double all = hot + static_cast<double>(recent.latency.cold.count());
  if (all != 0) recent.share = hot / all;
  return recent;
}

std::array<TaskCost, task_count> History::recent_tasks() const {
  std::array<TaskCost, task_count> out{};
  if (moments_.size() < 2) return out;
  for (std::size_t t = 0; t < task_count; ++t) {
    out[t].cycles = moments_.back().tasks[t].cycles - moments_.front().tasks[t].cycles;
    out[t].queries = moments_.back().tasks[t].queries - moments_.front().tasks[t].queries;
  }
  return out;
}

}  // namespace tandem::monitor
