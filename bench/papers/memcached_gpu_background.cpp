// MemcachedGPU's figures 6 and 7 (section 5.4): other work on the GPU beside the store, cut into kernels.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/ticks.hpp"
#include "bench/papers/background_task.hpp"
#include "bench/papers/memcached_gpu.hpp"

namespace tandem::bench::memcached_gpu_paper {
namespace {

constexpr double stretch_s = 0.5e-3;    // of the timeline; the paper's windows of 256 requests are 64 us
constexpr double task_begins_s = 0.03;  // after the turn
constexpr double shown_before_s = 2e-3, shown_after_s = 50e-3;
constexpr double recovers_s = 20e-3;  // after the task, in the paper

enum class Priority : std::uint8_t { low, same };
constexpr std::array<const char*, 2> priority_names = {"low", "same"};

// Blocks in place of each of the task's, in some variants: a kernel that a priority can divide, in place of kernels.
constexpr std::uint32_t short_blocks = 16;

// One way to run the task, in one turn of each round.
struct Variant {
  std::uint32_t kernels, split_blocks;
  Priority priority;

  // The series of Figure 7 that it is a point of.
  std::string series() const {
    return fmt::format("{} priority{}", priority_names[static_cast<std::size_t>(priority)],
                       split_blocks != 1 ? fmt::format(", {} times as many blocks", split_blocks) : std::string());
  }
  std::string name() const { return fmt::format("{} kernels, {}", kernels, series()); }
};

std::vector<std::uint32_t> kernel_counts(const PaperRun& run) {
  return run.options().quick ? std::vector<std::uint32_t>{1, 4} : std::vector<std::uint32_t>{1, 4, 16, 64};
}

std::vector<Variant> variants_of(const PaperRun& run) {
  std::vector<Variant> variants;
  for (const Priority priority : {Priority::low, Priority::same}) {
    for (const std::uint32_t kernels : kernel_counts(run)) variants.push_back({kernels, 1, priority});
    variants.push_back({1, short_blocks, priority});
  }
  return variants;
}

// The task on the store's device.
class Beside {
 public:
  Beside(PaperRun& run, std::vector<Variant> variants) : run_(run), variants_(std::move(variants)) {}

  const std::vector<Variant>& variants() const noexcept { return variants_; }
  // The task alone, before the first turn: seconds, by the number of kernels.
  const std::map<std::uint32_t, std::vector<double>>& alone() const noexcept { return alone_; }

  EngineHooks hooks() {
    EngineHooks hooks;
    hooks.loaded = [this](Engine& engine) { prepare(engine.options().devices.front()); };
    hooks.turn = [this](Engine&, unsigned round) { return begin(variants_[round % variants_.size()]); };
    return hooks;
  }

 private:
  void prepare(std::shared_ptr<Device> device) {
    device_ = std::move(device);
    task_ = std::make_unique<BackgroundTask>(*device_, BackgroundTask::size_for(*device_));
    streams_[static_cast<std::size_t>(Priority::low)] = device_->make_background_stream();
    streams_[static_cast<std::size_t>(Priority::same)] = device_->make_stream();
    for (unsigned round = 0; round < rounds_of(run_); ++round) {
      for (const std::uint32_t kernels : kernel_counts(run_)) {
        alone_[kernels].push_back(task_->run(stream_of(Priority::low), kernels));
        check();
      }
    }
  }
  static unsigned rounds_of(const PaperRun& run) { return run.options().quick ? 1 : run.options().rounds; }
  Stream& stream_of(Priority priority) { return *streams_[static_cast<std::size_t>(priority)]; }
  void check() {
    if (!task_->is_right()) throw std::runtime_error("the background task's product is wrong");
    task_->clear();
  }

  std::function<Json()> begin(const Variant& variant) {
    struct Running {
      double began_s = 0, seconds = 0;
      std::exception_ptr error;
      std::jthread thread;  // joined first
    };
    auto running = std::make_shared<Running>();
    const auto start = std::chrono::steady_clock::now();
    running->thread = std::jthread([this, running = running.get(), start, variant] {
      std::this_thread::sleep_until(
          start + std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(task_begins_s)));
      running->began_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      try {
        running->seconds = task_->run(stream_of(variant.priority), variant.kernels, variant.split_blocks);
      } catch (...) {
        running->error = std::current_exception();
      }
    });
    return [this, running, variant] {
      running->thread.join();
      if (running->error) std::rethrow_exception(running->error);
      check();
      return Json{{"background",
                   {{"kernels", variant.kernels},
                    {"priority", priority_names[static_cast<std::size_t>(variant.priority)]},
                    {"began_s", running->began_s},
                    {"seconds", running->seconds}}}};
    };
  }

  PaperRun& run_;
  const std::vector<Variant> variants_;
  std::shared_ptr<Device> device_;  // outlives what follows
  std::unique_ptr<BackgroundTask> task_;
  std::array<std::unique_ptr<Stream>, 2> streams_;
  std::map<std::uint32_t, std::vector<double>> alone_;
};

// A run of the task alone, in the document; returns its number.
std::size_t add_task_run(PaperRun& run, std::uint32_t kernels, double seconds) {
  const std::size_t number = run.run_count();
  run.document()["runs"].push_back({{"kind", "memory"},
                                    {"cell", fmt::format("background task alone, {} kernels", kernels)},
                                    {"subject", "GPU"},
                                    {"round", 0},
                                    {"command", run.command()},
                                    {"settings", {{"kernels", kernels}}},
                                    {"result", {{"seconds", seconds}, {"ops", 1}, {"ops_per_s", 1 / seconds}}}});
  return number;
}

struct Measurement {
  std::vector<Variant> variants;
  std::map<std::uint32_t, std::vector<double>> alone_s;
  std::vector<std::vector<std::size_t>> runs;  // of each variant, in the document
};

Measurement measure(PaperRun& run) {
  std::vector<Variant> variants = variants_of(run);
  Beside beside(run, variants);
  EngineSettings settings = gpu_settings(run, {"K16-V2-G100-U"});
  settings.batches = {run.options().quick ? paper_batch / 8 : paper_batch};
  settings.rates = {run.options().quick ? paper_rate / 8 : paper_rate};
  settings.timeline_every_s = stretch_s;
  settings.seconds = task_begins_s + 0.2;  // long, as a busy machine may begin the task late
  settings.rounds = static_cast<unsigned>(variants.size()) * (run.options().quick ? 1 : run.options().rounds);
  const Json cells = run.engine(settings, beside.hooks());
  Measurement m{std::move(variants), beside.alone(), {}};
  m.runs.resize(m.variants.size());
  const auto runs = PaperRun::throughput(cells[0], "").runs;
  for (std::size_t i = 0; i < runs.size(); ++i) m.runs[i % m.runs.size()].push_back(runs[i]);
  return m;
}

// Mean latencies of a run's stretches, by their distance from the one in which the task began; none: nothing was
// received in it.
std::optional<double> mean_us(const Json& result, std::ptrdiff_t distance) {
  const auto began = static_cast<std::ptrdiff_t>(result["background"]["began_s"].get<double>() / stretch_s);
  const std::ptrdiff_t i = began + distance;
  const Json& timeline = result["timeline"];
  if (i < 0 || i >= std::ssize(timeline)) return {};
  const Json& stretch = timeline[static_cast<std::size_t>(i)];
  return stretch.contains("mean") ? std::optional(stretch["mean"].get<double>()) : std::nullopt;
}

}  // namespace

void figure_6(PaperRun& run) {
  run.axes("time since the background task began (ms)", "mean latency of the requests received in half a millisecond",
           "us", true);
  if (!has_gpu(run)) return;
  const Measurement m = measure(run);
  for (std::size_t v = 0; v < m.variants.size(); ++v) {
    std::vector<PaperRun::Point> points;
    for (auto d = static_cast<std::ptrdiff_t>(-shown_before_s / stretch_s);
         static_cast<double>(d) * stretch_s < shown_after_s; ++d) {
      std::vector<double> us;
      for (const std::size_t r : m.runs[v]) {
        if (const auto mean = mean_us(run.document()["runs"][r]["result"], d)) us.push_back(*mean);
      }
      if (!us.empty())
        points.push_back({fmt::format("{:g}", static_cast<double>(d) * stretch_s * 1e3), spread_of(us), m.runs[v]});
    }
    run.measured(fmt::format("{}, {}", gpu_plan_name(run), m.variants[v].name()), std::move(points));
  }
  run.given("paper: Tesla K20c, 16 kernels of 16 blocks, the highest mean", "section 5.4, text (\"about\")",
            {{"0", 1500}});
  run.given("paper: Tesla K20c, before the task, less than", "section 5.4, text", {{"-1", 300}});
  run.missing(missing_fill);
}

void figure_7(PaperRun& run) {
  constexpr PaperRun::Axis latency = {"latency of the store", "us"};
  run.axes("kernels of the background task", "its time", "ms", true);
  if (!has_gpu(run)) return;
  const Measurement m = measure(run);
  std::vector<PaperRun::Point> alone, before;
  std::vector<std::string> order;  // of the series
  std::map<std::string, std::vector<PaperRun::Point>> beside, highest;
  for (const auto& [kernels, seconds] : m.alone_s) {
    std::vector<double> ms;
    std::vector<std::size_t> runs;
    for (const double s : seconds) {
      ms.push_back(s * 1e3);
      runs.push_back(add_task_run(run, kernels, s));
    }
    alone.push_back({std::to_string(kernels), spread_of(ms), runs});
  }
  for (std::size_t v = 0; v < m.variants.size(); ++v) {
    const std::string x = std::to_string(m.variants[v].kernels);
    std::vector<double> ms, highest_us, before_us;
    for (const std::size_t r : m.runs[v]) {
      const Json& result = run.document()["runs"][r]["result"];
      ms.push_back(result["background"]["seconds"].get<double>() * 1e3);
      double most = 0;
      const double shown_s = ms.back() / 1e3 + recovers_s;
      for (std::ptrdiff_t d = 0; static_cast<double>(d) * stretch_s <= shown_s; ++d)
        most = std::max(most, mean_us(result, d).value_or(0));
      highest_us.push_back(most);
      for (std::ptrdiff_t d = -1; static_cast<double>(-d) * stretch_s <= shown_before_s; --d) {
        if (const auto us = mean_us(result, d)) before_us.push_back(*us);
      }
      if (before_us.empty()) before_us.push_back(result["latency_us"]["mean"]);
    }
    const std::string series = m.variants[v].series();
    if (!beside.contains(series)) order.push_back(series);
    beside[series].push_back({x, spread_of(ms), m.runs[v]});
    highest[series].push_back({x, spread_of(highest_us), m.runs[v]});
    if (series == order.front()) before.push_back({x, spread_of(before_us), m.runs[v]});
  }
  run.measured("task alone", std::move(alone));
  for (const std::string& series : order)
    run.measured(fmt::format("task beside the store, {}", series), std::move(beside[series]));
  for (const std::string& series : order)
    run.measured(fmt::format("{}, highest mean latency of half a millisecond, {}", gpu_plan_name(run), series),
                 std::move(highest[series]), {}, latency);
  run.measured(fmt::format("{}, mean latency in the 2 ms before the task", gpu_plan_name(run)), std::move(before), {},
               latency);
  run.given("paper: Tesla K20c, task, 1 kernel of 256 blocks", "section 5.4, text (\"around\")", {{"1", 32}});
  run.given("paper: Tesla K20c, 16 kernels, highest mean latency", "section 5.4, text (\"about\")", {{"16", 1500}},
            latency);
  run.missing(missing_fill);
}

}  // namespace tandem::bench::memcached_gpu_paper
