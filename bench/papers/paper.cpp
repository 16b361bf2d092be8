#include "bench/papers/paper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>

namespace tandem::bench {
namespace {

const std::array<Paper, 5>& papers() {
  static const std::array<Paper, 5> all = {mega_kv(), dido(), memcached_gpu(), kvcg(), hetero_kv()};
  return all;
}

// "Fig. 13", "figure-13" -> "13"; "table3" -> "table-3"; "Table III" is not supported.
std::string canonical(std::string_view figure) {
  std::string text;
  for (const char c : figure) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view word : {"figure", "fig"}) {
    if (text.starts_with(word)) return text.substr(word.size());
  }
  return text.starts_with("table") ? "table-" + text.substr(5) : text;
}

}  // namespace

std::span<const Paper> all_papers() { return papers(); }

const Paper& find_paper(std::string_view name) {
  std::string names;
  for (const Paper& paper : all_papers()) {
    if (paper.name == name) return paper;
    names.append(names.empty() ? "" : ", ").append(paper.name);
  }
  throw std::invalid_argument(fmt::format("unknown paper \"{}\"; there are: {}", name, names));
}

const Experiment& find_experiment(const Paper& paper, std::string_view figure) {
  const std::string wanted = canonical(figure);
  std::string names;
  for (const Experiment& e : paper.experiments) {
    if (e.figure == wanted) return e;
    names.append(names.empty() ? "" : ", ").append(e.figure);
  }
  throw std::invalid_argument(fmt::format("{} has no experiment \"{}\"; there are: {}", paper.name, figure, names));
}

PaperRun::PaperRun(const Paper& paper, const Experiment& experiment, const PaperOptions& options, Json& document)
    : paper_(paper), experiment_(experiment), options_(options), document_(document) {
  figure_ = {{"paper", paper.name},
             {"figure", experiment.figure},
             {"title", experiment.title},
             {"section", experiment.section},
             {"machine", paper.machine},
             {"x", ""},
             {"y", ""},
             {"unit", ""},
             {"series", Json::array()},
             {"missing", Json::array()}};
  if (!experiment.missing.empty()) missing(experiment.missing);
}

void PaperRun::axes(std::string_view x, std::string_view y, std::string_view unit, bool by_number) {
  by_number_ = by_number;
  figure_["x"] = x;
  figure_["y"] = y;
  figure_["unit"] = unit;
}

void PaperRun::add_series(Json series, Axis axis) {
  if (!axis.unit.empty()) {
    series["y"] = axis.y;
    series["unit"] = axis.unit;
  }
  figure_["series"].push_back(std::move(series));
}

void PaperRun::measured(std::string_view name, std::vector<Point> points, std::string_view remark, Axis axis) {
  Json series{{"name", name},
              {"source", remark.empty() ? command() : fmt::format("{}; {}", command(), remark)},
              {"points", Json::array()}};
  for (const Point& p : points)
    series["points"].push_back(
        {{"x", x_of(p.x)}, {"y", p.y.median}, {"low", p.y.low}, {"high", p.y.high}, {"runs", p.runs}});
  add_series(std::move(series), axis);
}

void PaperRun::given(std::string_view name, std::string_view source, std::span<const Given> points, Axis axis) {
  Json series{{"name", name}, {"source", source}, {"points", Json::array()}};
  for (const Given& p : points) series["points"].push_back({{"x", x_of(p.x)}, {"y", p.y}});
  add_series(std::move(series), axis);
}

void PaperRun::not_given(std::string_view name, std::string_view source) {
  figure_["series"].push_back(
      {{"name", name}, {"source", fmt::format("{}; not given in numbers", source)}, {"points", Json::array()}});
}

void PaperRun::missing(std::string_view what) { figure_["missing"].push_back(what); }

std::string PaperRun::command() const {
  std::string line = fmt::format("tandem bench paper {} {}", paper_.name, experiment_.figure);
  if (options_.quick) {
    line += " --quick";
  } else {
    line +=
        fmt::format(" --items {}B --rounds {} --seconds {}", options_.item_bytes, options_.rounds, options_.seconds);
  }
  if (options_.gpu != "auto") line += fmt::format(" --gpu {}", options_.gpu);
  if (!options_.threads.empty()) line += fmt::format(" --threads {}", fmt::join(options_.threads, ","));
  return line + fmt::format(" --seed {}", options_.seed);
}

EngineSettings PaperRun::engine_settings(std::vector<std::string> workloads) const {
  EngineSettings settings;
  settings.workloads = std::move(workloads);
  settings.item_bytes = options_.item_bytes;
  settings.threads = options_.threads;
  settings.rounds = options_.rounds;
  settings.seconds = options_.seconds;
  settings.seed = options_.seed;
  settings.subjects = {"wire"};
  settings.cache_misses = false;
  if (options_.quick) {
    constexpr std::uint64_t quick_item_bytes = std::uint64_t{4} << 20;
    settings.item_bytes = quick_item_bytes;
    settings.rounds = 1;
    settings.seconds = 0.01;
    settings.tape.ops = 1 << 14;
  }
  return settings;
}

Json PaperRun::engine(const EngineSettings& settings, EngineHooks hooks) {
  hooks.progress = options_.progress;
  return run_engine(settings, document_, hooks);
}

PaperRun::Point PaperRun::throughput(const Json& cell, std::string x, std::string_view subject) {
  for (const Json& one : cell.at("subjects")) {
    if (one.at("subject") != subject) continue;
    const Json& rate = one.at("ops_per_s");
    return {std::move(x),
            {rate["median"].get<double>() / 1e6, rate["low"].get<double>() / 1e6, rate["high"].get<double>() / 1e6},
            one.at("runs").get<std::vector<std::size_t>>()};
  }
  throw std::logic_error("the store did not take part");
}

PaperRun::Point PaperRun::latency(const Json& cell, const char* percentile, std::string x) const {
  Point point = throughput(cell, std::move(x));
  std::vector<double> us;
  for (const std::size_t r : point.runs) us.push_back(document_["runs"][r]["result"]["latency_us"][percentile]);
  point.y = spread_of(us);
  return point;
}

std::string why_not(const Experiment& experiment, const PaperOptions& options) {
  if (experiment.run == nullptr) return fmt::format("cannot run today: {}", experiment.missing);
  if (experiment.why_not == nullptr) return {};
  const std::string why = experiment.why_not(options);
  return why.empty() ? why : fmt::format("cannot run here: {}", why);
}

void run_experiment(const Paper& paper, const Experiment& experiment, const PaperOptions& options, Json& document) {
  if (const std::string why = why_not(experiment, options); !why.empty())
    throw std::invalid_argument(fmt::format("{} {} {}", paper.name, figure_label(experiment.figure), why));
  PaperRun run(paper, experiment, options, document);
  experiment.run(run);
  document["figures"].push_back(run.take_figure());
}

}  // namespace tandem::bench
