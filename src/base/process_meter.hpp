// A process's resource use, read from outside: processor time, sleeps, memory.
#pragma once
#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tandem {

std::uint64_t read_clock_ns(clockid_t clock) noexcept;
inline std::uint64_t monotonic_ns() noexcept { return read_clock_ns(CLOCK_MONOTONIC); }
inline std::uint64_t own_cpu_ns() noexcept { return read_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

// So far, over all threads.
struct ProcessUse {
  std::uint64_t cpu_ns = 0;  // user and system time
  std::uint64_t sleeps = 0;  // voluntary context switches of the running threads
};

struct ProcessMemory {
  std::uint64_t resident_bytes = 0;
  std::uint64_t resident_max_bytes = 0;    // peak (VmHWM)
  std::optional<std::uint64_t> own_bytes;  // shared pages divided equally (Pss); needs the right to trace the process
};

// Thread safety: immutable; readings are system calls.
class ProcessMeter {
 public:
  // For a process that does not exist (any more), or 0, is_valid() is false. `proc` for tests.
  explicit ProcessMeter(pid_t process, const std::string& proc = "/proc");

  bool is_valid() const noexcept { return is_valid_; }
  // The CPU time is the scheduler's own nanosecond count (clock_getcpuclockid(3)), not the 10 ms ticks of
  // /proc/PID/stat. All 0 once the process has ended.
  ProcessUse use() const;
  std::optional<ProcessMemory> memory() const;

 private:
  std::string folder_;
  clockid_t clock_{};
  bool is_valid_ = false;
};

}  // namespace tandem
