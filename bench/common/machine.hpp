// The machine that a benchmark ran on, as its document describes it.
#pragma once
#include <string>

#include "bench/common/document.hpp"

namespace tandem::bench {

// cpu, cores, threads_per_core, sockets, processors (that this process may use), memory_bytes, kernel, os, caches (of
// one core, by level), governor (null: none), virtual_machine, gpus, load_average (of the last minute), huge_pages.
// What cannot be read is left out. `root` for tests: where /proc, /sys and /etc are.
Json describe_machine(const std::string& root = "/");

}  // namespace tandem::bench
