// `tandem calibrate`: measures launches on a GPU, for --gpu-latency-target.
#include <fmt/format.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include <CLI/CLI.hpp>

#include "cli/calibrate_plans.hpp"
#include "cli/command.hpp"
#include "cli/invocation.hpp"
#include "device/cuda/cuda_device.hpp"
#include "options/arguments.hpp"
#include "options/calibration_file.hpp"
#include "options/options.hpp"
#include "options/plan_costs_file.hpp"
#include "options/value.hpp"
#include "preset/preset.hpp"
#include "process/open_gpu.hpp"

namespace tandem::cli {
namespace {

struct CalibrateArguments {
  std::string gpu = "auto", table, file = calibration_path();
  CalibrationOptions options;
  double get_percent = 95;
  unsigned change_cycles = 2;
  bool json = false, only_shows = false;
  bool has_plans = false;
  CalibratePlansArguments plans{.gpu = {}, .items = {}, .file = {}, .threads = 0, .rounds = 3, .seconds = 0.1};
};

void add_calibrate_options(CLI::App& app, CalibrateArguments& g) {
  app.add_option("--gpu", g.gpu, "auto (the first one), a number as `tandem devices` lists them, or sim")
      ->capture_default_str();
  app.add_option("--table", g.table, "size of the table that is searched and changed (default: 1GiB; with sim 4MiB)");
  app.add_option("--load", g.options.load, "share of its cells that has a key")->capture_default_str();
  app.add_option("--searches", g.options.searches_max, "Searches of the largest launch")->capture_default_str();
  app.add_option("--sets", g.options.sets_max, "SETs of the largest launch, an Insert and a Delete each")
      ->capture_default_str();
  app.add_option("--steps", g.options.steps, "sizes of launches, evenly spaced")
      ->capture_default_str()
      ->check(CLI::Range(2, 1000));
  app.add_option("--rounds", g.options.rounds, "launches of each size")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  app.add_option("--seed", g.options.seed, "of the keys")->capture_default_str();
  app.add_option("--get-share", g.get_percent, "percentage of GETs, for the table of cycles")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--change-cycles", g.change_cycles, "Mega-KV's n, for the table of cycles")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_flag("--plans", g.has_plans,
               "measure what plans demand, by the share of SETs, size and popularity, in place of launches");
  app.add_option("--items", g.plans.items, "with --plans: item memory that keys fill (default: 1GiB; with sim 4MiB)");
  app.add_option("--threads", g.plans.threads, "with --plans: processors (default: all)")->check(CLI::Range(1, 128));
  app.add_option("--turns", g.plans.rounds, "with --plans: turns of each plan with each load")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--seconds", g.plans.seconds, "with --plans: of a turn")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 60.0));
  app.add_option("--file", g.file, "where the calibration is kept; with --plans plans.json beside it")
      ->capture_default_str();
  app.add_flag("--no-file", g.only_shows, "keep nothing");
  app.add_flag("--json", g.json, "print the calibration as JSON in place of tables");
}

std::shared_ptr<Device> open_one(const std::string& gpu) {
  Settings settings = serve_defaults();
  settings.gpu.which = gpu;
  settings.server.preset = number_of(Preset::mega_kv);
  if (gpu == "off") throw CommandError(EX_USAGE, "calibrate: --gpu: there is nothing to measure without a GPU");
  check_gpu(settings, "calibrate: --gpu");
  if (gpu == "auto") {
    if (const DeviceCount found = cuda_device_count(); found.count == 0)
      throw CommandError(EX_UNAVAILABLE, fmt::format("calibrate: no GPU: {}", found.reason));
  }
  std::string why;
  const auto devices = open_gpus(settings, [&](std::string_view what) { why = what; });
  if (devices.empty()) throw CommandError(EX_UNAVAILABLE, fmt::format("calibrate: {}", why));
  return devices.front();
}

void print_line(std::string_view name, std::string_view queries, const CalibrationLine& line) {
  fmt::print("{}: T = {:.4f} ns x {} + {:.0f} ns, R^2 {:.4f}\n", name, line.fit.line.query_ns, queries,
             line.fit.line.launch_ns, line.fit.r2);
  fmt::print("  {:>9} {:>11} {:>11} {:>11} {:>11}\n", queries, "median, us", "least, us", "most, us", "residual");
  for (const CalibrationSample& s : line.samples) {
    fmt::print("  {:>9} {:>11.2f} {:>11.2f} {:>11.2f} {:>+11.2f}\n", s.queries, s.median_ns / 1e3, s.low_ns / 1e3,
               s.high_ns / 1e3, (s.median_ns - line.fit.line.of(static_cast<double>(s.queries))) / 1e3);
  }
}

void print_cycles(const CalibrateArguments& g, const Calibration& c) {
  const CycleModel model = c.model(g.get_percent / 100, g.change_cycles), undelayed = c.model(g.get_percent / 100, 1);
  fmt::print("cycles ({:g} % GET, changes every {}): at least {:.1f} us; {:.1f} us with changes in every one\n",
             g.get_percent, g.change_cycles, *cycle_min_ns(model, 0) / 1e3, *cycle_min_ns(undelayed, 0) / 1e3);
  fmt::print("  {:>9} {:>13} {:>11} {:>11}\n", "C, us", "GET within, us", "M/s at most", "undelayed");
  for (const unsigned us : {40u, 60u, 80u, 120u, 160u, 200u, 240u, 280u, 320u, 640u}) {
    fmt::print("  {:>9} {:>13} {:>11.1f} {:>11.1f}\n", us, us * cycles_of_a_get, rate_max(model, us * 1e3) * 1e3,
               rate_max(undelayed, us * 1e3) * 1e3);
  }
}

}  // namespace

int run_calibrate(std::span<const std::string> arguments) {
  CalibrateArguments g;
  CLI::App app(
      "Measures on a GPU what launches of Searches, and of Inserts and Deletes, take by their size, fits lines to that "
      "(Mega-KV 5.2) and keeps them in a file. `tandem serve --preset mega-kv --gpu-latency-target` chooses its cycle "
      "by them.",
      "tandem calibrate");
  add_calibrate_options(app, g);
  if (const auto done = parse_arguments(app, arguments, "calibrate")) return *done;
  if (!g.only_shows && g.file.empty())
    throw CommandError(EX_USAGE, "calibrate: --file must name a file, as no home is known; or --no-file");
  if (g.has_plans) {
    g.plans.gpu = g.gpu;
    g.plans.json = g.json;
    if (!g.only_shows) g.plans.file = g.file == calibration_path() ? plan_costs_path() : g.file;
    return calibrate_plans(g.plans);
  }
  try {
    const std::string table = !g.table.empty() ? g.table : g.gpu == "sim" ? "4MiB" : "1GiB";
    g.options.cells = parse_size(table) / sizeof(Cell);
  } catch (const ValueError& error) {
    throw CommandError(EX_USAGE, fmt::format("calibrate: --table: {}", error.what()));
  }
  const std::shared_ptr<Device> device = open_one(g.gpu);
  const bool shows_progress = isatty(STDERR_FILENO) != 0;
  if (shows_progress) g.options.progress = [](std::string_view what) { fmt::print(stderr, "\r\x1b[K{}", what); };
  Calibration c;
  try {
    c = calibrate(*device, g.options);
  } catch (const std::invalid_argument& error) {
    throw CommandError(EX_USAGE, fmt::format("calibrate: {}", error.what()));
  } catch (const std::runtime_error& error) {
    throw CommandError(EX_UNAVAILABLE, fmt::format("calibrate: {}", error.what()));
  }
  if (shows_progress) fmt::print(stderr, "\r\x1b[K");
  const nlohmann::ordered_json document = calibration_json(device->info(), c);
  if (g.json) {
    fmt::print("{}\n", calibration_text(document));
  } else {
    fmt::print("{}, a table of {} with {} keys ({:.3g} full)\n", device->info().name,
               format_size_rounded(c.cells * sizeof(Cell)), c.keys,
               static_cast<double>(c.keys) / static_cast<double>(c.cells));
    print_line("Search", "queries", c.search);
    print_line("Insert and Delete", "SETs", c.change);
    print_cycles(g, c);
  }
  if (!g.only_shows) keep_calibration(document, g.file, g.json);
  return EX_OK;
}

}  // namespace tandem::cli
