#include "bench/compare/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <utility>

#include "bench/compare/peers.hpp"

namespace tandem::bench {
namespace {

constexpr std::array metrics{Metric{"server_cpu_us_per_op", true, "server/cpu_us_per_op"},
                             Metric{"ops_per_s", false, "ops_per_s"},
                             Metric{"latency_p50_us", true, "latency_us/p50"},
                             Metric{"latency_p90_us", true, "latency_us/p90"},
                             Metric{"latency_p99_us", true, "latency_us/p99"},
                             Metric{"latency_p99.9_us", true, "latency_us/p99.9"},
                             Metric{"resident_bytes", true, "server/resident_bytes"},
                             Metric{"energy_uj_per_op", true, "energy/uj_per_op"}};

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

Json spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"low", spread.low}, {"high", spread.high}};
}

}  // namespace

std::span<const Metric> all_metrics() { return metrics; }

const Metric& metric(std::string_view name) {
  const auto* const found = std::ranges::find(metrics, name, &Metric::name);
  if (found == metrics.end()) throw std::invalid_argument(fmt::format("no metric {}", name));
  return *found;
}

std::optional<double> number_at(const Json& run, std::string_view path) {
  const Json* at = &run;
  for (std::string_view rest = path;;) {
    const std::size_t slash = rest.find('/');
    if (!at->is_object()) return std::nullopt;
    const auto found = at->find(std::string(rest.substr(0, slash)));
    if (found == at->end()) return std::nullopt;
    at = &*found;
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  return at->is_number() ? std::optional(at->get<double>()) : std::nullopt;
}

std::optional<double> value_of(const Json& run, const Metric& metric) {
  return number_at(run, fmt::format("result/{}", metric.path));
}

Results::Results(const Json& runs, std::string_view phase) {
  // Subjects keep their order within cells, whichever begins a round: that of the names' numbers.
  std::multimap<int, std::string> places;  // equal ones in the order of their runs
  for (const Json& run : runs) {
    if (run.value("phase", "") != phase) continue;
    runs_.push_back(&run);
    add_once(cells_, run.at("cell").get<std::string>());
    places.emplace(run.value("place", 0), run.at("subject").get<std::string>());
  }
  for (const auto& [place, subject] : places) add_once(subjects_, subject);
}

std::vector<const Json*> Results::runs_of(std::string_view cell, std::string_view subject) const {
  std::vector<const Json*> found;
  for (const Json* run : runs_)
    if ((*run)["cell"] == cell && (*run)["subject"] == subject) found.push_back(run);
  return found;
}

std::map<int, double> Results::by_round(std::string_view cell, std::string_view subject, const Metric& metric) const {
  std::map<int, double> values;
  for (const Json* run : runs_of(cell, subject))
    if (const auto value = value_of(*run, metric)) values[run->value("round", 0)] = *value;
  return values;
}

std::optional<Spread> Results::spread(std::string_view cell, std::string_view subject, const Metric& metric) const {
  std::vector<double> values;
  for (const auto& [round, value] : by_round(cell, subject, metric)) values.push_back(value);
  if (values.empty()) return std::nullopt;
  return spread_of(std::move(values));
}

std::optional<Results::Ratio> Results::ratio(std::string_view cell, std::string_view subject, std::string_view base,
                                             const Metric& metric) const {
  const std::map<int, double> bases = by_round(cell, base, metric);
  std::vector<double> ratios;
  for (const auto& [round, value] : by_round(cell, subject, metric)) {
    const auto other = bases.find(round);
    if (other != bases.end() && other->second > 0) ratios.push_back(value / other->second);
  }
  if (ratios.empty()) return std::nullopt;
  const std::size_t rounds = ratios.size();
  return Ratio{spread_of(std::move(ratios)), rounds};
}

std::vector<std::pair<std::string, std::string>> pairs_to_compare(std::span<const std::string> subjects) {
  std::vector<std::pair<std::string, std::string>> pairs;
  const bool has_floor = std::ranges::find(subjects, floor_name) != subjects.end();
  std::string last;
  for (const std::string& subject : subjects)
    if (subject != floor_name) last = subject;
  if (std::ranges::find(subjects, tandem_name) != subjects.end()) last = tandem_name;
  if (has_floor) {
    for (const std::string& subject : subjects)
      if (subject != floor_name) pairs.emplace_back(subject, floor_name);
  }
  for (const std::string& subject : subjects)
    if (subject != floor_name && subject != last) pairs.emplace_back(last, subject);
  return pairs;
}

Json make_comparisons(const Json& runs, const std::map<std::string, double>& goals) {
  Json comparisons = Json::array();
  for (const std::string_view phase : {phase_closed, phase_equal_rate}) {
    const Results results(runs, phase);
    for (const std::string& cell : results.cells()) {
      for (const auto& [subject, base] : pairs_to_compare(results.subjects())) {
        for (const Metric& metric : metrics) {
          const auto ratio = results.ratio(cell, subject, base, metric);
          if (!ratio) continue;
          Json comparison{{"cell", cell},
                          {"phase", phase},
                          {"metric", metric.name},
                          {"subject", subject},
                          {"base", base},
                          {"ratio", spread_json(ratio->spread)},
                          {"rounds", ratio->rounds},
                          {"better", metric.is_less_better ? "less" : "more"}};
          const auto goal = goals.find(cell);
          if (goal != goals.end() && phase == phase_closed && metric.name == "server_cpu_us_per_op" &&
              subject == tandem_name && base == floor_name)
            comparison["goal"] = goal->second;
          comparisons.push_back(std::move(comparison));
        }
      }
    }
  }
  return comparisons;
}

std::map<std::string, double> goals_of(const Json& comparisons) {
  std::map<std::string, double> goals;
  for (const Json& comparison : comparisons)
    if (comparison.contains("goal")) goals[comparison.at("cell")] = comparison.at("goal");
  return goals;
}

Json merge_documents(std::vector<Json> documents) {
  Json merged;
  std::map<std::string, double> goals;
  int rounds = 0;
  for (Json& document : documents) {
    const bool has_phase = document.contains("runs") && std::ranges::any_of(document["runs"], [](const Json& run) {
                             return run.is_object() && run.contains("phase");
                           });
    if (!has_phase) throw std::invalid_argument("a document holds no run of `tandem bench compare`");
    goals.merge(goals_of(document.value("comparisons", Json::array())));
    int rounds_after = rounds;
    for (Json& run : document["runs"]) {
      run["round"] = run.value("round", 0) + rounds;
      rounds_after = std::max(rounds_after, run["round"].get<int>() + 1);
    }
    rounds = rounds_after;
    if (merged.is_null()) {
      merged = std::move(document);
      continue;
    }
    const std::size_t runs_before = merged["runs"].size();
    merged["command"] = fmt::format("{}; {}", merged.value("command", ""), document.value("command", ""));
    for (Json& run : document["runs"]) merged["runs"].push_back(std::move(run));
    for (Json& search : document["searches"]) {
      for (Json& index : search["tried"]) index = index.get<std::size_t>() + runs_before;
      merged["searches"].push_back(std::move(search));
    }
    for (Json& note : document["notes"])
      if (std::ranges::find(merged["notes"], note) == merged["notes"].end()) merged["notes"].push_back(std::move(note));
  }
  merged["comparisons"] = make_comparisons(merged["runs"], goals);
  return merged;
}

}  // namespace tandem::bench
