// Replies to `stats`, as a client reads them: from a server that may be anything.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace tandem::monitor {

using Stats = std::map<std::string, std::string, std::less<>>;

inline constexpr std::size_t stats_bytes_max = std::size_t{1} << 20;  // of a reply; a longer one is refused

enum class StatsEnd : std::uint8_t {
  more,     // the reply is incomplete
  done,     // END
  refused,  // an error line: the server does not know the group; or no reply to `stats` at all
};

// Reads what of the reply is there and puts the values of its whole lines into `stats`.
StatsEnd parse_stats(std::string_view reply, Stats& stats);

// A histogram of `stats histograms`: how often each duration occurred, by nanoseconds.
using Buckets = std::map<double, double>;

// Of a line's value; what is none ends it.
Buckets parse_buckets(std::string_view text);
// What came between two replies; all of `now` after `stats reset`.
Buckets interval_of(const Buckets& before, Buckets now);
double count_of(const Buckets& buckets);
double mean_of(const Buckets& buckets);                    // 0 when it is empty
double quantile_of(const Buckets& buckets, double share);  // share: 0 to 1; 0 when it is empty

// A value as a number; 0 when it is missing or none.
double number_of(const Stats& stats, std::string_view name);

}  // namespace tandem::monitor
