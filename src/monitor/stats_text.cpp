#include "monitor/stats_text.hpp"

#include <charconv>
#include <cmath>

namespace tandem::monitor {

StatsEnd parse_stats(std::string_view reply, Stats& stats) {
  while (!reply.empty()) {
    const std::size_t end = reply.find('\n');
    if (end == std::string_view::npos) return reply.size() > stats_bytes_max ? StatsEnd::refused : StatsEnd::more;
    std::string_view line = reply.substr(0, end);
    reply.remove_prefix(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line == "END") return StatsEnd::done;
    constexpr std::string_view begin = "STAT ";
    if (!line.starts_with(begin)) return StatsEnd::refused;
    line.remove_prefix(begin.size());
    const std::size_t space = line.find(' ');
    const std::string_view value = space == std::string_view::npos ? std::string_view{} : line.substr(space + 1);
    stats.insert_or_assign(std::string(line.substr(0, space)), std::string(value));
  }
  return StatsEnd::more;
}

double number_of(const Stats& stats, std::string_view name) {
  const auto found = stats.find(name);
  if (found == stats.end()) return 0;
  const std::string& text = found->second;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && std::isfinite(value) ? value : 0;
}

}  // namespace tandem::monitor
