#include "bench/common/machine.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "device/nvml.hpp"

namespace tandem::bench {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t n = 0;
  const std::size_t at = text.find_first_of("0123456789");
  if (at == std::string_view::npos) return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data() + at, text.data() + text.size(), n);
  return error == std::errc{} ? std::optional(n) : std::nullopt;
}

// The text after `label` and the `separator` in the first line that starts with the label.
std::optional<std::string> value_of(const fs::path& file, std::string_view label, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(label)) continue;
    std::size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    at = line.find_first_not_of(" \t\"", at + 1);
    if (at == std::string::npos) return std::nullopt;
    return line.substr(at, line.find_last_not_of(" \t\"") + 1 - at);
  }
  return std::nullopt;
}

std::string cpu_name(const fs::path& root) {
  for (const char* label : {"model name", "Model", "cpu model", "Hardware"}) {
    if (const auto name = value_of(root / "proc/cpuinfo", label, ':')) return *name;
  }
  utsname names{};
  uname(&names);
  return std::string("unknown (") + names.machine + ')';
}

// cores, threads_per_core, sockets of the online processors.
void describe_topology(const fs::path& root, Json& out) {
  std::set<std::uint64_t> sockets;
  std::set<std::pair<std::uint64_t, std::uint64_t>> cores;
  std::size_t threads = 0;
  std::error_code error;
  const fs::path folder = root / "sys/devices/system/cpu";
  for (fs::directory_iterator cpu(folder, error), end; !error && cpu != end; cpu.increment(error)) {
    const std::string name = cpu->path().filename();
    if (!name.starts_with("cpu") || name.find_first_not_of("0123456789", 3) != std::string::npos || name == "cpu")
      continue;
    const auto socket = number_of(first_line(cpu->path() / "topology/physical_package_id"));
    const auto core = number_of(first_line(cpu->path() / "topology/core_id"));
    if (!socket || !core) continue;  // offline
    sockets.insert(*socket);
    cores.emplace(*socket, *core);
    ++threads;
  }
  if (cores.empty()) return;
  out["cores"] = cores.size();
  out["threads_per_core"] = (threads + cores.size() - 1) / cores.size();  // some may be offline
  out["sockets"] = sockets.size();
}

// The driver's information on its GPUs, for when its library cannot be loaded.
void describe_gpus_of_driver(const fs::path& root, Json& out) {
  std::set<std::string> folders;  // in the order of their bus addresses
  std::error_code error;
  for (fs::directory_iterator gpu(root / "proc/driver/nvidia/gpus", error), end; !error && gpu != end;
       gpu.increment(error))
    folders.insert(gpu->path());
  for (const std::string& folder : folders) {
    if (const auto model = value_of(fs::path(folder) / "information", "Model", ':')) out.push_back(*model);
  }
}

// {"L1d": 32768, ...} of the first processor.
Json describe_caches(const fs::path& root) {
  Json caches = Json::object();
  for (int i = 0; i < 8; ++i) {
    const fs::path cache = root / "sys/devices/system/cpu/cpu0/cache" / ("index" + std::to_string(i));
    const std::string size = first_line(cache / "size");
    const auto bytes = number_of(size);
    const auto level = number_of(first_line(cache / "level"));
    const std::string type = first_line(cache / "type");
    if (!bytes || !level || type == "Instruction") continue;
    const std::uint64_t unit = size.ends_with('K') ? 1024 : size.ends_with('M') ? 1024 * 1024 : 1;
    caches["L" + std::to_string(*level) + (type == "Data" ? "d" : "")] = *bytes * unit;
  }
  return caches;
}

std::optional<std::size_t> usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return std::nullopt;  // more than 1,024 processors
  return static_cast<std::size_t>(CPU_COUNT(&set));
}

}  // namespace

Json describe_machine(const std::string& root_folder) {
  const fs::path root(root_folder);
  Json out;
  out["cpu"] = cpu_name(root);
  describe_topology(root, out);
  if (const auto n = usable_processors()) out["processors"] = *n;
  if (const auto total = value_of(root / "proc/meminfo", "MemTotal", ':')) {
    if (const auto kib = number_of(*total)) out["memory_bytes"] = *kib * 1024;
  }
  if (const std::string kernel = first_line(root / "proc/sys/kernel/osrelease"); !kernel.empty())
    out["kernel"] = kernel;
  if (const auto os = value_of(root / "etc/os-release", "PRETTY_NAME", '=')) out["os"] = *os;
  if (Json caches = describe_caches(root); !caches.empty()) out["caches"] = std::move(caches);
  const std::string governor = first_line(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  out["governor"] = governor.empty() ? Json(nullptr) : Json(governor);
  if (const auto flags = value_of(root / "proc/cpuinfo", "flags", ':'))
    out["virtual_machine"] = (" " + *flags + " ").find(" hypervisor ") != std::string::npos;
  out["gpus"] = Json::array();
  const Nvml nvml;
  for (std::size_t i = 0; i < nvml.gpu_count(); ++i) out["gpus"].push_back(nvml.name(i));
  if (nvml.gpu_count() == 0) describe_gpus_of_driver(root, out["gpus"]);
  const std::string load = first_line(root / "proc/loadavg");
  double one_minute = 0;
  if (std::from_chars(load.data(), load.data() + load.size(), one_minute).ec == std::errc{})
    out["load_average"] = one_minute;
  const std::string huge = first_line(root / "sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = huge.find('['), close = huge.find(']');
  if (open < close && close != std::string::npos) out["huge_pages"] = huge.substr(open + 1, close - open - 1);
  return out;
}

}  // namespace tandem::bench
