// Time per task of one worker, from the processor's tick counter, over a sample of the batches (always on).
#pragma once
#include <array>
#include <cstdint>

#include "observe/histogram.hpp"
#include "observe/sampler.hpp"
#include "plan/task.hpp"

namespace tandem {

// Thread safety: written by its worker alone; counters and histograms are read by anybody at any time.
struct TaskCounters {
  std::array<Counter, task_count> cycles;
  std::array<Counter, task_count> queries;  // that these cycles were spent on: cycles / queries is the cost of a task
  Counter batches, batches_sampled, queries_total;
  Sampler sampler{static_cast<std::uint32_t>(cycles_now() >> 4)};  // of batches
  // Of each sampled batch the cycles per query, once for each of its queries.
  std::array<Histogram, task_count> cycles_per_query;

  void record(Task task, std::uint64_t spent, std::uint64_t on) noexcept {
    if (on != 0) cycles_per_query[static_cast<std::size_t>(task)].record(spent / on, on);
  }
};

}  // namespace tandem
