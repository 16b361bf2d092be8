#include "bench/cli/bench.hpp"

#include <fmt/format.h>
#include <sysexits.h>

#include <array>
#include <cstdio>
#include <vector>

#include "options/options.hpp"
#include "options/suggest.hpp"
#include "options/value.hpp"

namespace tandem::cli {
namespace {

// One line for each command in the build; keep the order of bench.hpp.
constexpr std::array commands{
    Command{"load", "put load on a memcached server, check its replies, measure", run_bench_load},
    Command{"engine", "run the store in process: requests and replies in memory", run_bench_engine},
    Command{"floor", "run a bare server, beside which others are measured", run_bench_floor},
    Command{"compare", "measure servers side by side, as ratios", run_bench_compare},
    Command{"memory", "count the items that servers keep within a limit of memory", run_bench_memory},
    Command{"paper", "run the papers' experiments, by figure", run_bench_paper},
    Command{"report", "documents of results as one page with plots", run_bench_report},
};

void print_bench_help(std::FILE* out) {
  fmt::print(out, "usage: tandem bench COMMAND [OPTION...]\n\ncommands:\n");
  for (const Command& command : commands) fmt::print(out, "  {:<10} {}\n", command.name, command.summary);
  fmt::print(out, "\n`tandem bench COMMAND --help` prints a command's options.\n");
}

}  // namespace

std::span<const Command> all_bench_commands() { return commands; }

int run_bench(std::span<const std::string> arguments) {
  if (arguments.empty()) {
    print_bench_help(stderr);
    return EX_USAGE;
  }
  const std::string& name = arguments.front();
  if (name == "help" || name == "--help" || name == "-h") {
    print_bench_help(stdout);
    return EX_OK;
  }
  for (const Command& command : commands) {
    if (command.name == name) return command.run(arguments.subspan(1));
  }
  std::vector<std::string_view> names;
  for (const Command& command : commands) names.push_back(command.name);
  throw CommandError(EX_USAGE, fmt::format("bench: unknown command {}{} (`tandem bench help` lists them)",
                                           in_quotes(name), did_you_mean(name, names)));
}

}  // namespace tandem::cli
