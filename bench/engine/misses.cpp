#include "bench/engine/misses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/common/perf_counters.hpp"
#include "bench/engine/subject.hpp"
#include "bench/engine/wire.hpp"

namespace tandem::bench {
namespace {

// Misses of the last cache level, by the task that ended, if the processor counts them.
class MissProbe final : public TaskProbe {
 public:
  explicit MissProbe(const PerfCounters& counters) : counters_(counters), last_(misses()) {}
  void ended(Task task) override {
    const double now = misses();
    sums_[static_cast<std::size_t>(task)] += now - last_;
    last_ = misses();  // excludes the cost of reading them
  }
  double sum(Task task) const noexcept { return sums_[static_cast<std::size_t>(task)]; }

 private:
  double misses() const { return counters_.read()[PerfEvent::llc_misses].value_or(0); }

  const PerfCounters& counters_;
  double last_;
  std::array<double, task_count> sums_{};
};

struct Group {
  Task ends_with;
  std::vector<std::string_view> tasks;
};

void add_note(Json& document, const std::string& note) {
  Json& notes = document["notes"];
  if (std::ranges::find(notes, Json(note)) == notes.end()) notes.push_back(note);
}

}  // namespace

std::optional<double> MissCounts::of(Task task) const {
  for (const Json& group : groups) {
    if (group["tasks"].size() == 1 && group["tasks"][0] == task_names[static_cast<std::size_t>(task)])
      return group["per_query"].get<double>();
  }
  return std::nullopt;
}

MissCounts count_misses(WireSubject& subject, Json& document) {
  constexpr std::uint64_t ops_max = 200'000;
  const PerfCounters counters;
  if (!counters.is_available()) {
    add_note(document, "cache misses per task: not counted, " + counters.why());
    return {};
  }
  if (!counters.read()[PerfEvent::llc_misses]) {
    add_note(document, "cache misses per task: not counted, the processor does not count misses of the last level");
    return {};
  }
  MissProbe probe(counters);
  const auto ops = static_cast<double>(subject.probe(probe, ops_max));
  static const std::array<Group, 3> groups = {
      {{Task::receive, {"RV"}},
       {Task::write_response, {"PP", "MM", "Search", "Insert", "Delete", "KC", "RD", "WR"}},
       {Task::send, {"SD"}}}};
  MissCounts counts;
  for (const Group& group : groups)
    counts.groups.push_back({{"tasks", group.tasks}, {"per_query", probe.sum(group.ends_with) / ops}});
  return counts;
}

}  // namespace tandem::bench
