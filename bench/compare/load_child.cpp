#include "bench/compare/load_child.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "bench/compare/results.hpp"
#include "bench/load/options.hpp"
#include "bench/workload/spec.hpp"

namespace tandem::bench {
namespace {

constexpr std::size_t message_bytes_max = 4000;

std::string last_part(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  if (text.size() > message_bytes_max) text.remove_prefix(text.size() - message_bytes_max);
  return std::string(text);
}

double count_of(const Json& run, std::string_view error) {
  return number_at(run, fmt::format("result/errors/{}", error)).value_or(0);
}

// True if every key was set before; some workloads let keys expire or remove them.
bool misses_are_errors(const Cell& cell) {
  load::Options options;
  options.udp = cell.udp;
  if (!cell.data.workload.empty()) options.workloads = {workload::preset(cell.data.workload)};
  return load::misses_are_errors(options);
}

}  // namespace

std::vector<std::string> load_command(const CompareOptions& options, const Cell& cell, Dialect dialect,
                                      std::uint16_t port, const std::vector<pid_t>& processes, const LoadRun& run) {
  const auto threads =
      options.load_threads > 0 ? options.load_threads : static_cast<unsigned>(options.load_processors.size());
  std::vector<std::string> words{std::string(this_program), "bench", "load"};
  const auto add = [&](std::string_view name, std::string value) {
    words.emplace_back(name);
    words.push_back(std::move(value));
  };
  add("--connect", fmt::format("127.0.0.1:{}", port));
  add("--protocol", dialect == Dialect::resp ? "resp" : cell.protocol);
  if (cell.udp) words.emplace_back("--udp");
  if (!cell.data.workload.empty()) {
    add("--workload", cell.data.workload);
  } else {
    add("--key-size", cell.data.key_bytes);
    add("--value-size", cell.data.value_bytes);
    add("--get-ratio", fmt::format("{}", cell.get_share));
    add("--distribution", options.distribution);
    if (options.distribution == "zipf") add("--theta", fmt::format("{}", options.theta));
  }
  add("--keys", std::to_string(cell.data.keys));
  add("--seed", std::to_string(options.seed));
  if (run.preload) {
    words.emplace_back("--preload");
    add("--seconds", "0");
  } else {
    add("--connections", std::to_string(cell.connections));
    add("--processors", to_string(options.load_processors));
    add("--threads", std::to_string(std::min(threads, cell.connections)));
    add("--pipeline", std::to_string(cell.pipeline));
    if (cell.multiget > 1) add("--multiget", std::to_string(cell.multiget));
    add("--seconds", fmt::format("{}", options.seconds));
    add("--warmup", fmt::format("{}", options.warmup_s));
    if (run.rate > 0) add("--rate", fmt::format("{:.0f}", run.rate));
    if (options.spin) words.emplace_back("--spin");
    if (dialect == Dialect::canned) {
      words.emplace_back("--no-verify");
    } else if (misses_are_errors(cell)) {
      words.emplace_back("--require-hits");
    }
    if (!processes.empty()) add("--server-pid", fmt::format("{}", fmt::join(processes, ",")));
  }
  words.emplace_back("--quiet");
  add("--json", "-");
  return words;
}

LoadOutcome read_load_result(const ProgramResult& result, std::string_view subject, std::string_view command) {
  const auto fail = [&](std::string_view what) -> CompareError {
    return CompareError(fmt::format("{}: {}\n  command: {}", subject, what, command));
  };
  const bool has_ended = WIFEXITED(result.status) && WEXITSTATUS(result.status) <= 1;
  const Json document = Json::parse(result.out, nullptr, false);
  const std::string said = last_part(result.error);
  if (!has_ended || document.is_discarded() || !document.contains("runs") || document["runs"].size() != 1)
    throw fail(said.empty() ? "the load generator ended " + describe_status(result.status) : said);
  LoadOutcome outcome{document["runs"][0], ""};
  const std::string first =
      outcome.run["result"].contains("errors") ? outcome.run["result"]["errors"].value("first", "") : std::string();
  const std::string& told = said.empty() ? first : said;
  if (count_of(outcome.run, "wrong_values") + count_of(outcome.run, "wrong_replies") +
          count_of(outcome.run, "unexpected_misses") >
      0)
    throw fail(told);
  if (count_of(outcome.run, "timeouts") + count_of(outcome.run, "connection") > 0)
    outcome.trouble = first.empty() ? "requests were not answered in time" : first;
  if (WEXITSTATUS(result.status) == 1 && outcome.trouble.empty()) throw fail(told);
  if (number_at(outcome.run, "result/ops").value_or(0) == 0 && outcome.trouble.empty())
    throw fail("no operation was done: lengthen --seconds");
  return outcome;
}

double busy_s(const std::vector<int>& processors) {
  std::ifstream stat("/proc/stat");
  double ticks_sum = 0;
  for (std::string line; std::getline(stat, line);) {
    int number = -1;
    if (!line.starts_with("cpu") ||
        std::from_chars(line.data() + 3, line.data() + line.size(), number).ec != std::errc{} ||
        std::ranges::find(processors, number) == processors.end())
      continue;
    std::istringstream words(line.substr(line.find(' ')));
    double ticks[8] = {};  // user, nice, system, idle, iowait, irq, softirq, steal
    for (double& tick : ticks) words >> tick;
    ticks_sum += ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
  }
  return ticks_sum / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace tandem::bench
