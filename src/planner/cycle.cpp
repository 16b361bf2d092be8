#include "planner/cycle.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace tandem {
namespace {

// The inequality's two sides as `launches + queries * V * C <= cycles * C`: (1) for n >= 2, C >= T_S + T_I for n = 1.
struct Sides {
  double launches_ns, queries_ns, cycles;
};

Sides sides_of(const CycleModel& m) noexcept {
  const double searches = m.search.query_ns * m.get_share, changes = m.change.query_ns * (1 - m.get_share);
  if (m.change_cycles < 2) return {m.search.launch_ns + m.change.launch_ns, searches + changes, 1};
  return {2 * m.search.launch_ns + m.change.launch_ns, 2 * searches + m.change_cycles * changes, 2};
}

constexpr double us_in_ns = 1e3, million_per_s = 1e3;  // a query per ns is a thousand million per second

}  // namespace

LaunchFit fit_line(std::span<const LaunchSample> samples) noexcept {
  const auto n = static_cast<double>(samples.size());
  double x_mean = 0, y_mean = 0;
  for (const LaunchSample& s : samples) {
    x_mean += s.queries / n;
    y_mean += s.ns / n;
  }
  double xx = 0, xy = 0, yy = 0;
  for (const LaunchSample& s : samples) {
    xx += (s.queries - x_mean) * (s.queries - x_mean);
    xy += (s.queries - x_mean) * (s.ns - y_mean);
    yy += (s.ns - y_mean) * (s.ns - y_mean);
  }
  LaunchFit fit;
  fit.line.query_ns = std::max(xy / xx, 0.0);
  fit.line.launch_ns = std::max(y_mean - fit.line.query_ns * x_mean, 0.0);
  double errors = 0;
  for (const LaunchSample& s : samples) {
    const double error = s.ns - fit.line.of(s.queries);
    errors += error * error;
  }
  fit.r2 = yy > 0 ? 1 - errors / yy : 1;
  return fit;
}

std::optional<double> cycle_min_ns(const CycleModel& model, double queries_per_ns) noexcept {
  const Sides sides = sides_of(model);
  const double left = sides.cycles - sides.queries_ns * queries_per_ns;
  if (!(left > 0)) return std::nullopt;
  return sides.launches_ns / left;
}

double rate_max(const CycleModel& model, double cycle_ns) noexcept {
  const Sides sides = sides_of(model);
  const double left_ns = sides.cycles * cycle_ns - sides.launches_ns;
  if (!(left_ns > 0)) return 0;
  if (!(sides.queries_ns > 0)) return std::numeric_limits<double>::infinity();
  return left_ns / (sides.queries_ns * cycle_ns);
}

std::chrono::microseconds choose_cycle(const CycleModel& model, double queries_per_ns,
                                       std::chrono::microseconds latency, std::chrono::microseconds cycle_max) {
  const std::chrono::microseconds cycle = std::min(latency / cycles_of_a_get, cycle_max);
  const std::optional<double> least_ns = cycle_min_ns(model, queries_per_ns);
  std::ostringstream why;
  why << std::setprecision(4);
  const auto rate = [&]() -> std::ostream& {
    return why << queries_per_ns * million_per_s << " million queries per second";
  };
  if (!least_ns) {
    const Sides sides = sides_of(model);
    why << "this GPU cannot serve ";
    rate() << " (" << 100 * model.get_share << " % GET) with any cycle: it serves less than "
           << sides.cycles / sides.queries_ns * million_per_s << " million";
    throw std::invalid_argument(why.str());
  }
  if (cycle.count() < 1 || static_cast<double>(cycle.count()) * us_in_ns < *least_ns) {
    const auto least_us = static_cast<std::int64_t>(std::clamp(std::ceil(*least_ns / us_in_ns), 1.0, 1e15));
    why << "a third of " << latency.count() << " us is too short a cycle: this GPU needs one of at least " << least_us
        << " us at ";
    if (queries_per_ns > 0) {
      rate();
    } else {
      why << "any rate";
    }
    why << " (" << 100 * model.get_share << " % GET), ";
    if (least_us > cycle_max.count()) {
      why << "and a cycle has at most " << cycle_max.count() << " us";
    } else {
      why << "so that GETs are answered within " << least_us * cycles_of_a_get << " us";
    }
    throw std::invalid_argument(why.str());
  }
  return cycle;
}

}  // namespace tandem
