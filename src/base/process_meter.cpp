#include "base/process_meter.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace tandem {
namespace {

// The number after `label` in a file of lines such as "VmRSS:   123 kB".
std::optional<std::uint64_t> number_in(const std::filesystem::path& file, std::string_view label) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(label)) continue;
    const std::size_t at = line.find_first_of("0123456789", label.size());
    if (at == std::string::npos) return std::nullopt;
    std::uint64_t number = 0;
    const auto [stop, error] = std::from_chars(line.data() + at, line.data() + line.size(), number);
    if (error != std::errc{}) return std::nullopt;
    return number;
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t read_clock_ns(clockid_t clock) noexcept {
  timespec t{};
  if (clock_gettime(clock, &t) != 0) return 0;
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(t.tv_nsec);
}

ProcessMeter::ProcessMeter(pid_t process, const std::string& proc)
    : folder_(proc + '/' + std::to_string(process)),
      is_valid_(process > 0 && clock_getcpuclockid(process, &clock_) == 0) {}

ProcessUse ProcessMeter::use() const {
  ProcessUse use;
  if (!is_valid_) return use;
  use.cpu_ns = read_clock_ns(clock_);
  std::error_code ended;  // threads may end while the folder is read
  std::filesystem::directory_iterator task(folder_ + "/task", ended);
  for (; !ended && task != std::filesystem::directory_iterator(); task.increment(ended))
    use.sleeps += number_in(task->path() / "status", "voluntary_ctxt_switches:").value_or(0);
  return use;
}

std::optional<ProcessMemory> ProcessMeter::memory() const {
  const auto resident = number_in(folder_ + "/status", "VmRSS:");
  if (!resident) return std::nullopt;
  ProcessMemory memory;
  memory.resident_bytes = *resident * 1024;
  memory.resident_max_bytes = number_in(folder_ + "/status", "VmHWM:").value_or(*resident) * 1024;
  if (const auto own = number_in(folder_ + "/smaps_rollup", "Pss:")) memory.own_bytes = *own * 1024;
  return memory;
}

}  // namespace tandem
