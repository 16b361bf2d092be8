// Mega-KV (Zhang et al.: "A distributed in-memory key-value store system on heterogeneous CPU-GPU cluster", VLDB
// Journal 2017).
#include "bench/papers/mega_kv.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <string>

#include "bench/engine/memory_access.hpp"
#include "bench/papers/paper.hpp"
#include "plan/task.hpp"

namespace tandem::bench::mega_kv_paper {
namespace {

// Fig. 1's parts of a GET. The paper counts the key comparison as part of the index operation, as MICA does there.
struct Part {
  std::string_view name;
  std::array<std::string_view, 4> tasks;
};
constexpr std::array<Part, 4> get_parts = {{{"network and parsing (RV, PP, SD)", {"RV", "PP", "SD"}},
                                            {"memory management (MM)", {"MM"}},
                                            {"index operations (IN, KC)", {"Search", "Insert", "Delete", "KC"}},
                                            {"value (RD, WR)", {"RD", "WR"}}}};

double share_of(const Json& tasks, const Part& part) {
  double share = 0;
  for (const Json& task : tasks) {
    for (const std::string_view name : part.tasks) share += task["task"] == name ? task["share"].get<double>() : 0;
  }
  return share;
}

void figure_1(PaperRun& run) {
  run.axes("data set", "share of a GET's time", "%");
  std::vector<std::string> workloads;
  for (const DataSet& set : data_sets) workloads.push_back(fmt::format("{}-G100-U", set.workload));
  EngineSettings settings = run.engine_settings(workloads);
  settings.threads = {1};
  // Enough batches that some are timed even if a machine is busy for a whole short turn.
  if (run.options().quick) {
    settings.batches = {16};
    settings.ops = 16'000;
  }
  const Json cells = run.engine(settings);
  for (const Part& part : get_parts) {
    std::vector<PaperRun::Point> points;
    for (std::size_t i = 0; i < data_sets.size(); ++i) {
      const auto runs = PaperRun::throughput(cells[i], "").runs;
      std::vector<double> shares;
      for (const std::size_t r : runs) {
        const Json& result = run.document()["runs"][r]["result"];
        if (!result.contains("tasks"))
          throw std::runtime_error("the turns are too short for their tasks to be timed: use more --seconds");
        shares.push_back(100 * share_of(result["tasks"], part));
      }
      points.push_back({std::string(data_sets[i].label), spread_of(shares), runs});
    }
    run.measured(part.name, std::move(points));
  }
  run.given("paper: index operations of MICA",
            "section 2.1.2, text: \"about 75 %\", \"around 70 and 65 %\", \"about 50 %\"",
            {{data_sets[0].label, 75}, {data_sets[1].label, 70}, {data_sets[2].label, 65}, {data_sets[3].label, 50}});
  run.not_given("paper: network, memory management, value", "figure 1, a plot");
}

void figure_2(PaperRun& run) {
  constexpr std::uint64_t bytes = std::uint64_t{1} << 30, quick_bytes = std::uint64_t{64} << 20;
  run.axes("cache lines", "time to read them", "ns", true);
  const bool quick = run.options().quick;
  const std::uint64_t memory_bytes = quick ? quick_bytes : bytes, blocks = quick ? 20'000 : 1'000'000;
  if (run.options().progress) run.options().progress("linking blocks at random places");
  PointerChase chase(memory_bytes, run.options().seed);
  const unsigned rounds = quick ? 1 : run.options().rounds;
  std::array<std::vector<double>, PointerChase::lines_max + 1> ns;
  std::array<std::vector<std::size_t>, PointerChase::lines_max + 1> runs;
  for (unsigned round = 0; round < rounds; ++round) {
    for (unsigned lines = 1; lines <= PointerChase::lines_max; ++lines) {
      if (run.options().progress) run.options().progress(fmt::format("round {}: {} lines", round + 1, lines));
      ns[lines].push_back(chase.ns_per_block(lines, blocks));
      runs[lines].push_back(run.run_count());
      const double seconds = ns[lines].back() * static_cast<double>(blocks) / 1e9;
      run.document()["runs"].push_back(
          {{"kind", "memory"},
           {"cell", fmt::format("{} lines", lines)},
           {"subject", "pointer chase"},
           {"round", round},
           {"command", run.command()},
           {"seed", run.options().seed},
           {"settings", {{"lines", lines}, {"memory_bytes", memory_bytes}, {"threads", 1}}},
           {"result",
            {{"seconds", seconds},
             {"ops", blocks},
             {"ops_per_s", 1e9 / ns[lines].back()},
             {"ns_per_op", ns[lines].back()}}}});
    }
  }
  std::vector<PaperRun::Point> points;
  for (unsigned lines = 1; lines <= PointerChase::lines_max; ++lines)
    points.push_back({std::to_string(lines), spread_of(ns[lines]), runs[lines]});
  run.measured("this machine", std::move(points));
  run.given("paper", "section 2.1.2, text", {{"1", 76}, {"16", 231}});
  run.not_given("paper: 2 to 15 lines", "figure 2, a plot");
}

constexpr std::string_view needs_cluster = "needs the cluster mode on four machines",
                           needs_power = "needs the power management of CPU and GPU";

constexpr std::array experiments = {
    Experiment{
        "1", "where the time of a GET goes", "section 2.1.2",
        "MICA itself: the shares here are Tandem's CPU plan's; requests come from memory, not from a network card",
        figure_1},
    Experiment{"2", "time of sequential memory accesses after a random one", "section 2.1.2", "", figure_2},
    Experiment{"6", "processing unit and bucket size of the GPU's Search", "section 4.3.1",
               "buckets of 4, 16 and 32 cells: ours have eight, a cache line", figure_6, no_cuckoo_program},
    Experiment{"7", "Insert with several thread blocks", "section 4.3.2", "", figure_7, no_cuckoo_program},
    Experiment{"8", "throughput of the GPU's hash table by batch size", "section 4.3.3", "the figure's latencies",
               figure_8, no_cuckoo_program},
    Experiment{"10", "processing time by batch size, fitted by lines", "section 5.2", "", figure_10, no_gpu},
    Experiment{"table-2", "parameters of these lines for each GPU frequency", "section 6", needs_power},
    Experiment{"12", "theoretical maximum speed of one GPU by scheduling cycle", "section 8.2", "", figure_12, no_gpu},
    Experiment{"13", "throughput of a single node", "section 8.3", "the network: the paper's a data set came over it",
               figure_13},
    Experiment{"table-3", "loading throughput of a single node (100 % SET)", "section 8.3", "", table_3},
    Experiment{"14", "throughput of the cluster with get and getk", "section 8.4", needs_cluster},
    Experiment{"15", "scalability of the cluster", "section 8.5", needs_cluster},
    Experiment{"16", "throughput by scheduling cycle", "section 8.6",
               "the paper's is the throughput of four nodes with 8 GPUs over the network; ours of one GPU, in process",
               figure_16, no_gpu},
    Experiment{"17", "distribution of latencies by scheduling cycle", "section 8.7",
               "the network: ours are from the receipt of a batch until its replies are handed over", figure_17,
               no_gpu},
    Experiment{"18", "energy efficiency of the cluster", "section 8.8.1", needs_power},
    Experiment{"19", "what the energy-saving technique brings", "section 8.8.1", needs_power},
    Experiment{"20", "energy efficiency beside MICA", "section 8.8.2", needs_power},
};

}  // namespace
}  // namespace tandem::bench::mega_kv_paper

namespace tandem::bench {

const Paper& mega_kv() {
  static const Paper paper = {
      "mega-kv", "Mega-KV, VLDB Journal 2017",
      "2x Xeon E5-2650v2 (16 cores, 2.6 GHz), 128 GB of DDR3-1600, 2x Tesla K40c, 40 GbE with DPDK; four of them",
      mega_kv_paper::experiments};
  return paper;
}

}  // namespace tandem::bench
