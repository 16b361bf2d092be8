// The server's log: stderr, with memcached's levels (0: warnings, 1: events, 2: each request, 3: more).
#pragma once
#include <spdlog/spdlog.h>

#include <string_view>

namespace tandem::net {

// The logger registered as "tandem", made on first use. Thread-safe.
spdlog::logger& log();
void set_log_verbosity(int verbosity);

// A line to stderr at every level. Never blocks and never fails: when stderr has no room at once, or cannot be
// written, the line is lost (false). Thread-safe.
bool say(std::string_view line) noexcept;

}  // namespace tandem::net
