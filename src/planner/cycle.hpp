// The cycle of periodic delayed scheduling (Mega-KV 5): searches are launched every C, changes of the index (Insert,
// Delete) every n * C, and everything batched in a cycle must be done by the end of the next one. Times in ns, rates in
// queries per ns.
//
// Source: Mega-KV 5.1, 5.2, 8.2; with n = 1 its "without the delayed scheduling". Departure: the paper writes equation
// 4 for n = 2, here it is for any n.
//
// Thread safety: any thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

namespace tandem {

// T(x) = query_ns * x + launch_ns: the time of a launch of x queries, transfers included.
struct LaunchTime {
  double query_ns = 0;   // k
  double launch_ns = 0;  // b
  constexpr double of(double queries) const noexcept { return query_ns * queries + launch_ns; }
};

struct LaunchSample {
  double queries, ns;
};

struct LaunchFit {
  LaunchTime line;
  double r2 = 0;  // share of the samples' variance that the line explains
};

// The least-squares line. A slope or an intercept below 0, which noise can cause, becomes 0. REQUIRES: two samples of
// different numbers of queries.
LaunchFit fit_line(std::span<const LaunchSample> samples) noexcept;

struct CycleModel {
  LaunchTime search;           // k_S, b_S: of a number of Searches
  LaunchTime change;           // k_I, b_I: of a number of SETs, an Insert and a Delete each
  double get_share = 0.95;     // p_S
  unsigned change_cycles = 2;  // n; 1: nothing is delayed
};

// The maximum latency of a GET in cycles: it is batched in one, searched in the next, and answered in the third.
inline constexpr unsigned cycles_of_a_get = 3;

// The minimum C that serves the rate (equation 2); none: no cycle does.
std::optional<double> cycle_min_ns(const CycleModel& model, double queries_per_ns) noexcept;
// The maximum rate that C serves (equation 4, figure 12); 0: launches alone take longer. Infinity: queries take no
// time.
double rate_max(const CycleModel& model, double cycle_ns) noexcept;

// The longest C (longer ones make larger launches and serve more) that answers every GET within `latency`: at most a
// third of it, in whole microseconds. Rate 0: unknown. Throws std::invalid_argument with the time that the GPU needs,
// when that is more.
std::chrono::microseconds choose_cycle(const CycleModel& model, double queries_per_ns,
                                       std::chrono::microseconds latency, std::chrono::microseconds cycle_max);

}  // namespace tandem
