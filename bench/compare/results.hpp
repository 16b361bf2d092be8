// Evaluates the runs of a document: figures of each server in each cell, and ratios taken within a round.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/document.hpp"
#include "bench/common/statistics.hpp"

namespace tandem::bench {

// The purpose of a run: RUN's "phase".
inline constexpr std::string_view phase_closed = "closed";  // as fast as replies come
inline constexpr std::string_view phase_equal_rate = "equal rate";
inline constexpr std::string_view phase_sweep = "sweep";
inline constexpr std::string_view phase_search = "search";

struct Metric {
  std::string_view name;
  bool is_less_better;
  // Path in a run's "result", words separated by /.
  std::string_view path;
};
// server_cpu_us_per_op, ops_per_s, latency_p50_us .. latency_p99.9_us, resident_bytes, energy_uj_per_op.
std::span<const Metric> all_metrics();
const Metric& metric(std::string_view name);
std::optional<double> value_of(const Json& run, const Metric& metric);
std::optional<double> number_at(const Json& run, std::string_view path);

// Of the runs of one phase. Thread safety: immutable; the runs must outlive it.
class Results {
 public:
  Results(const Json& runs, std::string_view phase);

  // In the order of their first run; subjects in the order of all cells together.
  const std::vector<std::string>& cells() const noexcept { return cells_; }
  const std::vector<std::string>& subjects() const noexcept { return subjects_; }

  std::vector<const Json*> runs_of(std::string_view cell, std::string_view subject) const;
  // Nothing when no run has the metric.
  std::optional<Spread> spread(std::string_view cell, std::string_view subject, const Metric& metric) const;
  // Median of the ratios of rounds that have both, with the number of rounds.
  struct Ratio {
    Spread spread;
    std::size_t rounds;
  };
  std::optional<Ratio> ratio(std::string_view cell, std::string_view subject, std::string_view base,
                             const Metric& metric) const;

 private:
  std::map<int, double> by_round(std::string_view cell, std::string_view subject, const Metric& metric) const;

  std::vector<const Json*> runs_;
  std::vector<std::string> cells_, subjects_;
};

// The ratios to form: each subject over the floor, and Tandem (without it the last) over each other one.
std::vector<std::pair<std::string, std::string>> pairs_to_compare(std::span<const std::string> subjects);

// The document's "comparisons", of its closed and equal-rate runs. `goals`: of cells, on Tandem's CPU time over the
// floor's.
Json make_comparisons(const Json& runs, const std::map<std::string, double>& goals);

// The goals back from "comparisons".
std::map<std::string, double> goals_of(const Json& comparisons);

// Merges several documents: rounds and indices of later ones are moved behind those of earlier ones, ratios are
// computed again. Throws std::invalid_argument when one has no runs of a comparison.
Json merge_documents(std::vector<Json> documents);

}  // namespace tandem::bench
