// The server's numbers in Prometheus' text format (docs/monitoring.md lists them).
#pragma once
#include <string>
#include <string_view>

#include "operate/telemetry.hpp"

namespace tandem::monitor {

inline constexpr std::size_t hot_key_ranks = 10;

std::string metrics_text(const net::ServerSnapshot& snapshot, const HotKeys& hot, std::string_view version,
                         std::string_view commit);

// The same under the names and labels of Prometheus' memcached_exporter 0.15, so that its dashboards and alerts keep
// working: those of its metrics that exist here. `version`: of the memcached that the server replies as.
std::string exporter_metrics_text(const net::ServerSnapshot& snapshot, std::string_view version);

}  // namespace tandem::monitor
