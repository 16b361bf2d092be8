// One run of the load generator, as a program of its own, and what it says about a server.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/child.hpp"
#include "bench/common/document.hpp"
#include "bench/compare/cells.hpp"
#include "bench/compare/compare.hpp"
#include "bench/compare/peers.hpp"

namespace tandem::bench {

struct LoadRun {
  double rate = 0;       // 0: closed loop
  bool preload = false;  // set every key and nothing else
};

// The command line of a run. `processes`: the server's, whose CPU time is to be counted.
std::vector<std::string> load_command(const CompareOptions& options, const Cell& cell, Dialect dialect,
                                      std::uint16_t port, const std::vector<pid_t>& processes, const LoadRun& run);

// What became of a run.
struct LoadOutcome {
  Json run;  // RUN of the generator's document
  // Requests without a reply in time, or connections lost; what the generator said. Empty: none.
  std::string trouble;
};

// Reads what the generator left. Throws CompareError, naming `subject` and `command`, when it did not run to its end or
// saw a wrong reply, a miss that must be a hit, or nothing at all.
LoadOutcome read_load_result(const ProgramResult& result, std::string_view subject, std::string_view command);

// Seconds that processors have been busy since the machine started, all together.
double busy_s(const std::vector<int>& processors);

}  // namespace tandem::bench
