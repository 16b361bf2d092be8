// MemcachedGPU's figures 3, 4 and 5: raw frames at given rates, in an open loop. Latencies begin when a batch was due.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/common/energy.hpp"
#include "bench/papers/mega_kv.hpp"
#include "bench/papers/memcached_gpu.hpp"

namespace tandem::bench::memcached_gpu_paper {
namespace {

constexpr double mega = 1e6;
constexpr double quick_rate = 0.1 * mega;

// The paper's, and what follows where its network ends.
std::vector<double> rates_of(const PaperRun& run, std::vector<double> millions) {
  if (run.options().quick) return {quick_rate};
  for (double& rate : millions) rate *= mega;
  return millions;
}
std::string x_of(double rate) { return fmt::format("{:g}", rate / mega); }

constexpr std::string_view of_cpu = "CPU plan";

}  // namespace

void figure_3(PaperRun& run) {
  run.axes("requests offered (million a second)", "latency of requests in batches of 512", "us", true);
  const auto measure = [&](const std::string& name, EngineSettings settings, std::vector<double> millions) {
    settings.rates = rates_of(run, std::move(millions));
    const Json cells = run.engine(settings);
    std::vector<PaperRun::Point> mean, p95;
    for (std::size_t i = 0; i < settings.rates.size(); ++i) {
      mean.push_back(run.latency(cells[i], "mean", x_of(settings.rates[i])));
      p95.push_back(run.latency(cells[i], "p95", x_of(settings.rates[i])));
    }
    run.measured(name + ", mean", std::move(mean));
    run.measured(name + ", p95", std::move(p95));
  };
  measure(std::string(of_cpu), cpu_settings(run, {"K16-V2-G100-U"}), {2, 4, 8, 13, 25, 50});
  if (has_gpu(run)) measure(gpu_plan_name(run), gpu_settings(run, {"K16-V2-G100-U"}), {2, 4, 8, 13, 25, 50, 100, 150});
  run.given("paper: Tesla K20c, GNoM, p95, less than", "section 5.3 and abstract", {{"8", 300}});
  run.given("paper: Tesla K20c, GNoM, p95 at line rate", "section 5.3, text", {{"13", 1100}});
  run.given("paper: GTX 750Ti, NGD, p95 at line rate", "section 5.3, text", {{"13", 1800}});
  run.missing(missing_fill);
}

std::string no_meter(const PaperOptions& options) {
  std::string why = no_gpu(options);
  if (why.empty() && !EnergyMeter().is_available()) why = "neither GPU nor processors tell what energy they use";
  return why;
}

void figure_4(PaperRun& run) {
  constexpr PaperRun::Axis efficiency_axis = {"requests for each W of these", "thousand/s/W"};
  run.axes("requests offered (million a second)", "power", "W", true);
  if (!has_gpu(run)) return;
  EnergyMeter meter;
  EngineHooks hooks;
  hooks.turn = [&meter](Engine&, unsigned) {
    meter.start();
    return [&meter] { return Json{{"energy", to_json(meter.stop(), 0)}}; };
  };
  std::string unmetered;
  const auto measure = [&](const std::string& name, EngineSettings settings, std::vector<double> millions) {
    constexpr double least_s = 1;  // a GPU tells its energy some ten times a second
    settings.rates = rates_of(run, std::move(millions));
    settings.seconds = std::max(settings.seconds, run.options().quick ? 0.1 : least_s);
    const Json cells = run.engine(settings, hooks);
    std::map<std::string, std::vector<PaperRun::Point>> watts;
    std::vector<PaperRun::Point> efficiency;
    for (std::size_t i = 0; i < settings.rates.size(); ++i) {
      const PaperRun::Point rate = PaperRun::throughput(cells[i], x_of(settings.rates[i]));
      std::map<std::string, std::vector<double>> of_part;
      std::vector<double> per_watt;
      for (const std::size_t r : rate.runs) {
        const Json& result = run.document()["runs"][r]["result"];
        const Json& energy = result["energy"];
        if (energy.contains("unavailable")) continue;
        unmetered = energy.value("missing", std::string());
        // The CPU plan does nothing on the GPU.
        if (settings.plan == "cpu" && !energy["source"].get<std::string>().starts_with("rapl")) continue;
        const double seconds = result["seconds"];
        for (const auto& [part, joules] : energy["parts"].items())
          of_part[part].push_back(joules.get<double>() / seconds);
        per_watt.push_back(result["ops_per_s"].get<double>() / 1e3 * seconds / energy["joules"].get<double>());
      }
      for (const auto& [part, values] : of_part) watts[part].push_back({rate.x, spread_of(values), rate.runs});
      if (!per_watt.empty()) efficiency.push_back({rate.x, spread_of(per_watt), rate.runs});
    }
    for (auto& [part, points] : watts) run.measured(fmt::format("{}, {}", name, part), std::move(points));
    if (!efficiency.empty()) run.measured(name + ", efficiency", std::move(efficiency), {}, efficiency_axis);
  };
  measure(gpu_plan_name(run), gpu_settings(run, {"K16-V2-G100-U"}), {1, 4, 8, 13, 50, 150});
  measure(std::string(of_cpu), cpu_settings(run, {"K16-V2-G100-U"}), {1, 13, 50});
  run.given("paper: Tesla K20c, GPU alone, the most", "section 5.3, text", {{"13", 71}});
  run.given("paper: GTX 750Ti, NGD, of the whole system", "section 5.3, text", {{"13", 84.8}}, efficiency_axis);
  if (!unmetered.empty()) run.missing(unmetered);
}

void figure_5(PaperRun& run) {
  constexpr std::array<std::string_view, 6> all_keys = {"16", "32", "64", "128", "72", "16..128"};
  constexpr std::string_view same_mean = "72";
  constexpr double misses = 0.15;
  constexpr std::uint32_t throughput_batch = 16'384;
  constexpr PaperRun::Axis mixed_axis = {"throughput of mixed sizes by that of their mean", "ratio"};
  run.axes("key size (bytes)", "latency at 4 million requests a second", "us");
  if (!has_gpu(run)) return;
  const std::span keys = run.options().quick ? std::span(all_keys).last(2) : std::span(all_keys);
  std::vector<std::string> workloads;
  for (const std::string_view size : keys) workloads.push_back(fmt::format("K{}-V2-G100-U", size));
  EngineSettings settings = gpu_settings(run, workloads);
  settings.batches = {paper_batch, run.options().quick ? 2 * paper_batch : throughput_batch};
  settings.rates = {run.options().quick ? quick_rate : paper_rate, 0};
  const Json cells = run.engine(settings);
  const std::size_t cells_each = settings.batches.size() * settings.rates.size();
  settings.batches = {paper_batch};
  settings.rates.pop_back();
  settings.miss_share = misses;
  const Json cells_with_misses = run.engine(settings);
  std::vector<PaperRun::Point> hits_us, misses_us;
  PaperRun::Point mixed, fixed;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const std::string x(keys[k]);
    hits_us.push_back(run.latency(cells[k * cells_each], "mean", x));
    misses_us.push_back(run.latency(cells_with_misses[k], "mean", x));
    PaperRun::Point rate = PaperRun::throughput(cells[k * cells_each + cells_each - 1], x);
    if (keys[k] == same_mean) fixed = rate;
    mixed = std::move(rate);  // the last one's
  }
  const double by = fixed.y.median;
  run.measured(gpu_plan_name(run) + ", mean latency, 100 % hits", std::move(hits_us));
  run.measured(gpu_plan_name(run) + ", mean latency, 85 % hits", std::move(misses_us));
  run.measured(gpu_plan_name(run) + ", mixed sizes",
               {{mixed.x, {mixed.y.median / by, mixed.y.low / by, mixed.y.high / by}, mixed.runs}}, {}, mixed_axis);
  run.given("paper: Tesla K20c, throughput by the theoretical one of a mix, at least", "section 5.3, text",
            {{"16..128", 0.99}}, mixed_axis);
  run.missing("the paper's distributions of key lengths, which are only drawn");
  run.missing(missing_fill);
}

}  // namespace tandem::bench::memcached_gpu_paper
