// Data for the live page and for scripts: the present state, and the points of the history after `since`, each second's
// and each ten seconds'.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "monitor/history.hpp"

namespace tandem::monitor {

// REQUIRES: !history.empty().
std::string status_json(const History& history, const HotKeys& hot, const net::BigKeys& big, std::uint64_t since,
                        std::string_view version);

// The number in "since=NUMBER", anywhere in a query string; 0 without one. nullopt: not a number.
std::optional<std::uint64_t> since_of(std::string_view query_string);

}  // namespace tandem::monitor
