// Mega-KV's figures 13, 16 and 17 and its table 3: the store in process, with the CPU plan and with Mega-KV's.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "bench/engine/subject.hpp"
#include "bench/engine/threads.hpp"
#include "bench/papers/mega_kv.hpp"

namespace tandem::bench::mega_kv_paper {
namespace {

EngineSettings cpu_settings(const PaperRun& run, std::vector<std::string> workloads) {
  return run.engine_settings(std::move(workloads));
}

constexpr std::string_view mega_kv_side = "Mega-KV's side";

EngineSettings gpu_settings(const PaperRun& run, std::vector<std::string> workloads) {
  EngineSettings settings = run.engine_settings(std::move(workloads));
  use_device(run, "mega-kv", settings);
  if (!run.options().quick) settings.batches = {2048};
  return settings;
}

std::vector<PaperRun::Point> points_of(const Json& cells, std::string_view subject = subject_wire) {
  std::vector<PaperRun::Point> points;
  for (std::size_t i = 0; i < data_sets.size(); ++i)
    points.push_back(PaperRun::throughput(cells[i], std::string(data_sets[i].label), subject));
  return points;
}

std::string plan_name(const PaperRun& run) {
  return run.options().gpu == "sim" ? "plan mega-kv, simulated" : "plan mega-kv";
}

struct CycleCells {
  unsigned cycle_us;
  std::vector<Json> cells;  // by batch size
};

// By workload, and by cycle: batches that a thread fills in a cycle at several rates. A thread has three in flight, and
// each waits for its launch.
std::vector<std::vector<CycleCells>> by_cycle(PaperRun& run, const std::vector<std::string>& workloads) {
  EngineSettings settings = gpu_settings(run, workloads);
  settings.cycles_us = {60, 80, 120, 160, 200, 240, 280, 320};
  settings.batches_per_us = {3, 4, 6, 12};
  if (run.options().quick) {
    settings.cycles_us = {160};
    settings.batches_per_us = {2};
  } else {
    settings.tape.ops = 1 << 19;  // there are many cells: a second of preparation for each would dominate
  }
  const Json cells = run.engine(settings);
  std::vector<std::vector<CycleCells>> all(workloads.size());
  std::size_t next = 0;
  for (std::vector<CycleCells>& of_workload : all) {
    for (const unsigned cycle_us : settings.cycles_us) {
      CycleCells& c = of_workload.emplace_back(CycleCells{cycle_us, {}});
      for (std::size_t i = 0; i < settings.batches_per_us.size(); ++i) c.cells.push_back(cells[next++]);
    }
  }
  return all;
}

}  // namespace

bool has_gpu(PaperRun& run, std::string_view side) {
  const std::string why = no_gpu(run.options());
  if (!why.empty()) run.missing(fmt::format("{}: {}", side, why));
  return why.empty();
}

void use_device(const PaperRun& run, std::string_view plan, EngineSettings& settings) {
  settings.plan = fmt::format("{}{}", plan, run.options().gpu == "sim" ? "-sim" : "");
  if (settings.threads.empty()) settings.threads = {std::max(1U, pinned_threads() - 1)};
}

void figure_13(PaperRun& run) {
  run.axes("data set", "throughput of one node", "Mops/s");
  struct Kind {
    std::string_view get, keys;
  };
  constexpr std::array<Kind, 4> kinds = {{{"G95", "U"}, {"G95", "S"}, {"G100", "U"}, {"G100", "S"}}};
  // A data set's keys are stored once for all plans.
  const auto measure = [&](EngineSettings (*settings_of)(const PaperRun&, std::vector<std::string>),
                           const std::string& plan, std::size_t kind_count) {
    std::vector<std::string> workloads;
    for (const DataSet& set : data_sets) {
      for (std::size_t k = 0; k < kind_count; ++k)
        workloads.push_back(fmt::format("{}-{}-{}", set.workload, kinds[k].get, kinds[k].keys));
    }
    EngineSettings settings = settings_of(run, workloads);
    settings.protocol = WireProtocol::meta;
    settings.getk = true;
    const Json cells = run.engine(settings);
    for (std::size_t k = 0; k < kind_count; ++k) {
      Json of_kind = Json::array();
      for (std::size_t i = 0; i < data_sets.size(); ++i) of_kind.push_back(cells[i * kind_count + k]);
      const std::string what =
          fmt::format("{} % GET, {}", kinds[k].get.substr(1), kinds[k].keys == "U" ? "uniform" : "zipf 0.99");
      run.measured(fmt::format("{}, get, {}", plan, what), points_of(of_kind));
      run.measured(fmt::format("{}, getk, {}", plan, what), points_of(of_kind, subject_wire_getk));
    }
  };
  measure(cpu_settings, "CPU plan", kinds.size());
  if (has_gpu(run, mega_kv_side)) measure(gpu_settings, plan_name(run), run.options().quick ? 1 : kinds.size());
  run.not_given(
      "paper: Mega-KV and MICA",
      "figure 13, a plot; section 8.3, text: Mega-KV is 1.3 to 2.9 times MICA with 95 % GET, 1.3 to 2.6 times "
      "with 100 %");
}

void table_3(PaperRun& run) {
  run.axes("data set", "throughput of SETs alone", "Mops/s");
  std::vector<std::string> workloads;
  for (const DataSet& set : data_sets) workloads.push_back(fmt::format("{}-G0-U", set.workload));
  std::size_t next = run.run_count();
  const Json cells = run.engine(run.engine_settings(workloads));
  std::vector<PaperRun::Point> load;
  for (const DataSet& set : data_sets) {
    while (!run.document()["runs"][next]["cell"].get<std::string>().starts_with("load ")) ++next;
    const double rate = run.document()["runs"][next]["result"]["ops_per_s"].get<double>() / 1e6;
    load.push_back({std::string(set.label), {rate, rate, rate}, {next++}});
  }
  run.measured("CPU plan, into an empty store", std::move(load));
  run.measured("CPU plan, over stored keys", points_of(cells));
  if (has_gpu(run, mega_kv_side))
    run.measured(plan_name(run) + ", over stored keys", points_of(run.engine(gpu_settings(run, workloads))));
  run.given("paper: Mega-KV", "table 3",
            {{data_sets[0].label, 171}, {data_sets[1].label, 149}, {data_sets[2].label, 55}, {data_sets[3].label, 32}});
}

void figure_16(PaperRun& run) {
  run.axes("scheduling cycle C (us)", "throughput", "Mops/s", true);
  const std::vector<std::vector<CycleCells>> by_workload = by_cycle(run, {"K8-G95-U", "K8-G100-U"});
  for (std::size_t w = 0; w < by_workload.size(); ++w) {
    std::vector<PaperRun::Point> points;
    for (const CycleCells& c : by_workload[w]) {
      PaperRun::Point best;
      for (const Json& cell : c.cells) {
        PaperRun::Point point = PaperRun::throughput(cell, std::to_string(c.cycle_us));
        if (best.runs.empty() || point.y.median > best.y.median) best = std::move(point);
      }
      points.push_back(std::move(best));
    }
    run.measured(fmt::format("{}, {} % GET", plan_name(run), w == 0 ? 95 : 100), std::move(points),
                 "of each cycle the batch size that did most");
  }
  run.given("paper: four nodes, 8 GPUs, 95 % GET", "section 8.7, text", {{"160", 639}});
}

void figure_17(PaperRun& run) {
  run.axes("scheduling cycle C (us)", "latency", "us", true);
  std::vector<PaperRun::Point> p50, p95, p99;
  std::vector<unsigned> within, beyond;
  std::vector<std::string> names;
  const std::vector<std::vector<CycleCells>> by_workload = by_cycle(run, {"K8-G95-S"});
  for (const CycleCells& c : by_workload.front()) {
    const double limit_us = 3.0 * c.cycle_us;
    const std::string& x = names.emplace_back(std::to_string(c.cycle_us));
    const Json* chosen = nullptr;
    double chosen_us = 0, chosen_rate = 0;
    for (const Json& cell : c.cells) {
      const double us = run.latency(cell, "p95", x).y.median;
      const double rate = PaperRun::throughput(cell, x).y.median;
      const bool is_better =
          chosen == nullptr || (us <= limit_us ? chosen_us > limit_us || rate > chosen_rate : us < chosen_us);
      if (!is_better) continue;
      chosen = &cell;
      chosen_us = us;
      chosen_rate = rate;
    }
    (chosen_us <= limit_us ? within : beyond).push_back(c.cycle_us);
    p50.push_back(run.latency(*chosen, "p50", x));
    p95.push_back(run.latency(*chosen, "p95", x));
    p99.push_back(run.latency(*chosen, "p99", x));
  }
  const std::string verdict =
      fmt::format("p95 <= 3C {}{}", within.empty() ? "for no C" : fmt::format("for C = {} us", fmt::join(within, ", ")),
                  beyond.empty() ? "" : fmt::format("; not for C = {} us", fmt::join(beyond, ", ")));
  const std::string rule =
      "of each cycle the batch size that did most with p95 <= 3C, or, where none had that, the one with the least p95";
  run.measured(fmt::format("p50, {}", plan_name(run)), std::move(p50), rule);
  run.measured(fmt::format("p95, {}", plan_name(run)), std::move(p95), verdict);
  run.measured(fmt::format("p99, {}", plan_name(run)), std::move(p99), rule);
  std::vector<PaperRun::Given> limits;
  for (const std::string& x : names) limits.push_back({x, 3 * std::stod(x)});
  run.given("paper: the longest response, 3C", "section 5.1, text", limits);
  run.given("paper: p95", "section 8.7, text (\"about\")", {{"160", 410}});
  run.given("paper: average", "section 8.7, text (\"about\")", {{"160", 280}});
}

}  // namespace tandem::bench::mega_kv_paper
