// Parses a command line into settings. Starts nothing.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "options/options.hpp"

namespace tandem::cli {

struct Invocation {
  Settings settings;
  std::string output;                // to print on stdout instead of serving (help, version)
  bool only_checks = false;          // of `tandem serve`: serves nothing
  std::vector<std::string> notices;  // for stderr: what was ignored and why
};

// `tandem serve`: defaults, then the TOML file, then the command line. Throws CommandError.
Invocation parse_serve(std::span<const std::string> arguments);

// memcached's command line, as its getopt_long() accepts it, which itself prints the errors that it finds. Throws
// CommandError with memcached's message and exit code. One thread at a time.
Invocation parse_memcached(std::span<const std::string> arguments);

// Throws CommandError (EX_USAGE) if the Unix socket's name is too long for the system.
void check_unix_path(const Settings& settings, std::string_view where);
void check_control(const Settings& settings, std::string_view where);

// Throws CommandError (EX_USAGE) for an unknown kind of eviction.
void check_eviction(const Settings& settings, std::string_view where);
void check_gpu(const Settings& settings, std::string_view where);
void check_gpus(const Settings& settings, std::string_view where);
void check_metrics(const Settings& settings, std::string_view where);
void check_xdp(const Settings& settings, std::string_view where);

// Takes the password file named by MEMCACHED_SASL_PWDB, as memcached does.
void take_sasl_file_from_environment(ServerOptions& server);

// `tandem serve`: completes and checks the authentication options; turns off UDP unless it was requested. Throws
// CommandError.
void resolve_authentication(Settings& settings, const std::function<std::string(const Option&)>& where);

// Checks that concern several options; `where` names an option in the message. Throws CommandError.
void check_together(const Settings& settings, const std::function<std::string(const Option&)>& where);

}  // namespace tandem::cli
