// A plan: which processor runs which task of a batch, as stages. Plain data; every batch carries its own, so plans
// change at run time without a pause.
//
// A stage is a run of tasks on one processor, for the whole batch or for a range of it. A stage with a range is
// followed by one with the same tasks for the rest (coarse stealing, DIDO III-B3). The stages together run every task
// exactly once for every query.
//
// Written as in the papers: `CPU[RV PP MM] GPU[IN KC RD] CPU[WR SD]`. IN stands for S, I and D. A range follows in
// braces, in sets of 64 queries, its end exclusive: `GPU[S]{0:4} CPU[S]{4:}`. A device that runs PP does so for plain
// requests, and gives out no slots, so its stage is written without MM, and without I and D where the host has the
// index that changes: `GPU[PP S]`, `GPU[PP S KC RD WR]`, `GPU[PP IN]`.
//
// Source: DIDO III-A (tasks and stages), III-B3 (sets of 64); Mega-KV 4.2 (IN's three operations).
//
// Thread safety: values.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "plan/task.hpp"

namespace tandem {

// A run of sets of queries: [begin, end).
struct Range {
  static constexpr std::uint32_t set = 64;             // queries
  static constexpr std::uint16_t to_end = UINT16_MAX;  // of the batch, whatever its size
  std::uint16_t begin = 0, end = to_end;

  constexpr bool is_whole() const noexcept { return begin == 0 && end == to_end; }
  constexpr bool is_empty() const noexcept { return begin == end; }
  // In queries, of a batch of `size` queries.
  constexpr std::uint32_t begin_query(std::uint32_t size) const noexcept { return std::min(size, begin * set); }
  constexpr std::uint32_t end_query(std::uint32_t size) const noexcept {
    return end == to_end ? size : std::min(size, end * set);
  }
  friend constexpr bool operator==(const Range&, const Range&) = default;
};
inline constexpr Range no_range{0, 0};

struct Stage {
  Task first = Task::receive, last = Task::send;
  Processor processor = Processor::cpu;
  Range range{};

  constexpr bool has(Task t) const noexcept { return first <= t && t <= last; }
  friend constexpr bool operator==(const Stage&, const Stage&) = default;
};

class Plan {
 public:
  static constexpr std::size_t stages_max = 12;

  // The host runs everything.
  constexpr Plan() = default;
  // Throws std::invalid_argument with the reason: a task is missing, duplicate or out of order, or a range has no rest.
  // Adjacent stages that could be one are merged.
  explicit Plan(std::span<const Stage> stages);
  // The same from a text. The error names the position in it.
  static Plan parse(std::string_view text);
  std::string text() const;

  constexpr std::span<const Stage> stages() const noexcept { return {stages_.data(), count_}; }
  // The part of a batch for which the processor runs the task; no_range: none.
  constexpr Range range_of(Task t, Processor p) const noexcept {
    for (const Stage& stage : stages()) {
      if (stage.has(t) && stage.processor == p) return stage.range;
    }
    return no_range;
  }
  // Whether the processor runs the task for a batch or a part of it.
  constexpr bool runs(Task t, Processor p) const noexcept { return !range_of(t, p).is_empty(); }
  constexpr bool uses(Processor p) const noexcept {
    return std::ranges::any_of(stages(), [p](const Stage& s) { return s.processor == p; });
  }
  // The same tasks, with a device's stages limited to the first `sets` sets, and the rest for the host. REQUIRES: 0 <
  // sets < Range::to_end; no stage of a device has a range already, and there is room for one more for each of them.
  constexpr Plan split(std::uint16_t sets) const noexcept {
    Plan plan;
    plan.count_ = 0;
    for (Stage stage : stages()) {
      if (stage.processor == Processor::device) {
        stage.range = {0, sets};
        plan.stages_[plan.count_++] = stage;
        stage = {stage.first, stage.last, Processor::cpu, {sets, Range::to_end}};
      }
      plan.stages_[plan.count_++] = stage;
    }
    return plan;
  }

  friend constexpr bool operator==(const Plan& a, const Plan& b) noexcept {
    return std::ranges::equal(a.stages(), b.stages());
  }

  // From stages that are known to be valid and merged, as the constructor would leave them.
  static constexpr Plan of(std::initializer_list<Stage> stages) noexcept {
    Plan plan;
    plan.count_ = static_cast<std::uint8_t>(stages.size());
    std::ranges::copy(stages, plan.stages_.begin());
    return plan;
  }

 private:
  std::array<Stage, stages_max> stages_{};  // the first `count_` are used
  std::uint8_t count_ = 1;
};
static_assert(std::is_trivially_copyable_v<Plan> && sizeof(Stage) == 8);

inline constexpr Plan plan_cpu{};
// Devices search a replica of the index; the host does the rest.
inline constexpr Plan plan_search = Plan::of({{Task::receive, Task::memory, Processor::cpu},
                                              {Task::search, Task::search, Processor::device},
                                              {Task::insert, Task::send, Processor::cpu}});
// Devices answer plain reads whole, from the bytes of requests to the bytes of replies (frames/); the host does the
// rest.
inline constexpr Plan plan_frames = Plan::of({{Task::receive, Task::receive, Processor::cpu},
                                              {Task::parse, Task::write_response, Processor::device},
                                              {Task::send, Task::send, Processor::cpu}});
// Devices parse plain reads and sets and search for their keys (frames/); the host's fast lane executes them, and does
// the rest.
inline constexpr Plan plan_located = Plan::of({{Task::receive, Task::receive, Processor::cpu},
                                               {Task::parse, Task::search, Processor::device},
                                               {Task::insert, Task::send, Processor::cpu}});
// Whether devices begin with a batch's input, before it is queries.
constexpr bool begins_with_input(const Plan& plan) noexcept { return plan.runs(Task::parse, Processor::device); }
// Whether all they do with it is to locate keys.
constexpr bool locates_keys(const Plan& plan) noexcept {
  return begins_with_input(plan) && !plan.runs(Task::key_compare, Processor::device);
}
// Only devices have the index (Mega-KV).
inline constexpr Plan plan_index = Plan::of({{Task::receive, Task::memory, Processor::cpu},
                                             {Task::search, Task::remove, Processor::device},
                                             {Task::key_compare, Task::send, Processor::cpu}});
// The same, and they parse plain requests to search for their keys.
inline constexpr Plan plan_located_index = Plan::of({{Task::receive, Task::receive, Processor::cpu},
                                                     {Task::parse, Task::remove, Processor::device},
                                                     {Task::key_compare, Task::send, Processor::cpu}});

// What devices do with a plan where they are given a list of keys: they search, or the host does all.
constexpr Plan search_alone(const Plan& plan) noexcept {
  if (!plan.uses(Processor::device)) return plan_cpu;
  // Where devices answer requests whole, none of those changes the index.
  if (plan.runs(Task::insert, Processor::device) && !plan.runs(Task::key_compare, Processor::device)) return plan_index;
  const Range range = plan.range_of(Task::search, Processor::device);
  return range.is_whole() ? plan_search : plan_search.split(range.end);
}

}  // namespace tandem
