// Cache misses per task of the in-process mode: an extra pass over the requests, in which the counter is read at each
// task boundary visible from outside. MM, Search, Insert, Delete, KC and RD of a strip overlap: they are counted
// together.
#pragma once
#include <optional>

#include "bench/common/document.hpp"
#include "plan/task.hpp"

namespace tandem::bench {

class WireSubject;

struct MissCounts {
  Json groups = Json::array();  // of {"tasks": [...], "per_query": ...}; empty: they cannot be counted here
  // For a task that is counted separately.
  std::optional<double> of(Task task) const;
};

// Adds a note to the document when they cannot be counted.
MissCounts count_misses(WireSubject& subject, Json& document);

}  // namespace tandem::bench
