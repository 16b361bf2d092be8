#include "monitor/stats_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

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

namespace {

// The number at the beginning of `text`, which is removed from it.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value) || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

Buckets parse_buckets(std::string_view text) {
  Buckets buckets;
  while (!text.empty()) {
    const auto ns = take_number(text);
    if (!ns || !text.starts_with(':')) break;
    text.remove_prefix(1);
    const auto count = take_number(text);
    if (!count) break;
    buckets[*ns] += *count;
    if (!text.starts_with(' ')) break;
    text.remove_prefix(1);
  }
  return buckets;
}

Buckets interval_of(const Buckets& before, Buckets now) {
  const auto is_less = [&now](const Buckets::value_type& bucket) {
    const auto found = now.find(bucket.first);
    return found == now.end() || found->second < bucket.second;
  };
  if (std::ranges::any_of(before, is_less)) return now;
  for (const auto& [ns, count] : before) now[ns] -= count;
  std::erase_if(now, [](const Buckets::value_type& bucket) { return bucket.second <= 0; });
  return now;
}

double count_of(const Buckets& buckets) {
  double count = 0;
  for (const auto& bucket : buckets) count += bucket.second;
  return count;
}

double mean_of(const Buckets& buckets) {
  double sum = 0;
  for (const auto& [ns, count] : buckets) sum += ns * count;
  return buckets.empty() ? 0 : sum / count_of(buckets);
}

double quantile_of(const Buckets& buckets, double share) {
  if (buckets.empty()) return 0;
  const double rank = std::max(1.0, std::ceil(share * count_of(buckets)));
  double seen = 0;
  for (const auto& [ns, count] : buckets) {
    seen += count;
    if (seen >= rank) return ns;
  }
  return buckets.rbegin()->first;
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
