// Hot keys of a plan that answers them ahead of a device: until they are known, and what a turn's document says of
// them.
#include <cmath>

#include "base/ticks.hpp"
#include "bench/engine/run_json.hpp"
#include "bench/engine/subject.hpp"
#include "bench/engine/wire.hpp"

namespace tandem::bench {
namespace {

// Buckets that are not empty.
Json histogram_json(const HistogramTotals& ticks) {
  const double us = ns_per_tick() / 1e3;
  Json upper = Json::array(), counts = Json::array();
  ticks.visit([&](double middle, std::uint64_t count) {
    const std::uint32_t bucket = histogram::bucket_of(static_cast<std::uint64_t>(middle));
    upper.push_back(static_cast<double>(histogram::lower_bound(bucket + 1)) * us);
    counts.push_back(count);
  });
  return {{"unit", "us"}, {"upper", std::move(upper)}, {"counts", std::move(counts)}};
}

Json class_json(const HistogramTotals& ticks, std::uint64_t all) {
  Json json{{"share", static_cast<double>(ticks.count()) / static_cast<double>(all)}};
  if (ticks.count() == 0) return json;
  json["latency_us"] = latency_json(ticks);
  json["histogram"] = histogram_json(ticks);
  return json;
}

}  // namespace

void WireSubject::settle_hot_keys() {
  constexpr double turn_s = 0.1, equal = 0.01, deviations = 3;
  constexpr unsigned turns_min = 5, turns_max = 30, steady_min = 3;
  if (!answers_hot_ || !engine_.hot_key_stats()) return;
  const auto sample_all = [this](bool all) {
    if (engine_.options().learns_hot_keys) return;  // the router says how many are sampled
    for_each_driver([&](const WireDriver& driver) { driver.context().samples->set_shift(all ? 0 : Samples::off); });
  };
  sample_all(true);
  double before = 0;
  unsigned steady = 0;
  for (unsigned turn = 0; turn < turns_max && (turn < turns_min || steady < steady_min); ++turn) {
    const Measured m = take({.seconds = turn_s});
    const auto count = static_cast<double>(std::max<std::uint64_t>(m.latency.count(), 1));
    const double share = static_cast<double>(m.hot->latency.count()) / count;
    steady = std::abs(share - before) < equal + deviations / std::sqrt(count) ? steady + 1 : 0;
    before = share;
  }
  sample_all(false);
}

void add_hot(const Measured& m, double timeline_every_s, Json& result) {
  if (!m.hot || m.latency.count() == 0) return;
  HistogramTotals cold = m.latency;
  cold.subtract(m.hot->latency);
  result["hot"] = class_json(m.hot->latency, m.latency.count());
  result["hot"]["keys"] = m.hot->keys;
  result["cold"] = class_json(cold, m.latency.count());
  if (m.latency_timeline.empty()) return;
  std::vector<LatencyTimeline::Stretch> hot = m.hot->timeline, rest = m.latency_timeline;
  hot.resize(rest.size());
  for (std::size_t i = 0; i < rest.size(); ++i) {
    rest[i].requests -= hot[i].requests;
    rest[i].ticks -= hot[i].ticks;
  }
  result["hot"]["timeline"] = timeline_json(hot, timeline_every_s);
  result["cold"]["timeline"] = timeline_json(rest, timeline_every_s);
}

}  // namespace tandem::bench
