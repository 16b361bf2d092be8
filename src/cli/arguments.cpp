#include "cli/arguments.hpp"

#include <fmt/format.h>
#include <sysexits.h>

#include <stdexcept>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/options.hpp"

namespace tandem::cli {

std::optional<int> parse_arguments(CLI::App& app, std::span<const std::string> arguments, std::string_view name) {
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return EX_OK;
  } catch (const CLI::ParseError& error) {
    throw CommandError(EX_USAGE, fmt::format("{}: {}", name, error.what()));
  } catch (const std::invalid_argument& error) {
    throw CommandError(EX_USAGE, fmt::format("{}: {}", name, error.what()));
  }
  return std::nullopt;
}

}  // namespace tandem::cli
