// Durations of requests where hot keys are answered by the host and others wait for a device, apart (KVCG Fig. 4).
#pragma once
#include "observe/histogram.hpp"

namespace tandem {

// Ticks, as LatencyCounters has them. hot: of what the host has answered ahead of a device; cold: of the rest.
struct HotLatency {
  Histogram hot, cold;
};
struct HotLatencyTotals {
  HistogramTotals hot, cold;
  void add(const HotLatency& l) noexcept {
    hot.add(l.hot);
    cold.add(l.cold);
  }
  void add(const HotLatencyTotals& t) noexcept {
    hot.add(t.hot);
    cold.add(t.cold);
  }
  void subtract(const HotLatencyTotals& t) noexcept {
    hot.subtract(t.hot);
    cold.subtract(t.cold);
  }
};

}  // namespace tandem
