// The server's log: stderr, with memcached's levels (0: warnings, 1: events, 2: each request, 3: more).
#pragma once
#include <spdlog/spdlog.h>

#include <string_view>

namespace tandem::net {

// The logger registered as "tandem", made on first use. Thread-safe.
spdlog::logger& log();
void set_log_verbosity(int verbosity);

// Writes a line to stderr at every level. Never blocks. False: stderr has no room, or cannot be written, and the line
// is dropped. Thread-safe.
bool say(std::string_view line) noexcept;

}  // namespace tandem::net
