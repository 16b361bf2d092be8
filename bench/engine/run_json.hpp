// Runs of the in-process mode as the document has them (docs/bench-format.md).
#pragma once
#include <string>
#include <vector>

#include "bench/common/statistics.hpp"
#include "bench/engine/engine.hpp"
#include "bench/engine/misses.hpp"
#include "bench/engine/subject.hpp"

namespace tandem::bench {

std::string workload_names(const EngineSettings& settings);
// Of a run with one number of threads and one batch size.
Json settings_json(const EngineSettings& settings, const std::vector<workload::Spec>& specs, bool on_wire,
                   bool getk = false);
Json errors_json(const ReplyErrors& errors);
Json spread_json(const std::vector<double>& values);
// The result of a turn, then what only a subject has that gives answers, then what only one of the wire format has.
Json turn_json(const Turn& turn);
void add_counts(const Measured& m, Json& result);
void add_wire(const Measured& m, unsigned threads, const MissCounts& misses, Json& result);

// REQUIRES: the histogram is not empty.
Json latency_json(const HistogramTotals& ticks);
// Of stretches in which requests were received: their rate, and their latencies without the largest ones.
Json timeline_json(const std::vector<LatencyTimeline::Stretch>& stretches, double every_s);
// What the plan's hot keys, and the others, have had. Nothing: the plan knows none (hot.cpp).
void add_hot(const Measured& m, double timeline_every_s, Json& result);

}  // namespace tandem::bench
