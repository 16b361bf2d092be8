// Chooses the processors of servers and load.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <stdexcept>

#include "bench/compare/peers.hpp"

namespace tandem::bench {
namespace {

int parse_processor(std::string_view text, std::string_view whole) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0 || number >= CPU_SETSIZE)
    throw std::invalid_argument(fmt::format("expected processors such as 0,2-4, got \"{}\"", whole));
  return number;
}

std::string first_sibling(int processor) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", processor));
  std::string line;
  std::getline(file, line);
  return line.substr(0, line.find_first_of(",-"));
}

}  // namespace

std::vector<int> parse_processors(std::string_view text) {
  std::set<int> processors;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-');
    const int first = parse_processor(part.substr(0, dash), text);
    const int last = dash == std::string_view::npos ? first : parse_processor(part.substr(dash + 1), text);
    if (last < first) throw std::invalid_argument(fmt::format("expected processors such as 0,2-4, got \"{}\"", text));
    for (int i = first; i <= last; ++i) processors.insert(i);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return {processors.begin(), processors.end()};
}

std::string to_string(std::span<const int> processors) {
  std::string text;
  for (std::size_t i = 0; i < processors.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < processors.size() && processors[last + 1] == processors[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", processors[i]);
    if (last > i) text += fmt::format("{}{}", last == i + 1 ? ',' : '-', processors[last]);
    i = last;
  }
  return text;
}

Placement place(std::span<const int> allowed, const std::function<int(int)>& core_of, unsigned threads) {
  Placement placement;
  std::set<int> server_cores;
  for (const int processor : allowed) {
    if (placement.server.size() < threads && server_cores.insert(core_of(processor)).second)
      placement.server.push_back(processor);
  }
  const std::size_t load_max = 2 * std::size_t{threads};
  for (const int processor : allowed) {
    if (placement.load.size() < load_max && !server_cores.contains(core_of(processor)))
      placement.load.push_back(processor);
  }
  if (!placement.load.empty() && placement.server.size() == threads) return placement;

  // Not enough cores: use threads of one core, then the same processors.
  placement.server.assign(
      allowed.begin(), allowed.begin() + static_cast<std::ptrdiff_t>(std::min(std::size_t{threads}, allowed.size())));
  placement.load.assign(allowed.begin() + static_cast<std::ptrdiff_t>(placement.server.size()), allowed.end());
  if (placement.load.size() > load_max) placement.load.resize(load_max);
  placement.note = "the servers and the load share cores";
  if (placement.load.empty()) {
    placement.load = placement.server;
    placement.note = "the servers and the load share processors: rates and latencies say little";
  }
  return placement;
}

Placement place_here(unsigned threads) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> allowed;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(static_cast<std::size_t>(i), &set)) allowed.push_back(i);
  const auto core_of = [](int processor) {
    const std::string sibling = first_sibling(processor);
    int number = processor;
    std::from_chars(sibling.data(), sibling.data() + sibling.size(), number);
    return number;
  };
  return place(allowed, core_of, threads);
}

}  // namespace tandem::bench
