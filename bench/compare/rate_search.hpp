// Searches the highest rate that a server sustains while a percentile of its latency stays within a limit. The caller
// measures.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::bench {

// One run at one rate.
struct Trial {
  double rate = 0;
  double latency_us = 0;  // the percentile
  // Why the run says nothing about the server. Empty: it is valid.
  std::string void_reason;
};

struct RateSearchOptions {
  double limit_us = 1000;
  double start_rate = 10'000;
  double rate_min = 10, rate_max = 1e9;
  // The result passed, and a rate higher by this share did not.
  double tolerance = 0.05;
  // A rate passes when the median of this many runs is within the limit (odd).
  int trials = 3;
  // A rate with this many void runs counts as untestable.
  int voids_max = 3;
};

enum class SearchEnd {
  found,        // a rate passed, and the next one did not
  none_passed,  // not even rate_min
  generator,    // a rate passed; the next one was untestable
  rate_max      // rate_max passed
};
std::string_view to_string(SearchEnd end);

struct RateSearchResult {
  SearchEnd end = SearchEnd::none_passed;
  double highest_rate = 0;  // 0: none
  // The lowest rate that did not pass or was untestable; 0: none.
  double lowest_failed = 0;
  std::vector<Trial> trials;
};

// Doubles (or halves) the rate until one passes and the next does not, then bisects the interval on a logarithmic
// scale. Finally the result is tried again with as many fresh runs, so that it does not depend on one lucky decision of
// many; while that fails, the rate is lowered by the tolerance.
RateSearchResult find_highest_rate(const RateSearchOptions& options, const std::function<Trial(double)>& measure);

}  // namespace tandem::bench
