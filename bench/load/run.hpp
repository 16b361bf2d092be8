// A run of the load generator: its threads, their common counts, and the server's resource use.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/process_meter.hpp"
#include "bench/load/histogram.hpp"
#include "bench/load/options.hpp"
#include "bench/load/recorder.hpp"

namespace tandem::load {

// Results of one interval of the window.
struct TimelinePoint {
  double end_s;  // since the window opened
  double ops_per_s;
  std::uint64_t p50_ns, p99_ns, max_ns;  // of the requests that ended in it; each at most 0.8 % too high
};

struct ServerResult {
  std::uint64_t cpu_ns = 0, sleeps = 0;
  std::optional<std::uint64_t> resident_bytes;  // when the run ended
};

struct Result {
  double seconds = 0;  // as measured
  Counts counts;
  Errors errors;
  Histogram latency;
  std::array<std::unique_ptr<Histogram>, workload::op_kind_count> latency_by_op;  // of those that occurred
  Histogram lag;                                                                  // open loop
  std::vector<TimelinePoint> timeline;
  std::uint64_t client_cpu_ns = 0;
  std::optional<ServerResult> server;

  std::uint64_t ops() const noexcept { return counts.all_ops(); }
  double ops_per_s() const noexcept { return seconds > 0 ? static_cast<double>(ops()) / seconds : 0; }
};

// Called some times a second by the thread that called run(), with the progress (0 to 1) and the operations so far.
using Progress = std::function<void(double share, std::uint64_t ops)>;

// Connects, runs the load, waits for the last replies. Throws std::invalid_argument, std::system_error when it cannot
// begin; later faults of the server are in the result's errors.
std::unique_ptr<Result> run(const Options& options, const Progress& progress = {});

// Sets every key of the workloads once, over TCP or a Unix socket, and, if `options.verify`, reads all back. Of several
// workloads with the same keys only the first counts. Errors as for run().
std::unique_ptr<Result> preload(const Options& options, const Progress& progress = {});

}  // namespace tandem::load
