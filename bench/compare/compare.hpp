// A comparison: several servers under the same loads in turns.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/child.hpp"
#include "bench/common/document.hpp"
#include "bench/compare/cells.hpp"
#include "bench/compare/peers.hpp"

namespace tandem::bench {

// A server or the load generator failed in a run; what() is for users.
class CompareError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct CompareOptions {
  std::vector<Peer> peers;
  std::vector<Cell> cells;

  int rounds = 5;                  // of closed loops
  int tail_rounds = 5;             // at an equal rate
  double tail_load = 0.5;          // that rate, as a share of the slowest store's
  int sweep_points = 0;            // rates up to the closed loop's
  std::optional<double> limit_us;  // search the highest rate within it
  double percentile = 99.9;
  double tolerance = 0.05;
  int trials = 3;

  double seconds = 1, warmup_s = 0.1;
  std::uint64_t seed = 1;
  std::string distribution = "zipf";
  double theta = 0.99;
  bool spin = true;  // the load generator never sleeps, so no server pays for waking it

  std::uint64_t memory_mib = 1024;
  unsigned threads = 1;       // of each server
  unsigned load_threads = 0;  // 0: one for each of `load_processors`
  std::vector<int> server_processors, load_processors;
  double start_timeout_s = 10;

  std::function<void(std::string_view)> log;
  // Runs the load generator; tests replace it.
  std::function<ProgramResult(const std::vector<std::string>& command, const std::vector<int>& processors)> run_load =
      run_program;
};

// Adds runs, comparisons and searches to `document`. Returns what failed, "CELL: SERVER: why", which is among its
// notes, too: a failure ends only what its server does in that cell. Throws Interrupted; what was done until then is in
// `document`.
std::vector<std::string> compare(const CompareOptions& options, Json& document);

}  // namespace tandem::bench
