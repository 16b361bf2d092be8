#include "cli/command.hpp"

#include <fmt/format.h>
#include <sysexits.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>
#include <vector>

#include "bench/cli/bench.hpp"
#include "bench/common/document.hpp"
#include "codec/credentials.hpp"
#include "net/log.hpp"
#include "options/help.hpp"
#include "options/options.hpp"
#include "options/suggest.hpp"
#include "options/value.hpp"
#include "options/version.hpp"

namespace tandem::cli {
namespace {

constexpr std::array command_table{
    Command{"serve", "run the server", run_serve, true},
    Command{"memcached", "run the server with memcached's options and defaults", run_memcached, true},
    Command{"top", "show a server's numbers in the terminal", run_top, true},
    Command{"bench", "measure this store or any memcached server", run_bench, true},
    Command{"devices", "list the accelerators that can be used", run_devices, true},
    Command{"plans", "list which processor may run which task, and why not otherwise", run_plans, true},
    Command{"calibrate", "measure a GPU, so that the server can choose its cycle", run_calibrate, true},
    Command{"options", "print all options as Markdown, or as a TOML file with --toml", run_options},
    Command{"manual", "print a manual page: tandem or tandem.toml", run_manual},
    Command{"completion", "print completions for bash, zsh or fish", run_completion},
    Command{"version", "print the version", run_version},
    Command{"help", "print this help", run_help},
};

// If its name is memcached, by a symbolic link or a copy, the program acts as memcached.
bool is_called_memcached(std::string_view program) {
  const std::size_t slash = program.rfind('/');
  return (slash == std::string_view::npos ? program : program.substr(slash + 1)) == "memcached";
}

// Never fails, and allocates no memory unless a log collector was promised JSON.
void complain(std::string_view prefix, std::string_view what, std::string_view more = {}) noexcept {
  if (net::log_format() == net::LogFormat::json) {
    net::say(what, spdlog::level::err);
    return;
  }
  for (const std::string_view part : {prefix, what, more, std::string_view("\n")})
    std::fwrite(part.data(), 1, part.size(), stderr);
}

int run_guarded(const Command& command, std::span<const std::string> arguments) {
  // memcached's messages have no prefix.
  const std::string prefix = command.run == run_memcached ? "" : "tandem: ";
  try {
    return command.run(arguments);
  } catch (const CommandError& error) {
    complain(prefix, error.what());
    return error.exit_code();
  } catch (const CredentialsError& error) {
    complain(prefix, error.what());
    if (command.run == run_memcached) return EXIT_FAILURE;  // memcached's
    return error.is_unreadable() ? EX_NOINPUT : EX_CONFIG;
  } catch (const std::bad_alloc&) {
    complain(prefix, "out of memory");
    return EX_OSERR;
  } catch (const std::invalid_argument& error) {
    complain(prefix, error.what());
    return EX_USAGE;
  } catch (const std::system_error& error) {
    // The error of std::thread.
    const bool is_thread = error.code() == std::errc::resource_unavailable_try_again;
    complain(prefix, error.what(),
             is_thread ? ": a thread could not be started (too little memory, or a limit on threads)" : "");
    return EX_OSERR;
  } catch (const std::exception& error) {
    complain(prefix, error.what());
    return EX_OSERR;
  }
}

void print_help(std::FILE* out) {
  std::string text = fmt::format(
      "tandem {}: an in-memory key-value store that speaks memcached's protocol\n\nusage: tandem COMMAND "
      "[OPTION...]\n\ncommands:\n",
      version);
  for (const Command& command : command_table) text += fmt::format("  {:<10} {}\n", command.name, command.summary);
  text += "\n`tandem help COMMAND` prints a command's options.\n";
  std::fputs(text.c_str(), out);
}

void refuse_arguments(std::string_view command, std::span<const std::string> arguments) {
  if (arguments.empty()) return;
  throw CommandError(EX_USAGE, fmt::format("{}: unexpected argument {}", command, in_quotes(arguments.front())));
}

std::string unknown_command(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Command& command : command_table) names.push_back(command.name);
  return fmt::format("unknown command {}{} (`tandem help` lists them)", in_quotes(name), did_you_mean(name, names));
}

}  // namespace

std::span<const Command> all_commands() { return command_table; }

int run_options(std::span<const std::string> arguments) {
  if (arguments.empty()) {
    fmt::print("{}", options_markdown());
  } else if (arguments.size() == 1 && arguments.front() == "--toml") {
    fmt::print("{}", options_toml());
  } else {
    throw CommandError(EX_USAGE, fmt::format("options: unexpected argument {}; it takes --toml or nothing",
                                             in_quotes(arguments.front())));
  }
  return EX_OK;
}

int run_version(std::span<const std::string> arguments) {
  refuse_arguments("version", arguments);
  const std::string_view commit = bench::build_commit();
  fmt::print("tandem {}{}\n", version, commit == "unknown" ? "" : fmt::format(" (commit {})", commit));
  return EX_OK;
}

int run_help(std::span<const std::string> arguments) {
  if (arguments.empty()) {
    print_help(stdout);
    return EX_OK;
  }
  refuse_arguments("help", arguments.subspan(1));
  const auto command = std::ranges::find(command_table, arguments.front(), &Command::name);
  if (command == command_table.end()) throw CommandError(EX_USAGE, unknown_command(arguments.front()));
  if (!command->has_help) {
    fmt::print("usage: tandem {}\n\n{}\n", command->name, command->summary);
    return EX_OK;
  }
  const std::string help = "--help";
  return command->run({&help, 1});
}

int run_program(std::span<const std::string> arguments) {
  if (!arguments.empty() && is_called_memcached(arguments.front())) {
    return run_guarded(*std::ranges::find(command_table, "memcached", &Command::name), arguments.subspan(1));
  }
  if (arguments.size() < 2) {
    print_help(stderr);
    return EX_USAGE;
  }
  std::string_view name = arguments[1];
  if (name == "--help" || name == "-h") name = "help";
  if (name == "--version" || name == "-V") name = "version";
  for (const Command& command : command_table) {
    if (command.name == name) return run_guarded(command, arguments.subspan(2));
  }
  complain("tandem: ", unknown_command(name));
  return EX_USAGE;
}

}  // namespace tandem::cli
