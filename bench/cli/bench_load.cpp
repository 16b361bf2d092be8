// `tandem bench load`: the load generator's options and its output.
#include <fmt/format.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include <CLI/CLI.hpp>

#include "bench/cli/bench.hpp"
#include "bench/cli/bench_common.hpp"
#include "bench/compare/load_run.hpp"
#include "bench/load/floor.hpp"
#include "bench/load/run.hpp"
#include "bench/workload/spec.hpp"
#include "options/options.hpp"
#include "options/value.hpp"

namespace tandem::cli {
namespace {

using workload::OpKind;
using workload::Popularity;
using workload::Spec;

// The command line's settings; missing ones are taken from the preset or the defaults.
struct LoadArguments {
  load::Options run;
  std::string preset, alternate, every, mix;
  std::optional<std::string> key_size, value_size, distribution, scan_items;
  std::optional<std::uint64_t> keys, shift_ops, shift_keys;
  std::optional<double> theta, get_ratio, seconds, warmup, timeout;
  std::optional<std::uint32_t> ttl_s;
  std::optional<bool> require_hits;
  std::uint64_t seed = 1;
  bool preload = false, quiet = false, ceiling = false, list = false, energy = true;
  std::string json;
  bench::RunLabel label;
};

constexpr const char* footer =
    "\nExit codes: 0 all was answered right; 1 wrong values or replies, misses that should have been hits,\n"
    "timeouts, broken connections (stderr says which); 64 bad usage; 69, 71 the run could not begin.\n"
    "docs/bench-load.md explains every number.\n";

void add_connection_options(CLI::App& app, LoadArguments& given) {
  load::Options& run = given.run;
  const auto group = app.add_option_group("connection");
  group->add_option("--connect,--server", run.server, "server: HOST:PORT, [V6]:PORT or unix:/PATH")
      ->capture_default_str();
  group
      ->add_option_function<std::string>(
          "--protocol",
          [&run](const std::string& name) {
            run.protocol = name == "text"   ? load::Protocol::text
                           : name == "meta" ? load::Protocol::meta
                           : name == "resp" ? load::Protocol::resp
                                            : load::Protocol::binary;
          },
          "text (default), meta, binary, or resp for Redis and Valkey")
      ->check(CLI::IsMember({"text", "meta", "binary", "resp"}))
      ->type_name("NAME");
  group->add_flag("--udp", run.udp, "over UDP");
  group->add_option("--threads", run.threads, "threads, each with its own connections")->capture_default_str();
  group->add_option("-c,--connections", run.connections, "connections (UDP: sockets) of all threads together")
      ->capture_default_str();
  group
      ->add_option_function<std::string>(
          "--processors", [&run](const std::string& text) { run.processors = parse_processors(text); },
          "processors that the threads run on in turn: 1,2 or 2-5")
      ->type_name("LIST");
  group->add_option("--timeout", given.timeout, "seconds without an answer that are an error (5; UDP: 1)");
  group->add_flag("--spin", run.spin, "never sleep: the server never pays for waking the client");
}

void add_loop_options(CLI::App& app, LoadArguments& given) {
  load::Options& run = given.run;
  const auto group = app.add_option_group("loop");
  group
      ->add_option("--pipeline", run.pipeline, "requests that leave in one send; a closed loop waits for their replies")
      ->capture_default_str();
  group->add_option("--multiget", run.multiget, "keys per get")->capture_default_str();
  group->add_flag("--getk", run.getk,
                  "meta: gets leave the comparison of keys to this client, which counts answers of other keys");
  group->add_option("--rate", run.rate_per_s,
                    "open loop: operations per second, sent when they are due whatever the server does; latency counts "
                    "from then");
  group
      ->add_option_function<std::string>(
          "--arrivals",
          [&run](const std::string& name) {
            run.arrivals = name == "poisson" ? load::Arrivals::poisson : load::Arrivals::uniform;
          },
          "of an open loop: uniform (default), at equal distances, or poisson")
      ->check(CLI::IsMember({"uniform", "poisson"}))
      ->type_name("NAME");
  group->add_option("--seconds", given.seconds, "length of the measurement (1)");
  group->add_option("--warmup", given.warmup, "seconds of load before it (0.1)");
  group->add_option("--ops", run.ops, "measure so many operations instead, without warm-up");
}

void add_workload_options(CLI::App& app, LoadArguments& given) {
  const auto group = app.add_option_group("workload");
  group->add_option("--workload", given.preset, "a preset, which the options below change; --list prints them")
      ->type_name("NAME");
  group->add_flag("--list", given.list, "print the presets and end");
  group->add_option("--keys", given.keys, "number of keys (1000000)");
  group->add_option("--key-size,--key-bytes", given.key_size, "bytes: 16 (default), 16-32, or etc, usr, app, var, sys");
  group->add_option("--value-size,--value-bytes", given.value_size,
                    "bytes: 64 (default), 64-512, or etc, usr, app, var, sys");
  group->add_option("--distribution", given.distribution, "zipf (default), uniform, sequential or latest")
      ->check(CLI::IsMember({"zipf", "uniform", "sequential", "latest"}));
  group->add_option("--theta", given.theta, "exponent of zipf and latest (0.99)");
  group->add_option("--get-ratio,--get-share", given.get_ratio, "share of gets, the rest being sets (0.95)");
  group->add_option(
      "--mix", given.mix,
      "shares of all operations: get=0.8,set=0.1,remove=0.05,touch=0.05 (also insert, read_modify_write, scan)");
  group
      ->add_option("--scan-items", given.scan_items,
                   "most items of a scan: 1-100 (default), all equally likely, or one number up to 1024; scans need "
                   "--protocol meta")
      ->type_name("N|MIN-MAX");
  group->add_option("--ttl", given.ttl_s, "seconds to live of what is written; 0: for ever (0)");
  group->add_option("--shift-ops", given.shift_ops, "after so many operations of a connection other keys are popular");
  group->add_option("--shift-keys", given.shift_keys, "how many ranks the popularity moves on by then");
  group->add_option("--alternate", given.alternate, "presets that take turns: K8-G50-U,K16-G95-S")->type_name("LIST");
  group->add_option("--every", given.every, "length of a turn: 2ms, 500us, 1s, or 1000ops of each connection");
  group->add_option("--trace", given.run.trace, "replay a CSV file instead (docs/bench-load.md: its columns)");
  group->add_option("--replay-speed", given.run.replay_speed,
                    "the trace by its own times, so many times as fast; without: as fast as the loop goes");
  group->add_option("--seed", given.seed, "of everything that is drawn")->capture_default_str();
}

void add_check_options(CLI::App& app, LoadArguments& given) {
  const auto group = app.add_option_group("checks");
  group->add_flag("--preload", given.preload, "first set every key, and read all back; over TCP also with --udp");
  group->add_flag("--verify,!--no-verify", given.run.verify,
                  "compare every byte of every reply (default), or only lengths and line ends");
  group->add_flag_callback(
      "--require-hits", [&given] { given.require_hits = true; },
      "a miss is an error (default with --preload, unless values expire or are removed)");
  group->add_flag_callback("--no-require-hits", [&given] { given.require_hits = false; }, "misses are only counted");
}

void add_output_options(CLI::App& app, LoadArguments& given) {
  const auto group = app.add_option_group("output");
  group
      ->add_option("--server-pid", given.run.server_pids,
                   "process whose time, sleeps and memory to measure; several add up")
      ->take_all()
      ->delimiter(',');
  group->add_flag("--ceiling", given.ceiling,
                  "first put the same load on a bare server inside this program: the most this generator can do here");
  group->add_flag("--energy,!--no-energy", given.energy,
                  "read the machine's energy counters, where there are any, for the document (default)");
  group->add_option("--json", given.json, "write a document to FILE, or to standard output: -")->type_name("FILE");
  group->add_flag("--quiet", given.quiet, "no text and no progress");
  group->add_option("--cell", given.label.cell, "the run's name in the document");
  group->add_option("--subject", given.label.subject, "the server's name in the document (default: its address)");
  group->add_option("--round", given.label.round, "the run's number in the document");
}

// "get=0.8,set=0.2"
workload::Mix parse_mix(const std::string& text) {
  workload::Mix mix;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    std::optional<OpKind> found;
    for (std::size_t i = 0; i < workload::op_kind_count; ++i) {
      const auto kind = static_cast<OpKind>(i);
      if (equals != std::string::npos && part.substr(0, equals) == workload::to_string(kind)) found = kind;
    }
    if (!found)
      throw std::invalid_argument(fmt::format("--mix: expected OPERATION=SHARE,..., got {}", in_quotes(part)));
    mix[*found] += parse_real(part.substr(equals + 1));
  }
  return mix;
}

// "50" or "1-100"
std::pair<std::uint32_t, std::uint32_t> parse_scan_items(const std::string& text) {
  const auto number = [&](std::string_view digits) {
    std::uint32_t n = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (error != std::errc{} || stop != digits.data() + digits.size())
      throw std::invalid_argument(
          fmt::format("--scan-items: expected a number or a range such as 1-100, got {}", in_quotes(text)));
    return n;
  };
  const std::string_view all(text);
  const std::size_t dash = all.find('-');
  const std::uint32_t least = number(all.substr(0, dash));
  return {least, dash == all.npos ? least : number(all.substr(dash + 1))};
}

// The command line overrides all but the preset's own settings.
void change(Spec& spec, const LoadArguments& given) {
  if (given.keys) spec.keys = *given.keys;
  if (given.key_size) spec.key_bytes = workload::parse_key_sizes(*given.key_size);
  if (given.value_size) spec.value_bytes = workload::parse_value_sizes(*given.value_size);
  if (given.distribution) {
    for (const Popularity p : {Popularity::uniform, Popularity::zipf, Popularity::sequential, Popularity::latest})
      if (*given.distribution == workload::to_string(p)) spec.popularity = p;
  }
  if (given.theta) spec.theta = *given.theta;
  if (given.get_ratio) spec.mix = workload::Mix::get_set(*given.get_ratio);
  if (!given.mix.empty()) spec.mix = parse_mix(given.mix);
  if (given.scan_items) std::tie(spec.scan_keys_min, spec.scan_keys_max) = parse_scan_items(*given.scan_items);
  if (given.ttl_s) spec.ttl_s = *given.ttl_s;
  if (given.shift_ops) spec.shift_ops = *given.shift_ops;
  if (given.shift_keys) spec.shift_keys = *given.shift_keys;
  spec.seed = given.seed;
}

void resolve_options(LoadArguments& given) {
  load::Options& run = given.run;
  if (given.get_ratio && !given.mix.empty()) throw std::invalid_argument("either --get-ratio or --mix");
  if (!given.alternate.empty()) {
    if (!given.preset.empty()) throw std::invalid_argument("either --workload or --alternate");
    if (given.every.empty()) throw std::invalid_argument("--alternate needs --every");
    run.workloads.clear();
    for (const std::string& name : split(given.alternate, ',')) run.workloads.push_back(workload::preset(name));
    run.alternation = parse_turn(given.every);
  } else {
    if (!given.every.empty()) throw std::invalid_argument("--every needs --alternate");
    run.workloads = {given.preset.empty() ? Spec{} : workload::preset(given.preset)};
  }
  for (Spec& spec : run.workloads) change(spec, given);
  if (!run.trace.empty() && given.preload) throw std::invalid_argument("--preload: a trace sets its keys itself");
  run.seconds = given.seconds.value_or(run.trace.empty() ? 1.0 : 0.0);
  run.warmup_s = given.warmup.value_or(run.trace.empty() ? 0.1 : 0.0);
  run.timeout_s = given.timeout.value_or(run.udp ? 1.0 : 5.0);
  run.require_hits = given.require_hits.value_or(given.preload && load::misses_are_errors(run));
  // Without a measurement only the preload runs.
  const bool only_preload = given.preload && run.seconds == 0 && run.ops == 0;
  if (!only_preload) load::validate(run);
}

void print_presets() {
  for (const workload::Preset& preset : workload::all_presets()) fmt::print("{:<16} {}\n", preset.name, preset.summary);
}

// Runs the generator against the floor. Verification is off, since ready-made replies have no matching values.
bench::Json measure_ceiling(const LoadArguments& given, const load::Progress& progress) {
  load::Options options = given.run;
  if (!options.trace.empty()) throw std::invalid_argument("--ceiling: not with a trace");
  if (options.protocol == load::Protocol::resp) throw std::invalid_argument("--ceiling: the bare server knows no RESP");
  Spec& spec = options.workloads.front();
  options.workloads.resize(1);
  options.alternation = {};
  spec.key_bytes = workload::Sizes::fixed(static_cast<std::uint32_t>(std::lround(spec.key_bytes.mean())));
  spec.value_bytes = workload::Sizes::fixed(static_cast<std::uint32_t>(std::lround(spec.value_bytes.mean())));
  options.verify = options.require_hits = false;
  options.server_pids.clear();
  options.rate_per_s = 0;
  load::FloorOptions floor;
  floor.udp = options.udp;
  floor.threads = options.threads;
  floor.key_bytes = spec.key_bytes.low;
  floor.value_bytes = spec.value_bytes.low;
  load::Floor server(floor);
  options.server = server.address();
  const auto result = load::run(options, progress);
  if (!result->errors.none()) throw CommandError(EX_SOFTWARE, "bench load: the ceiling: " + result->errors.first);
  if (!given.quiet && given.json != "-") {
    fmt::print(
        "ceiling of this generator, against a bare server: {:.0f} op/s, {:.3f} us of its processor time each\n\n",
        result->ops_per_s(), static_cast<double>(result->client_cpu_ns) * 1e-3 / static_cast<double>(result->ops()));
  }
  bench::RunLabel label = given.label;
  label.subject = "floor";
  return bench::describe_load_run(label, options, *result);
}

// The requested run comes first.
void write_run(const LoadArguments& given, const load::Result& result, const std::optional<bench::Energy>& energy,
               const std::optional<bench::Json>& ceiling) {
  bench::Json document = bench::make_document(given.label.command);
  document["runs"].push_back(bench::describe_load_run(given.label, given.run, result, energy));
  if (ceiling) document["runs"].push_back(*ceiling);
  bench::write_document(document, given.json);
}

void report_failure(const std::string& what, const load::Errors& errors) {
  fmt::print(stderr, "tandem: bench load: {}FAILED: {}\n  first: {}\n", what, bench::summarize_errors(errors),
             errors.first);
}

constexpr double found_share_usual = 0.9;  // runs with at least this share get no hint

// Suggests the probable cause of a run that found unexpected values, or none.
void hint_at_preload(const LoadArguments& given, const load::Result& result) {
  if (given.preload || !given.run.trace.empty()) return;
  const load::Errors& errors = result.errors;
  const double asked = static_cast<double>(result.counts.gets + result.counts.scan_items) +
                       static_cast<double>(result.counts.scan_missing_keys);
  const double found = static_cast<double>(result.counts.hits + result.counts.scan_items);
  if (errors.other_bytes != 0 || errors.wanted_bytes != 0) {
    fmt::print(stderr,
               "  the keys hold values of another size, which another run or program set: --preload sets them\n"
               "  anew{}\n",
               errors.other_bytes == 0 || !given.preset.empty() || !given.alternate.empty()
                   ? ""
                   : fmt::format(", or ask for what is there: --value-size {}", errors.other_bytes));
  } else if (errors.wrong_values != 0) {
    fmt::print(stderr, "  the keys may hold values that another run or program set: --preload sets them anew\n");
  } else if (errors.unexpected_misses != 0) {
    fmt::print(stderr, "  the keys were not set before: --preload sets them\n");
  } else if (errors.none() && !given.quiet && load::misses_are_errors(given.run) && found < found_share_usual * asked) {
    fmt::print(stderr, "tandem: bench load: only {:.1f} % of the keys were found; --preload sets all of them first\n",
               100 * found / asked);
  }
}

// The exit code, if there is nothing to measure behind it.
std::optional<int> preload(const LoadArguments& given, ProgressBar& bar) {
  const auto filled = load::preload(given.run, bar.named("preload"));
  bar.clear();
  if (filled && !filled->errors.none()) {
    report_failure("preload: ", filled->errors);
    if (filled->errors.unexpected_misses != 0) {
      fmt::print(stderr,
                 "  the store did not keep every key: give it more memory, or allow misses with --no-require-hits\n");
    }
    return 1;
  }
  if (given.run.seconds != 0 || given.run.ops != 0) return std::nullopt;
  if (!given.json.empty()) write_run(given, *filled, std::nullopt, std::nullopt);
  return EX_OK;
}

}  // namespace

int run_bench_load(std::span<const std::string> arguments) {
  LoadArguments given;
  CLI::App app("Puts load on a memcached server, checks every reply and measures.", "tandem bench load");
  app.footer(footer);
  app.option_defaults()->take_last();
  add_connection_options(app, given);
  add_loop_options(app, given);
  add_workload_options(app, given);
  add_check_options(app, given);
  add_output_options(app, given);
  if (const auto done = parse_arguments(app, arguments, "bench load")) return *done;
  if (given.list) {
    print_presets();
    return EX_OK;
  }
  return run_bench_guarded("bench load", [&] {
    resolve_options(given);
    const load::Options& run = given.run;
    given.label.command = command_line("bench load", arguments);
    if (given.label.subject.empty()) given.label.subject = run.server;
    const bool prints = !given.quiet && given.json != "-";
    ProgressBar bar(!given.quiet);
    if (given.preload) {
      if (const std::optional<int> ends = preload(given, bar)) return *ends;
    }
    std::optional<bench::Json> ceiling;
    if (given.ceiling) {
      ceiling = measure_ceiling(given, bar.named("ceiling"));
      bar.clear();
    }
    std::optional<bench::EnergyMeter> meter;
    std::optional<bench::Energy> energy;
    if (given.energy && !given.json.empty()) {
      meter.emplace();
      given.run.at_window_edge = [&](bool opens) {
        if (opens) {
          meter->start();
        } else {
          energy = meter->stop();
        }
      };
    }
    const auto result = load::run(run, bar.named("load"));
    bar.clear();
    if (prints) fmt::print("{}", bench::summarize_load_run(run, *result));
    if (!given.json.empty()) write_run(given, *result, energy, ceiling);
    if (!result->errors.none()) report_failure("", result->errors);
    hint_at_preload(given, *result);
    return result->errors.none() ? EX_OK : 1;
  });
}

}  // namespace tandem::cli
