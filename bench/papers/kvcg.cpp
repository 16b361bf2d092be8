// KVCG (Miller, Nelson, Hassan, Palmieri: "KVCG: A Heterogeneous Key-Value Store for Skewed Workloads", SYSTOR 2021).
#include "bench/papers/kvcg.hpp"

#include <fmt/format.h>

#include <array>
#include <string>

#include "bench/papers/figures_program.hpp"
#include "bench/papers/paper.hpp"

namespace tandem::bench::kvcg_paper {
namespace {

constexpr std::string_view slab_program = "slab_figures_bench";

std::string no_slab_program(const PaperOptions& options) { return no_figures_program(options, slab_program); }

void table_1(PaperRun& run) { draw_table_1(run, measured_lines(run, "table-1", slab_program)); }

constexpr std::string_view table_1_differs =
    "the paper's own tables and GPU. Its Slab has no locks, and values of 8 bytes where ours has locations of 4; "
    "without locks a launch has one change a bucket; libgpuhash's algorithm is that of our cuckoo table, without its "
    "races. A PUT replaces a key's location; those that add a key have a row of their own";
constexpr std::string_view differs =
                               "MICA: a program of its own; the paper's model is trained before, on 5 M requests: here "
                               "the store learns while it serves (T1: threshold 1.3e-5, T2: 0.005), or no key is hot "
                               "(KVG)",
                           given = "theirs counts misses as cold; here a hot key's miss is hot",
                           shifts = "popularity shifts while the store serves; theirs begins with a poor model";

constexpr std::array experiments = {
    Experiment{"table-1", "the GPU's Slab beside Mega-KV's libgpuhash", "section 8", table_1_differs, table_1,
               no_slab_program},
    Experiment{"3a", "throughput and latency by skew", "section 8.1", differs, figure_3a},
    Experiment{"3b", "throughput and latency by the share of hot keys", "section 8.1", given, figure_3b, no_device},
    Experiment{"3c", "throughput and latency by the size of values", "section 8.1", differs, figure_3c},
    Experiment{"4", "distribution of the hot cache's latencies", "section 8.1", given, figure_4, no_device},
    Experiment{"5", "throughput and latency by the share of reads", "section 8.2",
               "deletes: half of the paper's writes; here all are SETs. MICA: a program of its own", figure_5},
    Experiment{"6", "throughput and latency with theta 0.99", "section 8.3", differs, figure_6},
    Experiment{"7", "latency while the model changes", "section 8.4", shifts, figure_7, no_device},
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
