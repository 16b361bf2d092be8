// A sub-command of the program.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tandem::cli {

struct Command {
  std::string_view name;
  std::string_view summary;
  // `arguments` follow the command's name. Returns the exit code; throws CommandError or any std::exception.
  int (*run)(std::span<const std::string> arguments);
  bool has_help = false;  // takes --help
};

}  // namespace tandem::cli
