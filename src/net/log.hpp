// The server's log: stderr, with memcached's levels (0: warnings, 1: what goes on, 2: each request, 3: more).
#pragma once
#include <spdlog/spdlog.h>

namespace tandem::net {

// The logger registered as "tandem", made on first use. Thread-safe.
spdlog::logger& log();
void set_log_verbosity(int verbosity);

}  // namespace tandem::net
