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

// A value as a number; 0 when it is missing or none.
double number_of(const Stats& stats, std::string_view name);

}  // namespace tandem::monitor
