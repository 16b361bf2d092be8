// `tandem bench compare`: servers side by side.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/cli/bench.hpp"
#include "bench/compare/compare.hpp"
#include "bench/compare/results.hpp"
#include "bench/compare/tables.hpp"
#include "options/arguments.hpp"
#include "options/options.hpp"
#include "options/value.hpp"

namespace tandem::cli {
namespace {

constexpr std::string_view quick_note = "Measured with --quick: few rounds and short turns, not for figures";
constexpr std::string_view quick_cells = "text-*,meta-p16,set50-p16,udp-p16";

struct CompareArguments {
  bench::CompareOptions run;
  std::vector<std::string> subjects, peers, resp_peers;
  std::string cells;
  bench::CellLists lists;
  bench::DataSet data;
  std::string size = "16/64";
  std::string limit, server_processors, load_processors, wait = "spin", json;
  std::vector<std::string> notes, render;
  int nice = 0;
  bool list = false, quick = false, quiet = false;
};

void add_subjects(CLI::App& app, CompareArguments& to) {
  app.add_option("--subjects", to.subjects,
                 "floor, memcached, redis, valkey, tandem (default: those installed), or none of them")
      ->delimiter(',');
  app.add_option("--peer", to.peers,
                 "'NAME=COMMAND {port}': another memcached server, started by a shell; also {memory} (MiB), "
                 "{threads}, {item_max} (bytes), {udp_port} (if it serves UDP)")
      ->take_all()
      ->expected(1);
  app.add_option("--resp-peer", to.resp_peers, "the same for a server that speaks Redis's protocol")
      ->take_all()
      ->expected(1);
  app.add_option("--memory", to.run.memory_mib, "MiB of each server")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--threads", to.run.threads, "of each server")->check(CLI::Range(1U, 1024U))->capture_default_str();
  app.add_option("--load-threads", to.run.load_threads, "of the load generator (default: one per processor)")
      ->check(CLI::Range(1U, 1024U));
  app.add_option("--server-processors", to.server_processors, "where the servers run, such as 0-3");
  app.add_option("--load-processors", to.load_processors, "where the load generator runs");
  app.add_option("--start-timeout", to.run.start_timeout_s, "seconds that a server may take to answer")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  app.add_option("--nice", to.nice, "niceness of all (below 0: as root)")->check(CLI::Range(-20, 19));
}

void add_cells(CLI::App& app, CompareArguments& to) {
  app.add_option("--cells", to.cells, "named kinds of load, patterns with commas between (default: all)");
  app.add_flag("--list", to.list, "print the kinds of load and end");
  app.add_option("--protocol", to.lists.protocols,
                 "lists of these make up their own kinds of load, all combinations: text, meta, binary, udp, udp-meta, "
                 "udp-binary")
      ->delimiter(',');
  const auto count = CLI::Range(1U, 1'000'000U);
  app.add_option("--connections", to.lists.connections, "connections")->delimiter(',')->check(count);
  app.add_option("--pipeline", to.lists.pipelines, "requests in flight on each")->delimiter(',')->check(count);
  app.add_option("--multiget", to.lists.multigets, "keys of a get")->delimiter(',')->check(count);
  app.add_option("--get-ratio", to.lists.get_shares, "share of gets, 0 to 1")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--value-size", to.lists.value_bytes, "sizes of values, as in `tandem bench load`")->delimiter(',');
  app.add_option("--workload", to.lists.workloads, "presets of `tandem bench load`")->delimiter(',');
  app.add_option("--size", to.size, "bytes of keys/values")->capture_default_str();
  app.add_option("--keys", to.data.keys, "number of keys")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--distribution", to.run.distribution, "uniform or zipf")
      ->check(CLI::IsMember({"uniform", "zipf"}))
      ->capture_default_str();
  app.add_option("--theta", to.run.theta, "exponent of zipf")->check(CLI::Range(0.0, 10.0))->capture_default_str();
}

void add_measures(CLI::App& app, CompareArguments& to) {
  app.add_option("--rounds", to.run.rounds, "closed loops of each server (5; with --sweep or --find-rate: 1)")
      ->check(CLI::Range(0, 10'000));
  app.add_option("--tail-rounds", to.run.tail_rounds,
                 "runs at an equal rate, for the tail of the latency (5; with --sweep or --find-rate: 0)")
      ->check(CLI::Range(0, 10'000));
  app.add_option("--tail-load", to.run.tail_load, "that rate, as a share of the slowest store's closed loop")
      ->check(CLI::Range(0.001, 10.0))
      ->capture_default_str();
  app.add_option("--sweep", to.run.sweep_points, "latency at so many rates, up to the server's closed loop")
      ->check(CLI::Range(1, 1000));
  app.add_option("--find-rate", to.limit, "the highest rate at which the latency stays within this: 1ms, 500us, 0.1s");
  app.add_option("--percentile", to.run.percentile, "which percentile of it")
      ->check(CLI::IsMember({50.0, 90.0, 99.0, 99.9, 99.99}))
      ->capture_default_str();
  app.add_option("--tolerance", to.run.tolerance, "a rate higher by this share does not pass")
      ->check(CLI::Range(0.001, 1.0))
      ->capture_default_str();
  app.add_option("--trials", to.run.trials, "a rate passes by the median of so many runs (odd)")
      ->check(CLI::Range(1, 101))
      ->capture_default_str();
  app.add_option("--seconds", to.run.seconds, "length of a run")->check(CLI::Range(0.001, 1e6))->capture_default_str();
  app.add_option("--warmup", to.run.warmup_s, "seconds of load before it")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--wait", to.wait, "how the load generator waits for replies: spin or sleep")
      ->check(CLI::IsMember({"spin", "sleep"}))
      ->capture_default_str();
  app.add_option("--seed", to.run.seed, "of keys, values and operations")->capture_default_str();
  app.add_flag("--quick", to.quick, "fewer kinds of load and shorter runs: a look");
}

void add_output(CLI::App& app, CompareArguments& to) {
  app.add_option("--json", to.json, "write all runs to this file (-: to stdout, without tables)");
  app.add_option("--note", to.notes, "a line for the document, such as what else the machine does")->take_all();
  app.add_flag("--quiet", to.quiet, "no word on stderr but errors");
  app.add_option("--render", to.render, "print the tables of documents (--json) as one, and measure nothing");
}

double parse_duration_us(const std::string& text) {
  for (const auto& [unit, factor] : {std::pair<std::string_view, double>{"us", 1}, {"ms", 1e3}, {"s", 1e6}}) {
    if (!text.ends_with(unit)) continue;
    const std::string number = text.substr(0, text.size() - unit.size());
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    if (!number.empty() && number[0] >= '0' && number[0] <= '9' && *end == '\0' && value > 0 && value < 1e6)
      return value * factor;
    break;
  }
  throw CommandError(EX_USAGE, fmt::format("bench compare: --find-rate: expected a time such as 1ms or 500us, got {}",
                                           in_quotes(text)));
}

// Applies the rules that concern several options.
void complete_arguments(const CLI::App& app, CompareArguments& arguments) {
  const auto is_given = [&](const char* name) { return app.count(name) > 0; };
  bench::CompareOptions& run = arguments.run;
  if (arguments.quick) {
    if (!is_given("--cells") && arguments.lists.empty()) arguments.cells = quick_cells;
    if (!is_given("--rounds")) run.rounds = 3;
    if (!is_given("--tail-rounds")) run.tail_rounds = 1;
    if (!is_given("--seconds")) run.seconds = 0.2;
    if (!is_given("--warmup")) run.warmup_s = 0.05;
    if (!is_given("--keys")) arguments.data.keys = 300'000;
  }
  if (!arguments.limit.empty()) run.limit_us = parse_duration_us(arguments.limit);
  if (run.limit_us || run.sweep_points > 0) {
    if (!is_given("--rounds")) run.rounds = 1;
    if (!is_given("--tail-rounds")) run.tail_rounds = 0;
  }
  if (run.trials % 2 == 0) throw CommandError(EX_USAGE, "bench compare: --trials must be odd");
  run.spin = arguments.wait == "spin";
  const std::size_t slash = arguments.size.find('/');
  if (slash == std::string::npos)
    throw CommandError(EX_USAGE, "bench compare: --size: expected sizes of keys/values, such as 16/64");
  arguments.data.key_bytes = arguments.size.substr(0, slash);
  arguments.data.value_bytes = arguments.size.substr(slash + 1);

  if (!arguments.lists.empty() && !arguments.cells.empty())
    throw CommandError(EX_USAGE, "bench compare: either --cells or lists such as --connections, not both");
  if (arguments.lists.empty()) {
    run.cells = bench::named_cells(arguments.data);
    if (!arguments.cells.empty()) run.cells = bench::choose_cells(run.cells, arguments.cells);
  } else {
    run.cells = bench::product(arguments.lists, arguments.data);
  }
}

void place_processes(CompareArguments& arguments, std::vector<std::string>& notes) {
  bench::CompareOptions& run = arguments.run;
  const bench::Placement placement = bench::place_here(run.threads);
  run.server_processors =
      arguments.server_processors.empty() ? placement.server : bench::parse_processors(arguments.server_processors);
  run.load_processors =
      arguments.load_processors.empty() ? placement.load : bench::parse_processors(arguments.load_processors);
  if (arguments.server_processors.empty() && arguments.load_processors.empty() && !placement.note.empty())
    notes.push_back(placement.note);
}

// Sets the niceness of this process and its children; where the kernel groups processes by session, of the session,
// too.
void set_niceness(int value) {
  if (value == 0) return;
  errno = 0;
  if (nice(value) == -1 && errno != 0) throw CommandError(EX_NOPERM, "bench compare: --nice: only root may go below 0");
  if (std::ofstream autogroup("/proc/self/autogroup"); autogroup) autogroup << value << std::flush;
}

int render_files(const std::vector<std::string>& files) {
  std::vector<bench::Json> documents;
  for (const std::string& file : files) documents.push_back(bench::read_document(file));
  fmt::print("{}", bench::render_tables(bench::merge_documents(std::move(documents))));
  return EX_OK;
}

int measure(CompareArguments& arguments, std::span<const std::string> words) {
  bench::CompareOptions& run = arguments.run;
  std::vector<std::string> notes;
  place_processes(arguments, notes);
  const bench::InterruptScope interrupts;
  std::vector<bench::Peer> extra;
  for (const std::string& text : arguments.peers) extra.push_back(bench::parse_peer(text, bench::Dialect::memcached));
  for (const std::string& text : arguments.resp_peers) extra.push_back(bench::parse_peer(text, bench::Dialect::resp));
  const bool is_asked = !arguments.subjects.empty();
  std::vector<std::string> names = arguments.subjects;
  if (names == std::vector<std::string>{"none"}) names.clear();
  if (!is_asked) names.assign(bench::known_peers().begin(), bench::known_peers().end());
  run.peers = bench::find_peers(names, extra, is_asked, notes);
  if (!arguments.quiet) {
    run.log = [](std::string_view text) { fmt::print(stderr, "{}\n", text); };
    for (const std::string& note : notes) run.log(note);
  }
  if (run.peers.empty()) throw std::invalid_argument("no server to measure");
  set_niceness(arguments.nice);

  std::vector<std::string> line{"tandem", "bench", "compare"};
  line.insert(line.end(), words.begin(), words.end());
  bench::Json document = bench::make_document(bench::shell_line(line));
  if (arguments.quick) document["notes"].push_back(quick_note);
  for (const auto* list : {&notes, &arguments.notes})
    for (const std::string& note : *list) document["notes"].push_back(note);
  std::vector<std::string> failures;
  int interrupted_by = 0;
  try {
    failures = bench::compare(run, document);
  } catch (const bench::Interrupted& interrupted) {
    interrupted_by = interrupted.signal();
    document["notes"].push_back("interrupted: not all was measured");
  }
  if (!arguments.json.empty()) bench::write_document(document, arguments.json);
  if (arguments.json != "-" && !document["runs"].empty()) {
    fmt::print("{}", bench::render_tables(document));
    if (arguments.quick) fmt::print("\n{}.\n", quick_note);
  }
  if (interrupted_by != 0) throw CommandError(128 + interrupted_by, "bench compare: interrupted; not all was measured");
  if (!failures.empty())
    throw CommandError(1, fmt::format("bench compare: {} failed:\n{}", failures.size(), fmt::join(failures, "\n")));
  return EX_OK;
}

}  // namespace

int run_bench_compare(std::span<const std::string> words) {
  CompareArguments arguments;
  CLI::App app("Measures servers side by side: the same loads in turns, ratios within a round.",
               "tandem bench compare");
  app.option_defaults()->take_last();
  add_subjects(app, arguments);
  add_cells(app, arguments);
  add_measures(app, arguments);
  add_output(app, arguments);
  if (const auto done = parse_arguments(app, words, "bench compare")) return *done;
  try {
    if (!arguments.render.empty()) return render_files(arguments.render);
    complete_arguments(app, arguments);
    if (arguments.list) {
      for (const bench::Cell& cell : arguments.run.cells)
        fmt::print("{:14} {:16} {}\n", cell.name, cell.goal ? fmt::format("<= {:.2f} x floor", *cell.goal) : "",
                   bench::describe(cell));
      return EX_OK;
    }
    return measure(arguments, words);
  } catch (const CommandError&) {
    throw;
  } catch (const std::invalid_argument& error) {
    throw CommandError(EX_USAGE, fmt::format("bench compare: {}", error.what()));
  } catch (const bench::Interrupted& interrupted) {
    throw CommandError(128 + interrupted.signal(), "bench compare: interrupted; nothing was written");
  } catch (const std::runtime_error& error) {
    throw CommandError(EX_UNAVAILABLE, fmt::format("bench compare: {}", error.what()));
  }
}

}  // namespace tandem::cli
