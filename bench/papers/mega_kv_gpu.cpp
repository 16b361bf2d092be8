// Mega-KV's figures 6, 7, 8, 10 and 12: the GPU alone.
#include <fmt/format.h>

#include <string>

#include "bench/engine/plan.hpp"
#include "bench/papers/figures_program.hpp"
#include "bench/papers/mega_kv.hpp"
#include "planner/calibration.hpp"

namespace tandem::bench::mega_kv_paper {
namespace {

constexpr std::string_view figures_program = "cuckoo_figures_bench";

// --- figures 10 and 12

// Section 5.2, in ns, for one Tesla K40c.
constexpr CycleModel k40c = {.search = {5.9, 22'100}, .change = {6.2, 144'500}, .get_share = 0.95, .change_cycles = 2};
constexpr std::string_view k40c_source =
    "section 5.2, text: k_S = 5.9e-3, b_S = 22.1, k_I = 6.2e-3, b_I = 144.5 (us), put into ";

struct Lines {
  Calibration measured;
  std::vector<std::size_t> search_runs, change_runs;
};

Lines measure_lines(PaperRun& run) {
  const bool quick = run.options().quick, sim = run.options().gpu == "sim";
  CalibrationOptions options;
  options.seed = run.options().seed;
  options.progress = run.options().progress;
  // The paper's hash table has 2 GiB.
  options.cells = std::uint64_t{1} << (quick ? 16 : sim ? 20 : 28);
  if (quick) {
    options.rounds = 1;
    options.steps = 4;
    options.searches_max = 8192;
    options.sets_max = 2048;
  }
  const Devices devices = engine_plan(sim ? "mega-kv-sim" : "mega-kv").devices(1);
  Lines lines{.measured = calibrate(*devices.front(), options), .search_runs = {}, .change_runs = {}};
  const auto add = [&](std::string_view what, const CalibrationLine& line, std::vector<std::size_t>& runs) {
    for (const CalibrationSample& s : line.samples) {
      runs.push_back(run.run_count());
      run.document()["runs"].push_back({{"kind", "memory"},
                                        {"cell", fmt::format("launch of {} {}", s.queries, what)},
                                        {"subject", "GPU"},
                                        {"round", 0},
                                        {"command", run.command()},
                                        {"seed", run.options().seed},
                                        {"settings",
                                         {{"gpu", devices.front()->info().name},
                                          {"cells", lines.measured.cells},
                                          {"keys", lines.measured.keys},
                                          {"launches", options.rounds}}},
                                        {"result",
                                         {{"seconds", s.median_ns / 1e9},
                                          {"ops", s.queries},
                                          {"ops_per_s", s.queries / s.median_ns * 1e9},
                                          {"ns_per_op", s.median_ns / s.queries}}}});
    }
  };
  add("Search", lines.measured.search, lines.search_runs);
  add("Insert and Delete", lines.measured.change, lines.change_runs);
  return lines;
}

std::string words(const LaunchFit& fit) {
  return fmt::format("k = {:.3g} us, b = {:.4g} us, R^2 = {:.4f}", fit.line.query_ns / 1e3, fit.line.launch_ns / 1e3,
                     fit.r2);
}

}  // namespace

std::string no_cuckoo_program(const PaperOptions& options) { return no_figures_program(options, figures_program); }

void draw_figure_6(PaperRun& run, const std::vector<Json>& lines) {
  run.axes("threads of a processing unit", "time of a batch of Searches, buckets of 8 cells", "us", true);
  FigureSeries series;
  for (const Json& line : lines) {
    const std::string name = fmt::format("{}, {}, {} streams", line.at("queries").get<std::string>(),
                                         line.at("time").get<std::string>(), line.at("streams").get<unsigned>());
    series.add(name, point_of(run, line, line.at("jobs"), line.at("threads").dump(), false));
  }
  series.write(run);
  run.not_given("paper: by threads and cells of a bucket", "figure 6, a plot");
}

void draw_figure_7(PaperRun& run, const std::vector<Json>& lines) {
  run.axes("thread blocks", "throughput of Insert", "Mops/s", true);
  FigureSeries series;
  for (const Json& line : lines) {
    const std::uint64_t jobs = line.at("jobs");
    series.add(fmt::format("{}, {} jobs", line.at("method").get<std::string>(), jobs),
               point_of(run, line, jobs, line.at("blocks").dump(), true));
  }
  series.write(run);
  run.not_given(
      "paper: speedup by blocks",
      "figure 7, a plot; section 4.3.2, text: 1.2 times on average with two blocks, 1.3 to 1.8 times with 16");
}

void draw_figure_8(PaperRun& run, const std::vector<Json>& lines) {
  run.axes("batch size", "throughput of the GPU's hash table", "Mops/s", true);
  FigureSeries series;
  std::string largest = "0";
  for (const Json& line : lines) {
    const std::uint64_t batch = line.at("batch");
    if (batch > std::stoull(largest)) largest = std::to_string(batch);
    series.add(fmt::format("{}, {} stream{}, {}, load {:g}", line.at("operation").get<std::string>(),
                           line.at("streams").get<unsigned>(), line.at("streams") == 1 ? "" : "s",
                           line.at("transfers").get<std::string>(), line.at("load").get<double>()),
               point_of(run, line, batch, std::to_string(batch), true));
  }
  series.write(run);
  const auto peak = [&](std::string_view operation, double mops) {
    run.given(fmt::format("paper: {}, peak with large batches", operation), "section 4.3.3, text", {{largest, mops}});
  };
  peak("Search", 303.7);
  peak("Insert", 210.3);
  peak("Delete", 196.5);
}

void figure_6(PaperRun& run) { draw_figure_6(run, measured_lines(run, "6", figures_program)); }
void figure_7(PaperRun& run) { draw_figure_7(run, measured_lines(run, "7", figures_program)); }
void figure_8(PaperRun& run) { draw_figure_8(run, measured_lines(run, "8", figures_program)); }

void figure_10(PaperRun& run) {
  run.axes("queries of a launch", "processing time", "us", true);
  const Lines lines = measure_lines(run);
  const auto draw = [&](std::string_view what, const CalibrationLine& line, const std::vector<std::size_t>& runs,
                        LaunchTime paper, std::string_view symbol) {
    std::vector<PaperRun::Point> points, fitted;
    std::vector<std::string> xs;
    for (std::size_t i = 0; i < line.samples.size(); ++i) {
      const CalibrationSample& s = line.samples[i];
      const double us = line.fit.line.of(s.queries) / 1e3;
      xs.push_back(std::to_string(s.queries));
      points.push_back({xs.back(), {s.median_ns / 1e3, s.low_ns / 1e3, s.high_ns / 1e3}, {runs[i]}});
      fitted.push_back({xs.back(), {us, us, us}, runs});
    }
    run.measured(what, std::move(points));
    run.measured(fmt::format("{}, fitted line", what), std::move(fitted), words(line.fit));
    std::vector<PaperRun::Given> given;
    for (std::size_t i = 0; i < xs.size(); ++i) given.push_back({xs[i], paper.of(line.samples[i].queries) / 1e3});
    run.given(fmt::format("paper: {}, fitted line", what),
              fmt::format("{}T = k_{} x + b_{}", k40c_source, symbol, symbol), given);
  };
  draw("Search", lines.measured.search, lines.search_runs, k40c.search, "S");
  draw("Insert and Delete", lines.measured.change, lines.change_runs, k40c.change, "I");
}

void figure_12(PaperRun& run) {
  run.axes("scheduling cycle C (us)", "theoretical maximum speed of one GPU, 95 % GET", "Mops/s", true);
  const Lines lines = measure_lines(run);
  std::vector<std::size_t> runs = lines.search_runs;
  runs.insert(runs.end(), lines.change_runs.begin(), lines.change_runs.end());
  const std::vector<std::string> cycles = {"40",  "60",  "80",  "100", "120", "160", "200",
                                           "240", "280", "320", "400", "480", "560", "640"};
  for (const unsigned n : {2U, 1U}) {
    const std::string what = n == 1 ? "not delayed" : "delayed, n = 2";
    const CycleModel model = lines.measured.model(k40c.get_share, n);
    CycleModel paper = k40c;
    paper.change_cycles = n;
    std::vector<PaperRun::Point> points;
    std::vector<PaperRun::Given> given;
    for (const std::string& c : cycles) {
      const double mops = rate_max(model, std::stod(c) * 1e3) * 1e3;
      if (mops > 0) points.push_back({c, {mops, mops, mops}, runs});
      if (const double theirs = rate_max(paper, std::stod(c) * 1e3) * 1e3; theirs > 0) given.push_back({c, theirs});
    }
    if (points.empty()) {
      run.missing(fmt::format("{}: no cycle up to {} us is long enough", what, cycles.back()));
    } else {
      run.measured(what, std::move(points),
                   fmt::format("C > {:.1f} us; Search: {}; Insert and Delete: {}", *cycle_min_ns(model, 0) / 1e3,
                               words(lines.measured.search.fit), words(lines.measured.change.fit)));
    }
    run.given(
        fmt::format("paper: {}", what),
        fmt::format("{}equation 4 of section 8.2; there, text: C > {} us", k40c_source, n == 1 ? "166.6" : "94.4"),
        given);
  }
}

}  // namespace tandem::bench::mega_kv_paper
