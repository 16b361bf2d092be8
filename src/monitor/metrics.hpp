// The server's numbers in Prometheus' text format (docs/monitoring.md lists them).
#pragma once
#include <string>

#include "net/telemetry.hpp"

namespace tandem::monitor {

inline constexpr std::size_t hot_key_ranks = 10;

std::string metrics_text(const net::ServerSnapshot& snapshot, const HotKeys& hot);

}  // namespace tandem::monitor
