// The sub-commands of `tandem bench`. A new one is a file of its own and a line in bench.cpp.
#pragma once
#include <span>
#include <string>

#include "options/command.hpp"

namespace tandem::cli {

std::span<const Command> all_bench_commands();
int run_bench(std::span<const std::string> arguments);

int run_bench_load(std::span<const std::string> arguments);
int run_bench_engine(std::span<const std::string> arguments);
int run_bench_floor(std::span<const std::string> arguments);
int run_bench_compare(std::span<const std::string> arguments);
int run_bench_memory(std::span<const std::string> arguments);
int run_bench_paper(std::span<const std::string> arguments);
int run_bench_report(std::span<const std::string> arguments);

}  // namespace tandem::cli
