#include "bench/compare/tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "bench/compare/headline.hpp"
#include "bench/compare/peers.hpp"
#include "bench/compare/rate_search.hpp"
#include "bench/compare/results.hpp"

namespace tandem::bench {
namespace {

constexpr const char* nothing = "-";

using Row = std::vector<std::string>;

std::string table(const Row& header, const std::vector<Row>& rows) {
  std::string text = fmt::format("| {} |\n|---", fmt::join(header, " | "));
  for (std::size_t i = 1; i < header.size(); ++i) text += "|---:";
  text += "|\n";
  for (const Row& row : rows) text += fmt::format("| {} |\n", fmt::join(row, " | "));
  return text;
}

std::string with_spread(const std::optional<Spread>& spread, int digits, double scale = 1) {
  if (!spread) return nothing;
  return fmt::format("{:.{}f} ({:.{}f}-{:.{}f})", spread->median * scale, digits, spread->low * scale, digits,
                     spread->high * scale, digits);
}

std::string pair_ratio_text(const Results& results, const std::string& cell,
                            const std::pair<std::string, std::string>& pair, const Metric& metric) {
  const auto ratio = results.ratio(cell, pair.first, pair.second, metric);
  return ratio ? fmt::format("{:.2f}", ratio->spread.median) : nothing;
}

// One metric of all cells and subjects, then ratios, with the goals after those over the floor.
std::string metric_table(const Results& results, const Metric& metric, std::string_view unit, int digits,
                         const std::map<std::string, double>& goals, const Row& more_header = {},
                         const std::map<std::string, std::string>& more = {}) {
  const auto pairs = pairs_to_compare(results.subjects());
  Row header{"cell"};
  header.insert(header.end(), more_header.begin(), more_header.end());
  for (const std::string& subject : results.subjects()) header.push_back(fmt::format("{}, {}", subject, unit));
  const bool has_goals =
      std::ranges::any_of(results.cells(), [&](const auto& cell) { return goals.contains(cell); }) &&
      std::ranges::find(pairs, std::pair<std::string, std::string>{tandem_name, floor_name}) != pairs.end();
  for (const auto& [subject, base] : pairs) {
    header.push_back(fmt::format("{} / {}", subject, base));
    if (has_goals && subject == tandem_name && base == floor_name) header.emplace_back("goal");
  }
  std::vector<Row> rows;
  for (const std::string& cell : results.cells()) {
    Row row{cell};
    if (!more_header.empty()) row.push_back(more.contains(cell) ? more.at(cell) : nothing);
    for (const std::string& subject : results.subjects())
      row.push_back(with_spread(results.spread(cell, subject, metric), digits));
    for (const auto& pair : pairs) {
      row.push_back(pair_ratio_text(results, cell, pair, metric));
      if (has_goals && pair.first == tandem_name && pair.second == floor_name)
        row.push_back(goals.contains(cell) ? fmt::format("<= {:.2f}", goals.at(cell)) : nothing);
    }
    rows.push_back(std::move(row));
  }
  return table(header, rows);
}

bool has_metric(const Results& results, const Metric& metric) {
  for (const std::string& cell : results.cells())
    for (const std::string& subject : results.subjects())
      if (results.spread(cell, subject, metric)) return true;
  return false;
}

std::string render_closed(const Json& document) {
  const Results results(document["runs"], phase_closed);
  if (results.cells().empty()) return "";
  const auto goals = goals_of(document.value("comparisons", Json::array()));
  std::string text;
  if (has_metric(results, metric("server_cpu_us_per_op")))
    text +=
        "\nCPU time of the server's processes per operation: median (least-most) of the rounds, ratios within a "
        "round.\n\n" +
        metric_table(results, metric("server_cpu_us_per_op"), "us/op", 3, goals);
  text += "\nOperations per second, each connection as fast as its replies come: median (least-most).\n\n" +
          metric_table(results, metric("ops_per_s"), "ops/s", 0, {});
  if (has_metric(results, metric("energy_uj_per_op")))
    text += "\nEnergy per operation.\n\n" + metric_table(results, metric("energy_uj_per_op"), "uJ/op", 3, {});

  Row header{"cell"};
  for (const std::string& subject : results.subjects()) header.push_back(fmt::format("{}, us", subject));
  std::vector<Row> rows;
  for (const std::string& cell : results.cells()) {
    Row row{cell};
    for (const std::string& subject : results.subjects()) {
      std::string percentiles;
      for (const char* name : {"latency_p50_us", "latency_p90_us", "latency_p99_us", "latency_p99.9_us"}) {
        const auto spread = results.spread(cell, subject, metric(name));
        percentiles += fmt::format("{}{}", percentiles.empty() ? "" : " / ",
                                   spread ? fmt::format("{:.0f}", spread->median) : nothing);
      }
      row.push_back(results.runs_of(cell, subject).empty() ? nothing : percentiles);
    }
    rows.push_back(std::move(row));
  }
  return text + "\nTheir latency, p50 / p90 / p99 / p99.9: medians of the rounds.\n\n" + table(header, rows);
}

std::string render_equal_rate(const Json& document) {
  const Results results(document["runs"], phase_equal_rate);
  if (results.cells().empty()) return "";
  std::map<std::string, std::string> rates;
  for (const Json& run : document["runs"])
    if (run.value("phase", "") == phase_equal_rate)
      if (const auto rate = number_at(run, "settings/rate")) rates[run["cell"]] = fmt::format("{:.0f}", *rate);
  return "\n99.9th percentile of latency at an equal rate, counted from when a request was due: median "
         "(least-most).\n\n" +
         metric_table(results, metric("latency_p99.9_us"), "us", 0, {}, {"ops/s"}, rates);
}

std::string render_sweep(const Json& document) {
  const Results results(document["runs"], phase_sweep);
  std::vector<Row> rows;
  for (const std::string& cell : results.cells()) {
    for (const std::string& subject : results.subjects()) {
      for (const Json* run : results.runs_of(cell, subject)) {
        Row row{cell, subject};
        for (const auto& [path, digits] : {std::pair{"settings/rate", 0},
                                           {"result/ops_per_s", 0},
                                           {"result/latency_us/p50", 0},
                                           {"result/latency_us/p99", 0},
                                           {"result/latency_us/p99.9", 0},
                                           {"result/server/cpu_us_per_op", 3}}) {
          const auto value = number_at(*run, path);
          row.push_back(value ? fmt::format("{:.{}f}", *value, digits) : nothing);
        }
        rows.push_back(std::move(row));
      }
    }
  }
  if (rows.empty()) return "";
  return "\nLatency by rate, counted from when a request was due.\n\n" +
         table({"cell", "server", "ops/s due", "ops/s done", "p50, us", "p99, us", "p99.9, us", "CPU, us/op"}, rows);
}

std::string render_searches(const Json& document) {
  const Json searches = document.value("searches", Json::array());
  if (searches.empty()) return "";
  std::string text = fmt::format(
      "\nThe highest rate at which the percentile {:g} of latency is at most {:g} us, in ops/s; a rate {:g} % higher "
      "did not pass (median of {} runs each).\n\n",
      searches[0].value("percentile", 0.0), searches[0].value("limit_us", 0.0),
      100 * searches[0].value("tolerance", 0.0), searches[0].value("trials", 0));
  std::vector<std::string> cells;
  std::vector<std::string> subjects;
  std::map<std::pair<std::string, std::string>, const Json*> found;
  for (const Json& search : searches) {
    const std::string cell = search.at("cell");
    const std::string subject = search.at("subject");
    if (std::ranges::find(cells, cell) == cells.end()) cells.push_back(cell);
    if (std::ranges::find(subjects, subject) == subjects.end()) subjects.push_back(subject);
    found[{cell, subject}] = &search;
  }
  // A ratio needs values of both sides.
  const auto rate_of = [&](const std::string& cell, const std::string& subject) {
    const auto at = found.find({cell, subject});
    if (at == found.end() || at->second->value("end", "") != to_string(SearchEnd::found))
      return std::optional<double>();
    return number_at(*at->second, "highest_rate");
  };
  const auto pairs = pairs_to_compare(subjects);
  Row header{"cell"};
  for (const std::string& subject : subjects) header.push_back(subject);
  for (const auto& [subject, base] : pairs) header.push_back(fmt::format("{} / {}", subject, base));
  std::vector<Row> rows;
  std::string remarks;
  for (const std::string& cell : cells) {
    Row row{cell};
    for (const std::string& subject : subjects) {
      const auto at = found.find({cell, subject});
      if (at == found.end()) {
        row.emplace_back(nothing);
        continue;
      }
      const std::string end = at->second->value("end", "");
      const double rate = at->second->value("highest_rate", 0.0);
      const bool is_found = end == to_string(SearchEnd::found);
      row.push_back(rate > 0 ? fmt::format("{}{:.0f}", is_found ? "" : ">= ", rate) : "none");
      if (!is_found) remarks += fmt::format("{}, {}: {}.\n", cell, subject, end);
      const int voids = at->second->value("void", 0);
      if (voids > 0)
        remarks += fmt::format("{}, {}: {} of {} runs did not count: {}.\n", cell, subject, voids,
                               at->second->at("tried").size(), at->second->value("void_reason", ""));
    }
    for (const auto& [subject, base] : pairs) {
      const auto mine = rate_of(cell, subject);
      const auto other = rate_of(cell, base);
      row.push_back(mine && other && *other > 0 ? fmt::format("{:.2f}", *mine / *other) : nothing);
    }
    rows.push_back(std::move(row));
  }
  return text + table(header, rows) + (remarks.empty() ? "" : "\n" + remarks);
}

std::string render_memory(const Json& document) {
  std::vector<std::string> parts;
  const Results results(document["runs"], phase_closed);
  for (const std::string& subject : results.subjects()) {
    std::vector<double> sizes;
    for (const std::string& cell : results.cells())
      for (const Json* run : results.runs_of(cell, subject))
        if (const auto bytes = value_of(*run, metric("resident_bytes"))) sizes.push_back(*bytes);
    if (!sizes.empty()) parts.push_back(fmt::format("{} {:.0f}", subject, spread_of(sizes).median / (1 << 20)));
  }
  return parts.empty() ? "" : fmt::format("\nResident memory of the servers, MiB: {}.\n", fmt::join(parts, ", "));
}

// Other processes' use of the servers' processors, and lost datagrams.
std::string render_notes(const Json& document) {
  std::string text;
  std::vector<double> foreign;
  std::vector<std::pair<std::string, double>> lost;
  for (const Json& run : document["runs"]) {
    if (const auto share = number_at(run, "result/server/foreign_share")) foreign.push_back(*share);
    const auto timeouts = number_at(run, "result/errors/timeouts");
    if (timeouts.value_or(0) <= 0 || !run["settings"].value("udp", false)) continue;
    const std::string subject = run.at("subject");
    auto at = std::ranges::find(lost, subject, &std::pair<std::string, double>::first);
    if (at == lost.end()) at = lost.insert(lost.end(), {subject, 0});
    at->second += *timeouts;
  }
  if (!foreign.empty()) {
    const Spread spread = spread_of(foreign);
    text += fmt::format(
        "\nOther processes took {:.0f} % of the servers' processors (median of the runs; most: {:.0f} %).\n",
        100 * spread.median, 100 * spread.high);
  }
  if (!lost.empty()) {
    std::vector<std::string> parts;
    for (const auto& [subject, count] : lost) parts.push_back(fmt::format("{} {:.0f}", subject, count));
    text += fmt::format("UDP requests without a reply, each counted with the time it was waited for: {}.\n",
                        fmt::join(parts, ", "));
  }
  for (const Json& note : document.value("notes", Json::array())) text += fmt::format("{}.\n", note.get<std::string>());
  return text;
}

// A setting that all runs share, as text.
std::string shared_setting(const Json& runs, const std::string& name) {
  std::set<std::string> values;
  for (const Json& run : runs) {
    const Json& settings = run["settings"];
    if (!settings.contains(name)) continue;
    values.insert(settings[name].is_string() ? settings[name].get<std::string>() : settings[name].dump());
  }
  return values.size() == 1 ? *values.begin() : "";
}

std::string render_header(const Json& document) {
  const Json& runs = document["runs"];
  std::vector<std::string> parts;
  const std::string key = shared_setting(runs, "key_bytes");
  const std::string value = shared_setting(runs, "value_bytes");
  if (!key.empty() && !value.empty()) parts.push_back(fmt::format("{}/{} bytes", key, value));
  if (const std::string keys = shared_setting(runs, "keys"); !keys.empty()) parts.push_back(keys + " keys");
  if (const std::string name = shared_setting(runs, "workload"); !name.empty()) parts.push_back(name);
  if (const std::string placed = shared_setting(runs, "processors"); !placed.empty())
    parts.push_back("servers on processor " + placed);
  int rounds = 0;
  for (const Json& run : runs)
    if (run.value("phase", "") == phase_closed) rounds = std::max(rounds, run.value("round", 0) + 1);
  if (rounds > 0) parts.push_back(fmt::format("{} rounds", rounds));
  const Json machine = document.value("machine", Json::object());
  const std::string kernel = machine.value("kernel", "unknown");
  parts.push_back(fmt::format("{} cores {}, Linux {}", machine.value("cores", 0), machine.value("cpu", "unknown"),
                              kernel.substr(0, kernel.find('-'))));
  return fmt::format("`{}`: {}.\n", document.value("command", ""), fmt::join(parts, "; "));
}

}  // namespace

std::string render_tables(const Json& document) {
  const std::string lead = headline(document);
  return (lead.empty() ? "" : lead + "\n\n") + render_header(document) + render_closed(document) +
         render_equal_rate(document) + render_sweep(document) + render_searches(document) + render_memory(document) +
         render_notes(document);
}

}  // namespace tandem::bench
