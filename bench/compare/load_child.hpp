// One run of the load generator as a separate program, and its result for a server.
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
  bool preload = false;  // only set every key
};

// The command line of a run. `processes`: the server's, to measure their CPU time.
std::vector<std::string> load_command(const CompareOptions& options, const Cell& cell, Dialect dialect,
                                      std::uint16_t port, const std::vector<pid_t>& processes, const LoadRun& run);

// The result of a run.
struct LoadOutcome {
  Json run;  // RUN of the generator's document
  // Timeouts or lost connections, in the generator's words. Empty: none.
  std::string trouble;
};

// Reads the generator's output. Throws CompareError, naming `subject` and `command`, when it failed or saw a wrong
// reply, a miss that must be a hit, or no operation at all.
LoadOutcome read_load_result(const ProgramResult& result, std::string_view subject, std::string_view command);

// Total seconds that the processors have been busy since the machine started.
double busy_s(const std::vector<int>& processors);

}  // namespace tandem::bench
