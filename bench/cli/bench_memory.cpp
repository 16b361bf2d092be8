// `tandem bench memory`: items within a limit, and resident memory.
#include <fmt/format.h>
#include <sysexits.h>

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/cli/bench.hpp"
#include "bench/cli/bench_common.hpp"
#include "bench/compare/memory.hpp"
#include "options/options.hpp"

namespace tandem::cli {
namespace {

constexpr std::string_view command_name = "bench memory";

struct MemoryArguments {
  bench::MemoryOptions run;
  std::vector<std::string> subjects, peers;
  std::string sizes = "8/8,16/64,32/512", json;
  bool quiet = false;
};

void add_memory_options(CLI::App& app, MemoryArguments& to) {
  app.add_option("--subjects", to.subjects, "memcached, tandem (default: those installed)")
      ->delimiter(',')
      ->check(CLI::IsMember({"memcached", "tandem"}));
  app.add_option("--peer", to.peers,
                 "'NAME=COMMAND {port}': another memcached server, started by a shell; also {memory} (MiB), {threads}")
      ->take_all()
      ->expected(1);
  app.add_option("--memory", to.run.limit_mib, "MiB of each server")
      ->check(CLI::Range(std::uint64_t{8}, std::uint64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--sizes", to.sizes, "bytes of keys/values")->capture_default_str();
  app.add_option("--threads", to.run.threads, "of each server")->check(CLI::Range(1U, 1024U))->capture_default_str();
  app.add_option("--start-timeout", to.run.start_timeout_s, "seconds that a server may take to answer")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  app.add_option("--json", to.json, "write all runs to this file (-: to stdout, without the table)");
  app.add_flag("--quiet", to.quiet, "no word on stderr but errors");
}

int measure_memory(MemoryArguments& arguments, std::span<const std::string> words) {
  bench::MemoryOptions& run = arguments.run;
  run.shapes = bench::parse_shapes(arguments.sizes);
  const bench::InterruptScope interrupts;
  std::vector<bench::Peer> extra;
  for (const std::string& text : arguments.peers) extra.push_back(bench::parse_peer(text, bench::Dialect::memcached));
  const bool is_asked = !arguments.subjects.empty();
  if (!is_asked) arguments.subjects = {"memcached", "tandem"};
  std::vector<std::string> notes;
  run.peers = bench::find_peers(arguments.subjects, extra, is_asked, notes);
  if (!arguments.quiet) {
    run.log = [](std::string_view text) { fmt::print(stderr, "{}\n", text); };
    for (const std::string& note : notes) run.log(note);
  }
  bench::Json document = bench::make_document(command_line(command_name, words));
  for (const std::string& note : notes) document["notes"].push_back(note);
  bench::measure_memory(run, document);
  if (!arguments.json.empty()) bench::write_document(document, arguments.json);
  if (arguments.json != "-") fmt::print("{}", bench::memory_table(document));
  return EX_OK;
}

}  // namespace

int run_bench_memory(std::span<const std::string> words) {
  MemoryArguments arguments;
  CLI::App app("Counts the items that servers keep within a limit of memory, and what is resident then.",
               "tandem bench memory");
  app.option_defaults()->take_last();
  add_memory_options(app, arguments);
  if (const auto code = parse_arguments(app, words, command_name)) return *code;
  try {
    return run_bench_guarded(command_name, [&] { return measure_memory(arguments, words); });
  } catch (const CommandError&) {
    throw;
  } catch (const bench::MemoryError& error) {
    throw CommandError(1, fmt::format("{}: {}", command_name, error.what()));
  } catch (const bench::Interrupted& interrupted) {
    throw CommandError(128 + interrupted.signal(), fmt::format("{}: interrupted; nothing was written", command_name));
  } catch (const std::runtime_error& error) {
    throw CommandError(EX_UNAVAILABLE, fmt::format("{}: {}", command_name, error.what()));
  }
}

}  // namespace tandem::cli
