// Time per task of a run of the lane, as TaskTimer measures it for a batch.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

#include "observe/task_counters.hpp"
#include "task/timer.hpp"

namespace tandem::lane {

class Laps {
 public:
  Laps(TaskCounters& counters, bool parse) noexcept : counters_(counters), parse_(parse) {}
  void begin() noexcept {
    own_ticks_ = TaskTimer::own_ticks();
    last_ = cycles_now();
  }
  TD_INLINE void lap(Task task) noexcept {
    const std::uint64_t now = cycles_now(), spent = now - last_;
    spent_[static_cast<std::size_t>(task)] += spent - std::min(spent, own_ticks_);
    last_ = now;
  }
  // Of a run's queries: all, those that insert, those that remove, and those that a device has searched for, or parsed.
  struct Queries {
    std::uint64_t all = 0, inserts = 0, removes = 0, located = 0, parsed = 0;
  };
  // Adds the laps to the counters.
  void end(const Queries& queries, bool tasks) noexcept;

 private:
  TaskCounters& counters_;
  bool parse_;
  std::uint64_t last_ = 0, own_ticks_ = 0;
  std::array<std::uint64_t, task_count> spent_{};
};

}  // namespace tandem::lane
