#include "options/control_group.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

#include "options/value.hpp"

namespace tandem::cli {
namespace {

// Without a limit, control groups 1 report the largest multiple of a page in 63 bits.
constexpr std::uint64_t no_limit = std::uint64_t{1} << 62;

std::string first_line(const std::string& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

// The number at the beginning of a text, which is removed with the blank after it; 0: none ("max", "-1").
std::uint64_t take_number(std::string_view& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return error == std::errc{} ? value : 0;
}

void bound_memory(ProcessLimits& limits, std::string_view text) {
  const std::uint64_t bytes = take_number(text);
  if (bytes != 0 && bytes < no_limit) limits.memory_bytes = std::min(limits.memory_bytes, bytes);
}

void bound_processors(ProcessLimits& limits, std::uint64_t quota_us, std::uint64_t period_us) {
  if (quota_us == 0 || period_us == 0 || quota_us / period_us >= limits.processors) return;
  limits.processors = static_cast<unsigned>(std::max<std::uint64_t>(1, (quota_us + period_us - 1) / period_us));
}

// Calls `visit` with the folder of a group and of its ancestors. `path` is / where the process sees its own group as
// the root.
template <class Visit>
void each_group(const std::string& mount, std::string path, Visit visit) {
  for (;;) {
    while (path.ends_with('/')) path.pop_back();
    visit(mount + path);
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

void read_unified(ProcessLimits& limits, const std::string& group) {
  bound_memory(limits, first_line(group + "/memory.max"));
  const std::string line = first_line(group + "/cpu.max");
  std::string_view quota = line;
  const std::uint64_t quota_us = take_number(quota);
  if (quota_us != 0) bound_processors(limits, quota_us, take_number(quota));
}

void read_processors_v1(ProcessLimits& limits, const std::string& group) {
  const std::string quota = first_line(group + "/cpu.cfs_quota_us"), period = first_line(group + "/cpu.cfs_period_us");
  std::string_view quota_text = quota, period_text = period;
  const std::uint64_t quota_us = take_number(quota_text);
  bound_processors(limits, quota_us, take_number(period_text));
}

bool has_controller(std::string_view controllers, std::string_view wanted) {
  for (;;) {
    const std::size_t end = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, end) == wanted) return true;
    if (end == controllers.size()) return false;
    controllers.remove_prefix(end + 1);
  }
}

}  // namespace

ProcessLimits read_limits(const std::string& root, unsigned affinity) {
  ProcessLimits limits{.processors = std::max(1u, affinity)};
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  // Each line: number:controllers:path. Version 2 has number 0 and no controllers.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      each_group(mounts, path, [&](const std::string& group) { read_unified(limits, group); });
    } else if (has_controller(controllers, "memory")) {
      each_group(mounts + "/memory", path,
                 [&](const std::string& group) { bound_memory(limits, first_line(group + "/memory.limit_in_bytes")); });
    } else if (has_controller(controllers, "cpu")) {
      for (const std::string& mount : {mounts + "/" + controllers, mounts + "/cpu"})
        each_group(mount, path, [&](const std::string& group) { read_processors_v1(limits, group); });
    }
  }
  return limits;
}

const ProcessLimits& process_limits() {
  static const ProcessLimits limits = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
    return read_limits("", known ? static_cast<unsigned>(std::max(1, CPU_COUNT(&set))) : 1u);
  }();
  return limits;
}

std::string memory_warning(std::uint64_t bytes, std::uint64_t group_limit_bytes, std::uint64_t machine_bytes) {
  if (bytes > group_limit_bytes) {
    return fmt::format("memory {} is more than the control group's limit {}, at which the kernel ends the process",
                       format_size_rounded(bytes), format_size_rounded(group_limit_bytes));
  }
  if (bytes / 4 > group_limit_bytes - bytes) {
    return fmt::format(
        "memory {} leaves {} of the control group's limit {} for connections and threads; the kernel may end the "
        "process: {} or less is safe",
        format_size_rounded(bytes), format_size_rounded(group_limit_bytes - bytes),
        format_size_rounded(group_limit_bytes), format_size_rounded(group_limit_bytes / 4 * 3));
  }
  if (machine_bytes != 0 && bytes > machine_bytes) {
    return fmt::format("memory {} is more than the machine has, {}: before the store is full the kernel ends a process",
                       format_size_rounded(bytes), format_size_rounded(machine_bytes));
  }
  return {};
}

std::uint64_t machine_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(bytes) : 0;
}

}  // namespace tandem::cli
