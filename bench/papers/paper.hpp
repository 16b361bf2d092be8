// `tandem bench paper`: the experiments of the five papers by the number of their figure or table. Those that cannot
// run are in the registry with the reason. Each paper has a file of its own.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/common/document.hpp"
#include "bench/common/statistics.hpp"
#include "bench/engine/engine.hpp"
#include "planner/coefficients.hpp"

namespace tandem::bench {

struct PaperOptions {
  bool quick = false;  // a few seconds in all, as a smoke test: small tables, one round
  unsigned rounds = 3;
  double seconds = 0.2;  // of a turn
  std::uint64_t item_bytes = std::uint64_t{192} << 20;
  std::vector<unsigned> threads;  // empty: one for each processor
  std::uint64_t seed = 1;
  std::string gpu = "auto";                // off: none; sim: one in software, as a smoke test
  std::optional<Coefficients> plan_costs;  // of this machine, for the cost model; nothing: they are measured first
  std::function<void(std::string_view)> progress;
};

class PaperRun;

struct Experiment {
  std::string_view figure;               // "13", "3a"; of a table "table-3"
  std::string_view title;                // what it shows
  std::string_view section;              // of the paper
  std::string_view missing;              // what cannot be measured, and the missing feature; empty: nothing
  void (*run)(PaperRun& run) = nullptr;  // nullptr: no part of it can run
  // Why it cannot be measured on this machine, in words; empty: it can. nullptr: measurable on any machine.
  std::string (*why_not)(const PaperOptions& options) = nullptr;
};

struct Paper {
  std::string_view name, title, machine;  // machine: of the paper's measurements
  std::span<const Experiment> experiments;
};

std::span<const Paper> all_papers();
// Both throw std::invalid_argument that lists the known ones. Figures may be written 13, fig13, figure-13, table3.
const Paper& find_paper(std::string_view name);
const Experiment& find_experiment(const Paper& paper, std::string_view figure);

const Paper& mega_kv();
const Paper& dido();
const Paper& memcached_gpu();
const Paper& kvcg();
const Paper& hetero_kv();

// Writes an experiment's figure.
class PaperRun {
 public:
  PaperRun(const Paper& paper, const Experiment& experiment, const PaperOptions& options, Json& document);
  PaperRun(const PaperRun&) = delete;
  PaperRun& operator=(const PaperRun&) = delete;

  struct Point {
    std::string x;
    Spread y;
    std::vector<std::size_t> runs = {};  // the runs of the document behind it
  };
  struct Given {  // by the paper
    std::string_view x;
    double y;
  };
  struct Axis {  // of a series; empty: the figure's
    std::string_view y, unit;
  };

  // by_number: every x is a number.
  void axes(std::string_view x, std::string_view y, std::string_view unit, bool by_number = false);
  // A series measured here.
  void measured(std::string_view name, std::vector<Point> points, std::string_view remark = {}, Axis axis = {});
  // A series that the paper gives in numbers, and its source.
  void given(std::string_view name, std::string_view source, std::span<const Given> points, Axis axis = {});
  void given(std::string_view name, std::string_view source, std::initializer_list<Given> points, Axis axis = {}) {
    given(name, source, std::span(points.begin(), points.size()), axis);
  }
  // A series that the paper only draws, or describes in words.
  void not_given(std::string_view name, std::string_view source);
  void missing(std::string_view what);

  const Paper& paper() const noexcept { return paper_; }
  const PaperOptions& options() const noexcept { return options_; }
  Json& document() noexcept { return document_; }
  // The index of the next run in the document.
  std::size_t run_count() const { return document_["runs"].size(); }
  void say(std::string_view what) const {
    if (options_.progress) options_.progress(what);
  }
  std::string command() const;
  Json take_figure() { return std::move(figure_); }

  // Settings with the options applied, and cells of the in-process mode with them. Only the wire format takes turns.
  EngineSettings engine_settings(std::vector<std::string> workloads) const;
  Json engine(const EngineSettings& settings, EngineHooks hooks = {});
  // Throughput in Mops/s of one cell of a summary, for the subject that is the store.
  static Point throughput(const Json& cell, std::string x, std::string_view subject = "tandem");
  // Latency of a batch's replies in us over the rounds of a cell; percentile: "p50", "p95", "p99".
  Point latency(const Json& cell, const char* percentile, std::string x) const;

 private:
  void add_series(Json series, Axis axis);
  Json x_of(std::string_view text) const { return by_number_ ? Json::parse(text) : Json(text); }
  const Paper& paper_;
  const Experiment& experiment_;
  const PaperOptions& options_;
  Json& document_;
  Json figure_;
  bool by_number_ = false;
};

// Why an experiment cannot be measured here and now, in words; empty: it can.
std::string why_not(const Experiment& experiment, const PaperOptions& options);
// Runs one experiment: adds its runs and its figure to the document. Throws std::invalid_argument with why_not().
void run_experiment(const Paper& paper, const Experiment& experiment, const PaperOptions& options, Json& document);

// "Fig. 13", "Table 3".
std::string figure_label(std::string_view figure);
// A figure of a document as a table, with what is missing below it. is_quick: measured with --quick.
std::string figure_text(const Json& figure, bool is_quick);
// All experiments: which run, and what is missing.
std::string papers_text(std::span<const Paper> papers);
std::string paper_text(const Paper& paper);

}  // namespace tandem::bench
