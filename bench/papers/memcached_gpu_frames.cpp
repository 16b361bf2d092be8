// MemcachedGPU's tables 3 to 6: requests that the GPU answers whole, in process, beside the CPU plan. Frames lie one
// behind the other in memory, from the Ethernet header to the last byte; there is no network.
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "bench/papers/mega_kv.hpp"
#include "bench/papers/memcached_gpu.hpp"

namespace tandem::bench::memcached_gpu_paper {
namespace {

constexpr std::uint32_t large_batch = 16'384;  // of requests: as many as a worker of the server may submit

std::vector<std::uint32_t> batches_of(const PaperRun& run, std::vector<std::uint32_t> all) {
  return run.options().quick ? std::vector<std::uint32_t>{paper_batch} : std::move(all);
}

}  // namespace

std::string gpu_plan_name(const PaperRun& run) { return run.options().gpu == "sim" ? "frames, simulated" : "frames"; }

EngineSettings cpu_settings(const PaperRun& run, std::vector<std::string> workloads) {
  EngineSettings settings = run.engine_settings(std::move(workloads));
  settings.protocol = WireProtocol::raw;
  settings.batches = {paper_batch};
  return settings;
}

EngineSettings gpu_settings(const PaperRun& run, std::vector<std::string> workloads) {
  EngineSettings settings = cpu_settings(run, std::move(workloads));
  mega_kv_paper::use_device(run, "frames", settings);
  settings.index = "set_associative";
  return settings;
}

bool has_gpu(PaperRun& run) { return mega_kv_paper::has_gpu(run, "the GPU's side"); }

void table_3(PaperRun& run) {
  constexpr std::array<std::string_view, 4> keys = {"16", "32", "64", "128"};
  std::vector<std::string> workloads;
  for (const std::string_view key : keys) workloads.push_back(fmt::format("K{}-V2-G100-U", key));
  run.axes("key size (bytes)", "throughput of GETs in raw frames", "Mops/s", true);
  const auto measure = [&](const std::string& name, const EngineSettings& settings) {
    const Json cells = run.engine(settings);
    std::vector<PaperRun::Point> points;
    for (std::size_t i = 0; i < keys.size(); ++i)
      points.push_back(PaperRun::throughput(cells[i], std::string(keys[i])));
    run.measured(name, std::move(points));
  };
  measure("CPU plan, batches of 512", cpu_settings(run, workloads));
  if (has_gpu(run)) {
    EngineSettings settings = gpu_settings(run, workloads);
    for (const std::uint32_t batch : batches_of(run, {paper_batch, large_batch})) {
      settings.batches = {batch};
      measure(fmt::format("{}, batches of {}", gpu_plan_name(run), batch), settings);
    }
  }
  run.given("paper: Tesla K20c, online at 10 GbE", "table 3",
            {{"16", 12.92}, {"32", 11.14}, {"64", 8.66}, {"128", 6.01}});
  run.given("paper: GTX 750Ti, online at 10 GbE", "table 3",
            {{"16", 12.86}, {"32", 11.06}, {"64", 8.68}, {"128", 6.01}});
}

void table_4(PaperRun& run) {
  // Section 5.3: GETs of 16-byte keys, SETs beside them, which arrive by TCP. Here both are lines of TCP streams.
  struct Share {
    std::string_view label;
    double gets;
  };
  constexpr std::array<Share, 3> shares = {{{"G100", 1}, {"G95", 0.95}, {"G50", 0.5}}};
  run.axes("share of GETs", "GETs and SETs together", "Mops/s");
  const auto measure = [&](const std::string& name, EngineSettings settings) {
    settings.protocol = WireProtocol::text;
    settings.in_flight = 16;
    const Json cells = run.engine(settings);
    std::vector<PaperRun::Point> gets, sets;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const PaperRun::Point all = PaperRun::throughput(cells[i], std::string(shares[i].label));
      const auto scaled = [&](double by) {
        return PaperRun::Point{all.x, {all.y.median * by, all.y.low * by, all.y.high * by}, all.runs};
      };
      gets.push_back(scaled(shares[i].gets));
      sets.push_back(scaled(1 - shares[i].gets));
    }
    run.measured(name + ", GETs", std::move(gets));
    run.measured(name + ", SETs", std::move(sets));
  };
  std::vector<std::string> workloads;
  for (const Share& share : shares) workloads.push_back(fmt::format("K16-V2-{}-U", share.label));
  measure("CPU plan", cpu_settings(run, workloads));
  if (has_gpu(run)) {
    EngineSettings settings = gpu_settings(run, workloads);
    settings.batches = batches_of(run, {large_batch});
    measure(gpu_plan_name(run), settings);
  }
  run.given("paper: Tesla K20c, GETs", "table 4, where SETs are 0.3 to 0.13 % of GETs",
            {{"99.7 %", 7}, {"99.79 %", 8.8}, {"99.81 %", 9.7}, {"99.84 %", 10.6}, {"99.87 %", 11.7}});
  run.given("paper: Tesla K20c, SETs", "table 4",
            {{"99.7 %", 0.0211}, {"99.79 %", 0.0183}, {"99.81 %", 0.018}, {"99.84 %", 0.0167}, {"99.87 %", 0.0157}});
}

void table_5(PaperRun& run) {
  // Section 5.1: keys of 16 bytes, values of 2, only GETs.
  constexpr PaperRun::Axis latency = {"latency of a batch", "us"};
  run.axes("platform", "throughput", "Mops/s");
  std::vector<PaperRun::Point> rates, latencies;
  const auto measure = [&](const std::string& name, const EngineSettings& settings) {
    const Json cells = run.engine(settings);
    rates.push_back(PaperRun::throughput(cells[0], name));
    latencies.push_back(run.latency(cells[0], "p50", name));
  };
  measure("CPU plan, batches of 512", cpu_settings(run, {"K16-V2-G100-U"}));
  if (has_gpu(run)) {
    EngineSettings settings = gpu_settings(run, {"K16-V2-G100-U"});
    for (const std::uint32_t batch : batches_of(run, {paper_batch, large_batch})) {
      settings.batches = {batch};
      measure(fmt::format("{}, batches of {}", gpu_plan_name(run), batch), settings);
    }
  }
  run.measured("here, raw frames, throughput", std::move(rates));
  run.measured("here, raw frames, median latency", std::move(latencies), {}, latency);
  run.given("paper: throughput", "table 5", {{"Tesla K20c", 27.5}, {"GTX Titan", 27.7}, {"GTX 750Ti", 28.3}});
  run.given("paper: mean latency", "table 5", {{"Tesla K20c", 353.4}, {"GTX Titan", 301.1}, {"GTX 750Ti", 263.6}},
            latency);
}

void table_6(PaperRun& run) {
  run.axes("platform", "throughput", "Mops/s");
  const auto point = [&](const EngineSettings& settings, const char* label) {
    return std::vector{PaperRun::throughput(run.engine(settings)[0], label)};
  };
  run.measured("CPU plan, 95 % GET, lines", [&] {
    EngineSettings settings = cpu_settings(run, {"K16-V2-G95-U"});
    settings.protocol = WireProtocol::text;
    return point(settings, "CPU plan");
  }());
  if (has_gpu(run)) {
    EngineSettings settings = gpu_settings(run, {"K16-V2-G100-U"});
    settings.batches = batches_of(run, {large_batch});
    run.measured(gpu_plan_name(run) + ", GETs, raw frames", point(settings, "GPU, offline"));
  }
  run.given("paper: compared platforms", "table 6",
            {{"MemcachedGPU, Tesla K20c, online", 12.9},
             {"MemcachedGPU, GTX 750Ti, offline", 28.3},
             {"memcached, 4 threads", 0.93},
             {"memcached, PF_RING, 2 threads", 1.82},
             {"Flying Memcache", 1.67},
             {"MICA, 2x Xeon E5-2680, online", 76.9},
             {"MICA, 2x Xeon E5-2680, offline", 156},
             {"MemC3, 2x Xeon L5640", 4.4},
             {"FPGA", 13.02}});
}

}  // namespace tandem::bench::memcached_gpu_paper
