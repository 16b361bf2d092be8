// HeteroKV (Yang, Li, Wang, Yin, Wei, Liu: "HeteroKV: A Scalable Line-rate Key-Value Store on Heterogeneous CPU-FPGA
// Platforms").
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "bench/engine/threads.hpp"
#include "bench/papers/paper.hpp"

namespace tandem::bench {
namespace {

// Section IV-A: zipf 0.99, keys and values of 4 bytes; Tandem's benchmarks have keys of at least 8.
struct KeyValueMix {
  std::string_view name, workload;
};
constexpr std::array<KeyValueMix, 2> key_value_mixes = {{{"GET-heavy", "K8-V4-G95-S"}, {"PUT-heavy", "K8-V4-G5-S"}}};

void figure_4(PaperRun& run) {
  run.axes("requests in a batch", "throughput, and mean time of a batch", "Mops/s and us");
  for (const KeyValueMix& mix : key_value_mixes) {
    EngineSettings settings = run.engine_settings({std::string(mix.workload)});
    settings.batches = run.options().quick ? std::vector<std::uint32_t>{1, 1024}
                                           : std::vector<std::uint32_t>{1, 16, 128, 1024, 2048, 4096, 8192, 16384};
    const Json cells = run.engine(settings);
    std::vector<PaperRun::Point> rates, times;
    for (std::size_t i = 0; i < settings.batches.size(); ++i) {
      const std::string x = std::to_string(settings.batches[i]);
      rates.push_back(PaperRun::throughput(cells[i], x));
      std::vector<double> us;
      for (const std::size_t r : rates.back().runs)
        us.push_back(run.document()["runs"][r]["result"]["batch_us"].get<double>());
      times.push_back({x, spread_of(us), rates.back().runs});
    }
    run.measured(fmt::format("CPU plan, {}, Mops/s", mix.name), std::move(rates));
    run.measured(fmt::format("CPU plan, {}, us a batch", mix.name), std::move(times));
  }
  run.not_given("paper: HeteroKV",
                "figure 4, a plot; section IV-C, text: batches of 8K were chosen, with GETs and PUTs below 35 us");
}

void hetero_kv_figure_5(PaperRun& run) {
  run.axes("threads", "throughput", "Mops/s");
  std::vector<unsigned> threads = run.options().threads;
  if (threads.empty()) {
    const auto processors = static_cast<unsigned>(std::min<std::size_t>(allowed_processors().size(), 128));
    for (unsigned n = 1; n < processors; n *= 2) threads.push_back(n);
    threads.push_back(processors);
  }
  for (const KeyValueMix& mix : key_value_mixes) {
    EngineSettings settings = run.engine_settings({std::string(mix.workload)});
    settings.threads = threads;
    const Json cells = run.engine(settings);
    std::vector<PaperRun::Point> points;
    for (std::size_t i = 0; i < threads.size(); ++i)
      points.push_back(PaperRun::throughput(cells[i], std::to_string(threads[i])));
    run.measured(fmt::format("CPU plan, {}", mix.name), std::move(points));
  }
  run.given("paper: HeteroKV, GET-heavy", "section IV-C, text", {{"20", 430}});
  run.given("paper: HeteroKV, PUT-heavy", "section IV-C, text", {{"20", 315}});
  run.given("paper: HeteroKV, SCAN-heavy", "section IV-C, text", {{"20", 15.3}});
  run.not_given("paper: other thread counts", "figure 5, a plot");
}

void table_2(PaperRun& run) {
  run.axes("workload", "throughput", "Mops/s");
  std::vector<PaperRun::Point> points;
  for (const KeyValueMix& mix : key_value_mixes) {
    const Json cells = run.engine(run.engine_settings({std::string(mix.workload)}));
    points.push_back(PaperRun::throughput(cells[0], std::string(mix.name)));
  }
  run.measured("CPU plan", std::move(points));
  run.given("paper: HeteroKV (FPGA, 20 cores)", "table II",
            {{"GET-heavy", 430}, {"PUT-heavy", 315}, {"SCAN-heavy", 15.3}});
  run.given("paper: KV-Direct (FPGA)", "table II", {{"GET-heavy", 180}, {"PUT-heavy", 114}, {"SCAN-heavy", 1.8}});
  run.given("paper: PALM (12 cores)", "table II", {{"GET-heavy", 170}, {"PUT-heavy", 130}, {"SCAN-heavy", 1.7}});
  run.given("paper: MICA (24 cores)", "table II", {{"GET-heavy", 137}, {"PUT-heavy", 135}, {"SCAN-heavy", 1.4}});
  run.given("paper: HiKV (16 cores)", "table II", {{"GET-heavy", 33}, {"PUT-heavy", 14}, {"SCAN-heavy", 1.5}});
}

constexpr std::string_view other_parts =
    "SCAN-heavy: needs an ordered index; the FPGA's dispatcher: needs an FPGA; keys have 8 bytes here, 4 in the paper";

constexpr std::array hetero_kv_experiments = {
    Experiment{"table-1", "resources of the FPGA", "section IV-B", "needs an FPGA"},
    Experiment{"table-2", "comparison with other stores", "section IV-C", other_parts, table_2},
    Experiment{"4", "throughput and latency by batch size", "section IV-C", other_parts, figure_4},
    Experiment{"5", "throughput by threads", "section IV-C", other_parts, hetero_kv_figure_5},
};

}  // namespace

const Paper& hetero_kv() {
  static const Paper paper = {"heterokv", "HeteroKV", "Xeon Gold 6138 (20 cores), Stratix 10 FPGA over PCIe 3.0 x16",
                              hetero_kv_experiments};
  return paper;
}

}  // namespace tandem::bench
