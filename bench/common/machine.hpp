// The machine of a benchmark, as its document describes it.
#pragma once
#include <string>

#include "bench/common/document.hpp"

namespace tandem::bench {

// cpu, cores, threads_per_core, sockets, processors (usable by this process), memory_bytes, kernel, os, caches (of one
// core, by level), governor (null: none), virtual_machine, gpus, load_average (of the last minute), huge_pages.
// Unreadable values are omitted. `root` for tests: the folder of /proc, /sys and /etc.
Json describe_machine(const std::string& root = "/");

}  // namespace tandem::bench
