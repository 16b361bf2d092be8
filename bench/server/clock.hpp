// Clocks of the server benchmark: wall time, and another process's CPU time.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace tandem::bench {

inline uint64_t read_clock_ns(clockid_t clock) {
  timespec t{};
  if (clock_gettime(clock, &t) != 0) return 0;
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(t.tv_nsec);
}

inline uint64_t now_ns() { return read_clock_ns(CLOCK_MONOTONIC); }
inline uint64_t own_cpu_ns() { return read_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

// What a process has used so far: user + system time of all its threads, and how often they went to sleep.
struct ProcessUse {
  uint64_t cpu_ns = 0;
  uint64_t sleeps = 0;
};

// Reads another process's ProcessUse. The CPU time is the scheduler's own nanosecond count (the clock that
// clock_getcpuclockid(3) names), not the 10 ms ticks of /proc/PID/stat.
class ProcessMeter {
 public:
  // `pid` 0: no process, all readings are 0.
  explicit ProcessMeter(pid_t pid) : pid_(pid) {
    if (pid_ != 0 && clock_getcpuclockid(pid_, &clock_) != 0) pid_ = 0;
  }

  bool valid() const { return pid_ != 0; }

  ProcessUse read() const {
    if (pid_ == 0) return {};
    return {read_clock_ns(clock_), count_sleeps()};
  }

 private:
  uint64_t count_sleeps() const {
    static constexpr std::string_view label = "voluntary_ctxt_switches:";
    uint64_t sum = 0;
    std::error_code ended;  // a thread may end while the folder is read
    const std::string tasks = "/proc/" + std::to_string(pid_) + "/task";
    for (const auto& task : std::filesystem::directory_iterator(tasks, ended)) {
      std::ifstream status(task.path() / "status");
      for (std::string line; std::getline(status, line);)
        if (line.starts_with(label)) sum += std::stoull(line.substr(label.size()));
    }
    return sum;
  }

  pid_t pid_;
  clockid_t clock_{};
};

}  // namespace tandem::bench
