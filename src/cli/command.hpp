// The sub-commands. A new one is a file of its own and a line in command.cpp.
#pragma once
#include <span>
#include <string>

#include "options/command.hpp"

namespace tandem::cli {

std::span<const Command> all_commands();

// The whole program: selects the command by the program's name (`memcached`) or its first argument, runs it, and turns
// exceptions into a message on stderr and an exit code.
int run_program(std::span<const std::string> arguments);

int run_serve(std::span<const std::string> arguments);
int run_memcached(std::span<const std::string> arguments);
int run_top(std::span<const std::string> arguments);
int run_calibrate(std::span<const std::string> arguments);
int run_devices(std::span<const std::string> arguments);
int run_plans(std::span<const std::string> arguments);
int run_options(std::span<const std::string> arguments);
int run_manual(std::span<const std::string> arguments);
int run_completion(std::span<const std::string> arguments);
int run_version(std::span<const std::string> arguments);
int run_help(std::span<const std::string> arguments);

}  // namespace tandem::cli
