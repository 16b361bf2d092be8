// Shared by the tests of the in-process mode: settings of a short run, and its results in a document.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/engine/engine.hpp"

namespace tandem::bench {

inline EngineSettings quick(std::vector<std::string> workloads) {
  EngineSettings s;
  s.workloads = std::move(workloads);
  s.keys = 500;
  s.threads = {1};
  s.batches = {64};
  s.rounds = 1;
  s.ops = 3000;
  s.cache_misses = false;
  s.subjects = {"wire"};
  return s;
}

inline Json new_document() { return {{"format", document_format}, {"notes", Json::array()}, {"runs", Json::array()}}; }

// The runs of one subject, without loading.
inline std::vector<Json> runs_of(const Json& document, std::string_view subject) {
  std::vector<Json> runs;
  for (const Json& run : document["runs"]) {
    if (run["subject"] == subject && !run["cell"].get<std::string>().starts_with("load ")) runs.push_back(run);
  }
  return runs;
}

}  // namespace tandem::bench
