// Time per task of one worker, from the processor's tick counter, over a sample of the batches (always on).
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

#include "observe/histogram.hpp"
#include "observe/sampler.hpp"
#include "plan/task.hpp"

namespace tandem {

// Thread safety: written by its worker alone; counters and histograms may be read by any thread at any time.
struct TaskCounters {
  std::array<Counter, task_count> cycles;
  std::array<Counter, task_count> queries;  // that these cycles were spent on: cycles / queries is the cost of a task
  Counter batches, batches_sampled, queries_total;
  // Number of queries for which a device ran the task; of all queries, the host ran it for the rest.
  std::array<Counter, task_count> on_device;
  Sampler sampler{static_cast<std::uint32_t>(cycles_now() >> 4)};  // of batches
  // Cycles per query of each sampled batch, once for each of its queries.
  std::array<Histogram, task_count> cycles_per_query;

  void record(Task task, std::uint64_t spent, std::uint64_t on) noexcept {
    if (on != 0) cycles_per_query[static_cast<std::size_t>(task)].record(spent / on, on);
  }
};

// Per task, the number of queries for which each processor ran it: a sum over workers, of all their batches.
struct TasksRan {
  std::array<std::array<std::uint64_t, processor_count>, task_count> queries{};

  std::uint64_t of(Task t, Processor p) const noexcept { return queries[index_of(t)][index_of(p)]; }
  // Of the task's queries; without any, all count as the host's.
  double share(Task t, Processor p) const noexcept {
    const auto on_device = static_cast<double>(of(t, Processor::device));
    const double all = on_device + static_cast<double>(of(t, Processor::cpu));
    const double device = all > 0 ? on_device / all : 0;
    return p == Processor::device ? device : 1 - device;
  }
  void add(const TaskCounters& tasks) noexcept {
    for (std::size_t t = 0; t < task_count; ++t) {
      // In this order: a batch is counted before its queries that a device has answered.
      const std::uint64_t on_device = tasks.on_device[t].get();
      const std::uint64_t all = tasks.queries_total.get();
      queries[t][index_of(Processor::device)] += on_device;
      queries[t][index_of(Processor::cpu)] += all - std::min(all, on_device);
    }
  }
};

}  // namespace tandem
