// A command line as settings. Nothing is started here.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/options.hpp"

namespace tandem::cli {

struct Invocation {
  Settings settings;
  std::string output;                // to be printed on stdout instead of serving (help, version)
  std::vector<std::string> notices;  // to be said on stderr: what was ignored and why
};

// `tandem serve`: defaults, then the TOML file, then the command line. Throws CommandError.
Invocation parse_serve(std::span<const std::string> arguments);

// memcached's command line, as its getopt_long() takes it. Errors that getopt_long() finds are printed by it.
// Throws CommandError with memcached's message and exit code. One thread at a time.
Invocation parse_memcached(std::span<const std::string> arguments);

// Throws CommandError (EX_USAGE) where the Unix socket's name is too long for the system.
void check_unix_path(const Settings& settings, std::string_view where);

// Throws CommandError (EX_USAGE) where there is no such kind of eviction.
void check_eviction(const Settings& settings, std::string_view where);
void check_gpu(const Settings& settings, std::string_view where);
void check_gpus(const Settings& settings, std::string_view where);
void check_metrics(const Settings& settings, std::string_view where);

// Where MEMCACHED_SASL_PWDB, which memcached reads, names a password file.
void take_sasl_file_from_environment(ServerOptions& server);

// `tandem serve`: completes and checks the options of authentication; UDP that was not asked for gives way to it.
// Throws CommandError.
void settle_authentication(Settings& settings, const std::function<std::string(const Option&)>& where);

// What concerns several options at once; `where` names an option in the message. Throws CommandError.
void check_together(const Settings& settings, const std::function<std::string(const Option&)>& where);

}  // namespace tandem::cli
