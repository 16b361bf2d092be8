// `tandem bench engine`: the store without a network.
#include <fmt/format.h>
#include <sysexits.h>
#include <unistd.h>

#include <charconv>
#include <optional>
#include <stdexcept>

#include <CLI/CLI.hpp>

#include "bench/cli/bench.hpp"
#include "bench/engine/engine.hpp"
#include "bench/engine/plan.hpp"
#include "bench/workload/spec.hpp"
#include "options/arguments.hpp"
#include "options/options.hpp"
#include "options/value.hpp"

namespace tandem::cli {
namespace {

struct EngineArguments {
  bench::EngineSettings settings;
  std::vector<std::string> alternate, plans;
  std::string items = "192MiB", every = "2ms", timeline, protocol = "text", sink = "copy", json;
  bool quiet = false, no_cache_misses = false;
};

// Seconds: 2ms, 300us, 0.5s.
double parse_duration(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const double scale = unit == "us" ? 1e-6 : unit == "ms" ? 1e-3 : unit == "s" ? 1.0 : 0.0;
  if (error != std::errc{} || scale == 0.0)
    throw std::invalid_argument(fmt::format("expected a time such as 2ms, got {}", in_quotes(text)));
  return value * scale;
}

std::string plans_help() {
  std::string text = "which processor runs which task:";
  for (const bench::EnginePlan& plan : bench::all_engine_plans())
    text += fmt::format(" {} ({})", plan.name, plan.summary);
  return text + "; or a plan's text, such as " + plan_search.text();
}

// Which plans run, with how many threads and requests at a time.
void add_plan_options(CLI::App& app, EngineArguments& g) {
  bench::EngineSettings& s = g.settings;
  auto* const threads = app.add_option("--threads", s.threads,
                                       "thread counts, each thread on a processor of its own (default: all processors)")
                            ->delimiter(',');
  auto* const batch = app.add_option("--batch", s.batches, "requests that are parsed and run together")
                          ->delimiter(',')
                          ->capture_default_str();
  app.add_option("--batch-per-us", s.batches_per_us, "or so many requests for each microsecond of --cycle")
      ->delimiter(',')
      ->excludes(batch);
  auto* const plan = app.add_option("--plan", s.plan, plans_help())->capture_default_str();
  app.add_option(
         "--plans", g.plans,
         "plans that take turns, each with its threads and batch: cpu:16x1024,frames:15x16384,auto:16; auto: as "
         "preset auto chooses. In place of --plan, --threads and --batch")
      ->delimiter(',')
      ->excludes(plan)
      ->excludes(threads)
      ->excludes(batch);
}

// Which keys are asked for, and when that begins.
void add_popularity_options(CLI::App& app, EngineArguments& g) {
  bench::EngineSettings& s = g.settings;
  app.add_option("--theta", s.theta, "skew of the zipf workloads, in place of 0.99");
  app.add_option("--shift-ops", s.shift_ops, "of the zipf workloads: after so many requests other keys are popular");
  app.add_option("--shift-keys", s.shift_keys, "by so many ranks");
  app.add_flag("--from-start", s.from_start, "nothing is compared, and no hot key learnt, before the first turn");
  app.add_option("--timeline", g.timeline, "with --json: mean latencies of stretches of this length, such as 10ms");
}

void add_engine_options(CLI::App& app, EngineArguments& g) {
  bench::EngineSettings& s = g.settings;
  app.add_option("--workloads", s.workloads,
                 "names, separated by commas (default: DIDO's 24, K8-G100-U ... K128-G50-S)")
      ->delimiter(',');
  app.add_option("--alternate", g.alternate, "two workloads that take each other's place, in place of --workloads")
      ->delimiter(',');
  app.add_option("--every", g.every, "with --alternate: how long each lasts")->capture_default_str();
  add_popularity_options(app, g);
  auto* const keys = app.add_option("--keys", s.keys, "keys of a workload");
  app.add_option("--items", g.items, "or as many keys as fill so much item memory")
      ->capture_default_str()
      ->excludes(keys);
  add_plan_options(app, g);
  app.add_option("--protocol", g.protocol,
                 "text, meta, binary; udp: text, one request a datagram; raw: the same in whole Ethernet frames")
      ->capture_default_str();
  app.add_option("--in-flight", s.in_flight, "requests of one connection in a batch; 0: a batch is one connection's")
      ->capture_default_str();
  app.add_option("--sink", g.sink,
                 "what replies go to; copy: a ring of 64 KiB for each client, as a socket copies them; lend: nothing, "
                 "as no transport does")
      ->capture_default_str();
  app.add_flag("--getk", s.getk,
               "with --protocol meta: beside each subject the same one whose GETs leave the comparison of keys to the "
               "client");
  app.add_option(
         "--index", s.index,
         fmt::format("{}; ordered: cuckoo, and the keys' order beside it", fmt::join(bench::engine_indexes(), ", ")))
      ->capture_default_str();
  app.add_flag("--simulate", s.simulate, "the plan's devices in software, to see that it works");
  app.add_option("--devices", s.devices, "of the plan: 1, 2, 4 or 8, each with a share of the index")
      ->capture_default_str();
  app.add_flag("--steal", s.steal, "workers keep a share of their batches when the plan's device does not keep up");
  app.add_option("--cycle", s.cycles_us,
                 "microseconds from one launch of the plan's device to the next at least; 0: as soon as one ends")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option(
         "--rate", s.rates,
         "operations a second of all threads together, in an open loop: latencies begin when a batch was due; 0: "
         "as many as possible")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--misses", s.miss_share, "share of the GETs whose keys were never stored")->capture_default_str();
  app.add_option("--subjects", s.subjects,
                 "what takes turns: wire, embedded, two-lines, copy (default: all that the workload allows)")
      ->delimiter(',');
  app.add_option("--rounds", s.rounds, "turns of each subject")->capture_default_str();
  auto* const seconds = app.add_option("--seconds", s.seconds, "of a turn")->capture_default_str();
  app.add_option("--ops", s.ops, "requests of a turn and thread, in place of --seconds")->excludes(seconds);
  app.add_option("--requests", s.tape.ops, "that are drawn for each thread and replayed, at most")
      ->capture_default_str();
  app.add_option("--seed", s.seed, "of the requests")->capture_default_str();
  app.add_option("--memory-file", s.memory_file, "where items lie; a new or empty file");
  app.add_flag("--no-cache-misses", g.no_cache_misses, "do not count them");
  app.add_option("--json", g.json,
                 "write the document to a file (-: standard output, and the table to standard error)");
  app.add_flag("--quiet", g.quiet, "no table and no progress");
}

// Checks and completes the given options. Throws CommandError.
void check_arguments(EngineArguments& g) {
  bench::EngineSettings& s = g.settings;
  try {
    s.item_bytes = parse_size(g.items);
    s.protocol = bench::parse_wire_protocol(g.protocol);
    s.sink = bench::parse_sink(g.sink);
    s.alternate_every_s = parse_duration(g.every);
    if (!g.timeline.empty()) s.timeline_every_s = parse_duration(g.timeline);
    s.cache_misses = !g.no_cache_misses;
    for (const std::string& plan : g.plans) s.plans.push_back(bench::parse_plan_choice(plan));
    s.alternates = !g.alternate.empty();
    if (s.alternates && !s.workloads.empty())
      throw std::invalid_argument("--workloads and --alternate cannot be used together");
    if (s.alternates) s.workloads = g.alternate;
    if (s.workloads.empty()) s.workloads = bench::dido_workloads();
    bench::validate(s);
  } catch (const std::invalid_argument& error) {
    throw CommandError(EX_USAGE, fmt::format("bench engine: {}", error.what()));
  }
}

}  // namespace

int run_bench_engine(std::span<const std::string> arguments) {
  EngineArguments g;
  CLI::App app(
      "Runs the store in process: requests in wire format in memory, all tasks, replies in wire format in memory.",
      "tandem bench engine");
  add_engine_options(app, g);
  if (const auto done = parse_arguments(app, arguments, "bench engine")) return *done;
  check_arguments(g);

  std::FILE* const out = g.json == "-" ? stderr : stdout;
  const bool shows_progress = !g.quiet && isatty(STDERR_FILENO) != 0;
  bench::EngineHooks hooks;
  if (shows_progress) {
    hooks.progress = [](std::string_view what) { fmt::print(stderr, "\r\x1b[K{}", what); };
  }
  if (!g.quiet) {
    const bool has_plans = !g.settings.plans.empty();
    fmt::print(out, "{}", has_plans ? bench::plans_heading() : bench::engine_heading());
    hooks.cell = [out, shows_progress, has_plans](const bench::Json& cell) {
      if (shows_progress) fmt::print(stderr, "\r\x1b[K");
      fmt::print(out, "{}", has_plans ? bench::plans_rows(cell) : bench::engine_row(cell));
      std::fflush(out);
    };
  }
  bench::Json document = bench::make_document(bench::command_line(g.settings));
  const bench::Json cells = bench::run_engine(g.settings, document, hooks);
  if (!g.quiet) {
    if (!g.settings.plans.empty()) {
      fmt::print(out, "{}", bench::plans_means(cells));
    } else {
      fmt::print(out, "{}{}{}", bench::engine_scaling(cells), bench::engine_rates(cells), bench::engine_getk(cells));
    }
    for (const bench::Json& note : document["notes"]) fmt::print(out, "note: {}\n", note.get<std::string>());
  }
  if (!g.json.empty()) bench::write_document(document, g.json);
  if (const std::string errors = bench::errors_of(document); !errors.empty()) {
    fmt::print(stderr, "tandem: bench engine: {}\n", errors);
    return EXIT_FAILURE;
  }
  return EX_OK;
}

}  // namespace tandem::cli
