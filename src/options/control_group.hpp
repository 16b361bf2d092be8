// The process's share of the machine: its processors and its memory, as limited by the kernel's control groups.
#pragma once
#include <cstdint>
#include <limits>
#include <string>

namespace tandem::cli {

struct ProcessLimits {
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

  unsigned processors = 1;                 // of the affinity mask, limited by the quota, rounded up
  std::uint64_t memory_bytes = unlimited;  // the smallest limit of the process' groups
};

// The smallest limits of the process's groups and their ancestors, of control groups 2 and 1; both may be mounted.
// `root`: the folder that holds proc and sys, "" for the system's. `affinity`: the number of processors in the mask.
// Unreadable files impose no limit. Reads a few small files; throws only std::bad_alloc.
ProcessLimits read_limits(const std::string& root, unsigned affinity);

// Those of this process, as of the first call. Any thread.
const ProcessLimits& process_limits();

// Why a store should not have so much memory: with what the process takes beside it (docs/sizing.md) it is more than
// the group's limit, or it is more than the machine has (0: not known). Empty: it may.
std::string memory_warning(std::uint64_t bytes, std::uint64_t group_limit_bytes, std::uint64_t machine_bytes);
std::uint64_t machine_memory_bytes();

}  // namespace tandem::cli
