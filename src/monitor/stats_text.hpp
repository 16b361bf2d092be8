// Parses replies to `stats` as a client: the server may be anything.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace tandem::monitor {

using Stats = std::map<std::string, std::string, std::less<>>;

inline constexpr std::size_t stats_bytes_max = std::size_t{1} << 20;  // of a reply; longer ones are refused

enum class StatsEnd : std::uint8_t {
  more,     // the reply is incomplete
  done,     // END
  refused,  // an error line: the server does not know the group; or not a reply to `stats` at all
};

// Parses the received part of the reply and adds the values of its complete lines to `stats`.
StatsEnd parse_stats(std::string_view reply, Stats& stats);

// A histogram of `stats histograms`: how often each duration occurred, by nanoseconds.
using Buckets = std::map<double, double>;

// From a line's value; an invalid entry ends it.
Buckets parse_buckets(std::string_view text);
// The entries between two replies; all of `now` after `stats reset`.
Buckets interval_of(const Buckets& before, Buckets now);
double count_of(const Buckets& buckets);
double mean_of(const Buckets& buckets);                    // 0 when it is empty
double quantile_of(const Buckets& buckets, double share);  // share: 0 to 1; 0 when it is empty

// A value as a number; 0 when it is missing or not a number.
double number_of(const Stats& stats, std::string_view name);

}  // namespace tandem::monitor
