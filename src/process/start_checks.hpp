// What can be known of settings before a server starts: what of them the system does not give, and which files are
// wrong. For `serve`, `memcached` and `serve --check`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "options/options.hpp"
#include "process/run_server.hpp"

namespace tandem::cli {

// That the memory file's file system has no room for so much memory, beside what the file has already. Empty: it has,
// or it cannot be told.
std::string memory_file_warning(const std::string& path, std::uint64_t memory_bytes);

// Raises the limit of open files, and lowers the connections to what it lets through. Returns warnings of what the
// system does not give. Throws CommandError.
std::vector<std::string> fit_to_system(Settings& settings, ServerStyle style);

// `serve --check`: reads the files that the settings name, without changing any. Prints what is wrong to stderr, else
// that nothing is to stdout. warnings: those that are known. Returns the exit code that the server would have ended
// with.
int check_settings(Settings settings, std::vector<std::string> warnings);

}  // namespace tandem::cli
