// Reads the arguments of every command except the servers'.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
}

namespace tandem::cli {

// Parses `arguments`, and reports the first unknown one with the name that was probably meant. Throws CommandError with
// `name` in front, and CLI::CallForHelp.
void parse_or_refuse(CLI::App& app, std::span<const std::string> arguments, std::string_view name);

// Returns the exit code if there is nothing more to do (--help was printed). Throws CommandError with `name` in front.
std::optional<int> parse_arguments(CLI::App& app, std::span<const std::string> arguments, std::string_view name);

}  // namespace tandem::cli
