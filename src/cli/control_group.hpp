// What the process may use of the machine: its processors and its memory, as the kernel's control groups bound them.
#pragma once
#include <cstdint>
#include <limits>
#include <string>

namespace tandem::cli {

struct ProcessLimits {
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

  unsigned processors = 1;                 // of the affinity mask, and of the quota, rounded up
  std::uint64_t memory_bytes = unlimited;  // the least limit of the process' groups
};

// The least limits of the groups that the process is in and of those above them, of control groups 2 and 1; both may be
// mounted. `root`: the folder that holds proc and sys, "" for the system's. `affinity`: the processors of the mask.
// What cannot be read bounds nothing. Reads a few small files; throws std::bad_alloc alone.
ProcessLimits read_limits(const std::string& root, unsigned affinity);

// Those of this process at the first call. Any thread.
const ProcessLimits& process_limits();

// Why a store should not have so much memory: it is more than the group's limit or than the machine has (0: not known).
// Empty: it may.
std::string memory_warning(std::uint64_t bytes, std::uint64_t group_limit_bytes, std::uint64_t machine_bytes);
std::uint64_t machine_memory_bytes();

}  // namespace tandem::cli
