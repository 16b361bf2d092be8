#include "bench/compare/rate_search.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace tandem::bench {
namespace {

enum class Verdict { passed, failed, not_tried };

class Search {
 public:
  Search(const RateSearchOptions& options, const std::function<Trial(double)>& measure)
      : options_(options), measure_(measure) {
    if (options.trials < 1 || options.trials % 2 == 0 || options.voids_max < 1 || !(options.tolerance > 0) ||
        !(options.rate_min > 0) || !(options.rate_max >= options.rate_min))
      throw std::invalid_argument("rate search: an option is out of range");
  }

  RateSearchResult run() {
    bracket();
    while (low_ > 0 && high_ > 0) {
      halve();
      // The decision at low_ may have been luck.
      if (decide(low_) == Verdict::passed) break;
      high_ = low_;
      low_ = low_ / (1 + options_.tolerance);
      while (low_ >= options_.rate_min && decide(low_) != Verdict::passed) {
        high_ = low_;
        low_ = low_ / (1 + options_.tolerance);
      }
      if (low_ < options_.rate_min) low_ = 0;
    }
    result_.highest_rate = low_;
    result_.lowest_failed = high_;
    if (low_ == 0) {
      result_.end = SearchEnd::none_passed;
    } else if (high_ == 0) {
      result_.end = SearchEnd::rate_max;
    } else {
      result_.end = high_not_tried_ == high_ ? SearchEnd::generator : SearchEnd::found;
    }
    return std::move(result_);
  }

 private:
  // The median of an odd number of runs is within the limit if a majority is, so the rest can be skipped.
  Verdict decide(double rate) {
    const int majority = options_.trials / 2 + 1;
    int within = 0;
    int beyond = 0;
    int voids = 0;
    while (within < majority && beyond < majority) {
      const Trial trial = result_.trials.emplace_back(measure_(rate));
      if (!trial.void_reason.empty()) {
        if (++voids == options_.voids_max) {
          high_not_tried_ = rate;
          return Verdict::not_tried;
        }
      } else if (trial.latency_us <= options_.limit_us) {
        ++within;
      } else {
        ++beyond;
      }
    }
    return within == majority ? Verdict::passed : Verdict::failed;
  }

  // Finds low_, which passed, and high_, at most twice as much, which did not. 0: there is none.
  void bracket() {
    double rate = std::clamp(options_.start_rate, options_.rate_min, options_.rate_max);
    if (decide(rate) == Verdict::passed) {
      low_ = rate;
      while (low_ < options_.rate_max) {
        rate = std::min(2 * low_, options_.rate_max);
        if (decide(rate) != Verdict::passed) {
          high_ = rate;
          return;
        }
        low_ = rate;
      }
      return;
    }
    high_ = rate;
    while (high_ > options_.rate_min) {
      rate = std::max(high_ / 2, options_.rate_min);
      if (decide(rate) == Verdict::passed) {
        low_ = rate;
        return;
      }
      high_ = rate;
    }
  }

  void halve() {
    while (high_ > low_ * (1 + options_.tolerance)) {
      const double middle = std::sqrt(low_ * high_);
      (decide(middle) == Verdict::passed ? low_ : high_) = middle;
    }
  }

  const RateSearchOptions& options_;
  const std::function<Trial(double)>& measure_;
  double low_ = 0, high_ = 0;
  double high_not_tried_ = 0;
  RateSearchResult result_;
};

}  // namespace

std::string_view to_string(SearchEnd end) {
  switch (end) {
    case SearchEnd::found:
      return "found";
    case SearchEnd::none_passed:
      return "none passed";
    case SearchEnd::generator:
      return "the load generator or errors set the limit";
    case SearchEnd::rate_max:
      return "the highest rate tried passed";
  }
  return "";
}

RateSearchResult find_highest_rate(const RateSearchOptions& options, const std::function<Trial(double)>& measure) {
  return Search(options, measure).run();
}

}  // namespace tandem::bench
