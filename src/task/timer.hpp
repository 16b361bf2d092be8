// Time per task, always on: one batch in `sample_every` is timed with the processor's tick counter (two reads a task
// and strip); the others pay one predicted branch a task.
#pragma once
#include "base/platform.hpp"
#include "observe/counters.hpp"

namespace tandem {

class TaskTimer {
 public:
  static constexpr std::uint64_t sample_every = 16;

  // Starts the timing of one batch of `queries` queries.
  TD_INLINE TaskTimer(TaskCounters& counters, std::uint32_t queries) noexcept : counters_(counters) {
    const std::uint64_t batch = counters.batches.get();
    counters.batches.add();
    counters.queries_total.add(queries);
    sampled_ = batch % sample_every == 0;
    if (TD_UNLIKELY(sampled_)) {
      counters.batches_sampled.add();
      last_ = cycles_now();
    }
  }
  // Accounts the time since the last call to `task`, for `queries` queries.
  TD_INLINE void lap(Task task, std::uint32_t queries) noexcept {
    if (TD_LIKELY(!sampled_)) return;
    const std::uint64_t now = cycles_now();
    counters_.cycles[static_cast<std::size_t>(task)].add(now - last_);
    counters_.queries[static_cast<std::size_t>(task)].add(queries);
    last_ = now;
  }
  // Counts queries whose time was accounted for before.
  TD_INLINE void count(Task task, std::uint32_t queries) noexcept {
    if (TD_UNLIKELY(sampled_)) counters_.queries[static_cast<std::size_t>(task)].add(queries);
  }
  // Forgets the time since the last call (it belongs to no task).
  TD_INLINE void skip() noexcept {
    if (TD_UNLIKELY(sampled_)) last_ = cycles_now();
  }

 private:
  TaskCounters& counters_;
  std::uint64_t last_ = 0;
  bool sampled_ = false;
};

}  // namespace tandem
