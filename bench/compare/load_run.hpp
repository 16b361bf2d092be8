// Runs of the load generator as documents and as text.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "bench/common/document.hpp"
#include "bench/common/energy.hpp"
#include "bench/load/run.hpp"

namespace tandem::bench {

struct RunLabel {
  std::string cell;     // of a matrix of loads, such as text-p16
  std::string subject;  // what was loaded
  int round = 0;
  std::string command;  // the whole command line
};

// A RUN of kind "load" (docs/bench-format.md).
// `energy`: of the window, if it was measured.
Json describe_load_run(const RunLabel& label, const load::Options& options, const load::Result& result,
                       const std::optional<Energy>& energy = std::nullopt);

// {"count", "min", "mean", "p50", ... "max"} in microseconds.
Json describe_latency(const load::Histogram& histogram);

// The main results in some lines, for users.
std::string summarize_load_run(const load::Options& options, const load::Result& result);

// "3 wrong values, 1 timeout"; empty without errors.
std::string summarize_errors(const load::Errors& errors);

std::string_view to_string(load::Protocol protocol);

}  // namespace tandem::bench
