// KVCG (Miller, Nelson, Hassan, Palmieri: "KVCG: A Heterogeneous Key-Value Store for Skewed Workloads", SYSTOR 2021).
#include "bench/papers/kvcg.hpp"

#include <fmt/format.h>

#include <array>
#include <string>

#include "bench/papers/figures_program.hpp"
#include "bench/papers/paper.hpp"

namespace tandem::bench::kvcg_paper {
namespace {

constexpr std::uint64_t prefilled_keys = 10'000'000;  // section 8
constexpr std::uint32_t batch = 512;
constexpr std::string_view slab_program = "slab_figures_bench";

std::string no_slab_program(const PaperOptions& options) { return no_figures_program(options, slab_program); }

void table_1(PaperRun& run) { draw_table_1(run, measured_lines(run, "table-1", slab_program)); }

EngineSettings settings_of(const PaperRun& run, std::vector<std::string> workloads, double theta) {
  EngineSettings settings = run.engine_settings(std::move(workloads));
  settings.theta = theta;
  settings.batches = {batch};
  if (!run.options().quick) settings.keys = prefilled_keys;
  return settings;
}

void figure_3a(PaperRun& run) {
  run.axes("theta", "throughput, 95 % reads, 8-byte keys and values", "Mops/s", true);
  std::vector<PaperRun::Point> points;
  for (const double theta : {0.0, 0.25, 0.5, 0.75, 0.9, 0.99}) {
    const Json cells = run.engine(settings_of(run, {"K8-G95-S"}, theta));
    points.push_back(PaperRun::throughput(cells[0], fmt::format("{:g}", theta)));
  }
  run.measured("CPU plan", std::move(points));
  run.not_given("paper: KVCG", "figure 3a, a plot");
}

void figure_3c(PaperRun& run) {
  run.axes("bytes of a value", "throughput, 95 % reads, theta 0.5", "Mops/s", true);
  std::vector<PaperRun::Point> points;
  for (const int bytes : {8, 16, 32, 64, 128, 256}) {
    const Json cells = run.engine(settings_of(run, {fmt::format("K8-V{}-G95-S", bytes)}, 0.5));
    points.push_back(PaperRun::throughput(cells[0], std::to_string(bytes)));
  }
  run.measured("CPU plan", std::move(points));
  run.not_given("paper: KVCG", "figure 3c, a plot; section 8.1, text: values up to 256 bytes hardly matter");
}

void figure_5(PaperRun& run) {
  run.axes("% of reads", "throughput, theta 0.5, 8-byte keys and values", "Mops/s", true);
  std::vector<PaperRun::Point> points;
  for (const int reads : {0, 20, 50, 80, 95, 100}) {
    const Json cells = run.engine(settings_of(run, {fmt::format("K8-G{}-S", reads)}, 0.5));
    points.push_back(PaperRun::throughput(cells[0], std::to_string(reads)));
  }
  run.measured("CPU plan", std::move(points));
  run.not_given("paper: KVCG, KVC, KVG, Mega-KV, MICA", "figure 5, a plot");
}

void figure_6(PaperRun& run) {
  run.axes("skew", "throughput, 95 % reads, 8-byte keys and values", "Mops/s");
  const Json cells = run.engine(settings_of(run, {"K8-G95-S"}, 0.99));
  run.measured("CPU plan", {PaperRun::throughput(cells[0], "theta 0.99")});
  run.not_given("paper: KVCG, KVC, KVG, Mega-KV, MICA", "figure 6, a plot");
}

constexpr std::string_view table_1_differs =
    "the paper's own tables and GPU. Its Slab has no locks, and values of 8 bytes where ours has locations of 4; "
    "without locks a launch has one change a bucket; libgpuhash's algorithm is that of our cuckoo table, without its "
    "races. A PUT replaces a key's location; those that add a key have a row of their own";
constexpr std::string_view gpu_side =
                               "KVCG's side: needs the GPU index and the router between CPU and GPU; the figures' "
                               "latencies, which are of single requests in a closed loop in process",
                           needs_router = "needs the router of hot keys between CPU and GPU";

constexpr std::array experiments = {
    Experiment{"table-1", "the GPU's Slab beside Mega-KV's libgpuhash", "section 8", table_1_differs, table_1,
               no_slab_program},
    Experiment{"3a", "throughput by skew", "section 8.1", gpu_side, figure_3a},
    Experiment{"3b", "throughput and latency by the share of hot keys", "section 8.1", needs_router},
    Experiment{"3c", "throughput by the size of values", "section 8.1", gpu_side, figure_3c},
    Experiment{"4", "distribution of the hot cache's latencies", "section 8.1", needs_router},
    Experiment{"5", "throughput by the share of reads", "section 8.2", gpu_side, figure_5},
    Experiment{"6", "throughput with theta 0.99", "section 8.3", gpu_side, figure_6},
    Experiment{"7", "latency while the model changes", "section 8.4", needs_router},
};

}  // namespace

void draw_table_1(PaperRun& run, const std::vector<Json>& lines) {
  run.axes("operation", "throughput of the GPU's hash table", "Mops/s");
  FigureSeries series;
  for (const Json& line : lines) {
    const unsigned warps = line.at("warps");
    series.add(fmt::format("{}, {}, {} warp{} a block", line.at("table").get<std::string>(),
                           line.at("locks").get<std::string>(), warps, warps == 1 ? "" : "s"),
               point_of(run, line, line.at("ops"), line.at("operation"), true));
  }
  series.write(run);
  run.given("paper: Slab", "table 1", {{"GET", 269.7}, {"PUT", 61.0}, {"DELETE", 120.4}});
  run.given("paper: libgpuhash", "table 1", {{"GET", 160.0}, {"PUT", 27.3}, {"DELETE", 233.5}});
}

}  // namespace tandem::bench::kvcg_paper

namespace tandem::bench {

const Paper& kvcg() {
  static const Paper paper = {"kvcg", "KVCG, SYSTOR 2021", "2x Xeon Platinum 8160 (48 cores), GeForce GTX 1080",
                              kvcg_paper::experiments};
  return paper;
}

}  // namespace tandem::bench
