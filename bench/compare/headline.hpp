// The result of a comparison in one line.
#pragma once
#include <string>

#include "bench/common/document.hpp"

namespace tandem::bench {

inline constexpr std::size_t headline_bytes_max = 80;

// "4.2x memcached's throughput, p99 0.61x (geometric means of 8 loads)": Tandem (without it the last subject) compared
// with memcached, else with another server, else with the floor. For a single load p99 is given in microseconds; it is
// taken at an equal rate if that was measured, else from the closed loop. At most headline_bytes_max bytes, without a
// line end; empty when nothing was compared. Thread safety: a function of its argument.
std::string headline(const Json& document);

}  // namespace tandem::bench
