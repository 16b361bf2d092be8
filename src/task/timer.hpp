// Time per task, always on: one batch in Sampler::mean is timed with the processor's tick counter (one read a task and
// strip); the rest pay one predicted branch a task. The cost of a reading itself (25 ns, several for each strip of 8
// queries) is measured once and subtracted.
#pragma once
#include <algorithm>

#include "base/platform.hpp"
#include "observe/task_counters.hpp"

namespace tandem {

class TaskTimer {
 public:
  // Starts the timing of one batch of `queries` queries.
  TD_INLINE TaskTimer(TaskCounters& counters, std::uint32_t queries) noexcept : counters_(counters) {
    counters.batches.add();
    counters.queries_total.add(queries);
    sampled_ = counters.sampler.next();
    if (TD_UNLIKELY(sampled_)) begin();
  }
  TaskTimer(const TaskTimer&) = delete;
  TaskTimer& operator=(const TaskTimer&) = delete;
  TD_INLINE ~TaskTimer() {
    if (TD_UNLIKELY(sampled_)) end();
  }
  // Accounts the time since the last call to `task`, for `queries` queries.
  TD_INLINE void lap(Task task, std::uint32_t queries) noexcept {
    if (TD_LIKELY(!sampled_)) return;
    const std::uint64_t now = cycles_now();
    const std::uint64_t spent = now - last_;
    counters_.cycles[static_cast<std::size_t>(task)].add(spent - std::min(spent, own_ticks_));
    counters_.queries[static_cast<std::size_t>(task)].add(queries);
    last_ = now;
  }
  bool is_sampled() const noexcept { return sampled_; }
  // Ticks of a lap that follows another one directly: the lowest mean of several runs on this processor,
  // measured by the process's first call. Thread safety: any thread.
  static std::uint64_t own_ticks() noexcept;
  // Counts queries with a time that is already accounted for.
  TD_INLINE void count(Task task, std::uint32_t queries) noexcept {
    if (TD_UNLIKELY(sampled_)) counters_.queries[static_cast<std::size_t>(task)].add(queries);
  }
  // Forgets the time since the last call (it belongs to no task).
  TD_INLINE void skip() noexcept {
    if (TD_UNLIKELY(sampled_)) last_ = cycles_now();
  }

 private:
  TD_NOINLINE void begin() noexcept {
    counters_.batches_sampled.add();
    for (std::size_t t = 0; t < task_count; ++t) {
      cycles_before_[t] = counters_.cycles[t].get();
      queries_before_[t] = counters_.queries[t].get();
    }
    own_ticks_ = own_ticks();
    last_ = cycles_now();
  }
  TD_NOINLINE void end() const noexcept {
    for (std::size_t t = 0; t < task_count; ++t) {
      counters_.record(static_cast<Task>(t), counters_.cycles[t].get() - cycles_before_[t],
                       counters_.queries[t].get() - queries_before_[t]);
    }
  }

  TaskCounters& counters_;
  std::uint64_t last_ = 0;
  std::uint64_t own_ticks_ = 0;  // set when sampled
  bool sampled_ = false;
  std::array<std::uint64_t, task_count> cycles_before_, queries_before_;  // set when sampled
};

}  // namespace tandem
