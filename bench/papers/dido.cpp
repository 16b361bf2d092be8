// DIDO (Zhang, Hu, He, Hua: "DIDO: Dynamic Pipelines for In-Memory Key-Value Stores on Coupled CPU-GPU Architectures",
// ICDE 2017).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "bench/papers/dido_model.hpp"
#include "bench/papers/figures_program.hpp"
#include "bench/papers/paper.hpp"

namespace tandem::bench::dido_paper {
namespace {

// The two workloads of section V-F.
const std::vector<std::string> changing = {"K8-G50-U", "K16-G95-S"};

std::vector<PaperRun::Point> throughputs(PaperRun& run, const std::vector<std::string>& workloads) {
  const Json cells = run.engine(run.engine_settings(workloads));
  std::vector<PaperRun::Point> points;
  for (std::size_t i = 0; i < workloads.size(); ++i) points.push_back(PaperRun::throughput(cells[i], workloads[i]));
  return points;
}

void figure_11(PaperRun& run) {
  run.axes("workload", "throughput", "Mops/s");
  run.measured("CPU plan", throughputs(run, dido_workloads()));
  run.not_given(
      "paper: DIDO and Mega-KV (Coupled)",
      "figure 11, a plot; section V-C, text: DIDO is up to 3.0 times Mega-KV (Coupled), 81 % faster on average");
}

void figure_16(PaperRun& run) {
  std::vector<std::string> workloads;
  for (const char* size : {"K8", "K16", "K128"}) {
    for (const char* share : {"G100", "G95"}) {
      for (const char* keys : {"U", "S"}) workloads.push_back(fmt::format("{}-{}-{}", size, share, keys));
    }
  }
  run.axes("workload", "throughput", "Mops/s");
  run.measured("CPU plan", throughputs(run, workloads));
  run.not_given("paper: DIDO and Mega-KV (Discrete)",
                "figure 16, a plot; section V-E, text: Mega-KV (Discrete) reaches 5.8 to 23.6 times DIDO's throughput");
}

EngineSettings alternating(const PaperRun& run, double every_s, double turns) {
  EngineSettings settings = run.engine_settings(changing);
  settings.alternates = true;
  settings.alternate_every_s = every_s;
  settings.seconds = std::max(settings.seconds, turns * every_s);
  settings.batches = {128};  // ends soon enough for the change to be visible
  return settings;
}

// The throughput by time since the first workload began, over all cycles of all runs.
std::vector<PaperRun::Point> fold(const Json& document, const std::vector<std::size_t>& runs, double cycle_s) {
  std::map<long, std::vector<double>> by_bucket;
  double bucket_s = 0;
  for (const std::size_t r : runs) {
    for (const Json& at : document["runs"][r]["result"]["timeline"]) {
      const double t = at["t"];
      if (bucket_s == 0) bucket_s = t;  // end of the first one
      const long in_cycle = std::lround(t / bucket_s - 1) % std::lround(cycle_s / bucket_s);
      by_bucket[in_cycle].push_back(at["ops_per_s"].get<double>() / 1e6);
    }
  }
  std::vector<PaperRun::Point> points;
  for (const auto& [bucket, values] : by_bucket)
    points.push_back(
        {fmt::format("{:.1f}", static_cast<double>(bucket + 1) * bucket_s * 1e3), spread_of(values), runs});
  return points;
}

void figure_20(PaperRun& run) {
  constexpr double every_s = 0.003;
  run.axes("ms since K8-G50-U began; K16-G95-S from 3 ms on", "throughput in 0.3 ms, all cycles", "Mops/s", true);
  const Json cells = run.engine(alternating(run, every_s, 8));
  const auto runs = PaperRun::throughput(cells[0], "").runs;
  run.measured("CPU plan", fold(run.document(), runs, 2 * every_s));
  run.not_given(
      "paper: DIDO",
      "figure 20, a plot; section V-F, text: recovers to the highest throughput within about one millisecond");
}

void figure_21(PaperRun& run) {
  run.axes("ms between changes", "throughput", "Mops/s", true);
  std::vector<PaperRun::Point> points;
  const std::vector<int> cycles_ms =
      run.options().quick ? std::vector<int>{2, 8} : std::vector<int>{2, 4, 8, 16, 32, 64, 128, 256};
  for (const int ms : cycles_ms) {
    const Json cells = run.engine(alternating(run, ms / 1e3, 6));
    points.push_back(PaperRun::throughput(cells[0], std::to_string(ms)));
  }
  run.measured("CPU plan, changing", points);
  EngineSettings settings = run.engine_settings(changing);
  settings.item_bytes /= 2;  // the share of each when they alternate
  settings.batches = {128};
  const Json alone = run.engine(settings);
  const PaperRun::Point first = PaperRun::throughput(alone[0], ""), second = PaperRun::throughput(alone[1], "");
  std::vector<std::size_t> runs = first.runs;
  runs.insert(runs.end(), second.runs.begin(), second.runs.end());
  std::vector<PaperRun::Point> halves;
  for (const PaperRun::Point& p : points) {
    halves.push_back(
        {p.x,
         {(first.y.median + second.y.median) / 2, (first.y.low + second.y.low) / 2, (first.y.high + second.y.high) / 2},
         runs});
  }
  run.measured("CPU plan, each alone: the mean of both", std::move(halves));
  run.given("paper: DIDO over Mega-KV (Coupled)", "section V-F, text", {{"2", 1.58}, {"64", 1.79}},
            {"speed-up", "times"});
}

constexpr std::string_view fewer_plans =
    "DIDO's other pipelines: here are three plans, each with one batch size; the paper limits the time of a batch";
constexpr std::string_view needs_plans = "needs plans with the GPU (a coupled one, or unified memory)",
                           needs_planner = "needs the planner's cost model and plans with the GPU",
                           needs_energy = "needs plans with the GPU; the paper computes it from rated power and prices";

constexpr std::array experiments = {
    Experiment{"4", "execution time of Mega-KV's pipeline stages", "section II-C", needs_plans},
    Experiment{"5", "GPU utilization of Mega-KV", "section II-C", needs_plans},
    Experiment{"6", "share of the index operations in the GPU's time", "section II-C", needs_plans},
    Experiment{"9", "error of the cost model", "section V-B", fewer_plans, figure_9, no_gpu},
    Experiment{"10", "the chosen plan beside the best one", "section V-B", fewer_plans, figure_10, no_gpu},
    Experiment{
        "11", "throughput of the 24 workloads", "section V-C",
        "DIDO's and Mega-KV's sides: need plans with the GPU; the network: the paper's requests came over UDP, here "
        "they are in memory, as in figure 16",
        figure_11},
    Experiment{"12", "CPU and GPU utilization", "section V-C", needs_plans},
    Experiment{"13", "what flexible assignment of index operations brings", "section V-D", needs_plans},
    Experiment{"14", "what dynamic pipelines bring", "section V-D", needs_planner},
    Experiment{"15", "what work stealing brings", "section V-D", "needs work stealing between CPU and GPU"},
    Experiment{"16", "throughput of the 12 workloads that Mega-KV also has", "section V-E",
               "DIDO's and Mega-KV's sides: need plans with the GPU; K8 without the network, which the paper's K8 has",
               figure_16},
    Experiment{"17", "throughput by price", "section V-E", needs_energy},
    Experiment{"18", "energy efficiency", "section V-E", needs_energy},
    Experiment{"19", "throughput within limits of latency", "section V-F", needs_plans},
    Experiment{"20", "throughput over time while the workload changes every 3 ms", "section V-F",
               "the change of plans: needs the planner; here the CPU plan stays", figure_20},
    Experiment{"21", "throughput by how often the workload changes", "section V-F",
               "the change of plans: needs the planner; here the CPU plan stays", figure_21},
};

}  // namespace
}  // namespace tandem::bench::dido_paper

namespace tandem::bench {

const Paper& dido() {
  static const Paper paper = {"dido", "DIDO, ICDE 2017",
                              "AMD A10-7850K APU (4 cores at 3.7 GHz, 8 GPU compute units), 16 GB of DDR3-1333, 10 GbE",
                              dido_paper::experiments};
  return paper;
}

}  // namespace tandem::bench
