#include "bench/compare/headline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "bench/compare/peers.hpp"
#include "bench/compare/results.hpp"

namespace tandem::bench {
namespace {

struct Pair {
  std::string subject, base;
};

// "memcached" of "memcached 1.6.18".
std::string_view plain_name(std::string_view subject) { return subject.substr(0, subject.find(' ')); }

std::string ratio_text(double ratio) {
  if (ratio >= 10) return fmt::format("{:.0f}x", ratio);
  return ratio >= 1 ? fmt::format("{:.1f}x", ratio) : fmt::format("{:.2f}x", ratio);
}

std::optional<Pair> pair_of(const Json& comparisons) {
  const auto rank = [](std::string_view base) {
    return plain_name(base) == "memcached" ? 0 : base == floor_name ? 2 : 1;
  };
  std::optional<Pair> best;
  for (const Json& entry : comparisons) {
    if (entry.value("phase", "") != phase_closed || entry.value("metric", "") != "ops_per_s") continue;
    const Pair pair{entry.at("subject"), entry.at("base")};
    const bool is_tandem = plain_name(pair.subject) == tandem_name;
    const bool was_tandem = best && plain_name(best->subject) == tandem_name;
    if (!best || (is_tandem && !was_tandem) || (is_tandem == was_tandem && rank(pair.base) < rank(best->base)))
      best = pair;
  }
  return best;
}

// Medians of the ratios, by cell.
std::vector<double> ratios_of(const Json& comparisons, const Pair& pair, std::string_view metric,
                              std::string_view phase, std::string& cell) {
  std::vector<double> ratios;
  for (const Json& entry : comparisons) {
    if (entry.value("phase", "") != phase || entry.value("metric", "") != metric) continue;
    if (entry.at("subject") != pair.subject || entry.at("base") != pair.base) continue;
    const double ratio = entry.at("ratio").at("median");
    if (ratio <= 0) continue;
    ratios.push_back(ratio);
    cell = entry.at("cell");
  }
  return ratios;
}

double geometric_mean(const std::vector<double>& ratios) {
  double sum = 0;
  for (const double ratio : ratios) sum += std::log(ratio);
  return std::exp(sum / static_cast<double>(ratios.size()));
}

}  // namespace

std::string headline(const Json& document) {
  const Json comparisons = document.value("comparisons", Json::array());
  const auto pair = pair_of(comparisons);
  if (!pair) return "";
  std::string cell;
  const std::vector<double> rates = ratios_of(comparisons, *pair, "ops_per_s", phase_closed, cell);
  if (rates.empty()) return "";
  std::string_view phase = phase_equal_rate;
  std::string tail_cell;
  std::vector<double> tails = ratios_of(comparisons, *pair, "latency_p99_us", phase, tail_cell);
  if (tails.empty()) tails = ratios_of(comparisons, *pair, "latency_p99_us", phase = phase_closed, tail_cell);

  const bool is_tandem = plain_name(pair->subject) == tandem_name;
  std::string line = is_tandem ? "" : fmt::format("{}: ", plain_name(pair->subject));
  line += fmt::format("{} {}'s throughput", ratio_text(geometric_mean(rates)), plain_name(pair->base));
  if (rates.size() > 1) {
    if (!tails.empty()) line += fmt::format(", p99 {}", ratio_text(geometric_mean(tails)));
    line += fmt::format(" (geometric means of {} loads)", rates.size());
  } else {
    const Results results(document["runs"], phase);
    const auto mine = results.spread(cell, pair->subject, metric("latency_p99_us"));
    const auto other = results.spread(cell, pair->base, metric("latency_p99_us"));
    if (mine && other) line += fmt::format(", p99 {:.0f} us against {:.0f} us", mine->median, other->median);
    line += fmt::format(" ({})", cell);
  }
  if (line.size() > headline_bytes_max) line.replace(headline_bytes_max - 3, std::string::npos, "...");
  return line;
}

}  // namespace tandem::bench
