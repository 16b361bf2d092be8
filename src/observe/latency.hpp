// Durations of commands inside the server, per kind of command.
//
// A duration is from the receipt of a command's last bytes to the return of the send with its reply. Recorded are:
// - of one in Sampler::mean of a worker's passes, drawn at random, every command, standing for Sampler::mean commands;
// - of every batch that took longer than `slow_ns`, every command, standing for itself. Outside the sampled passes
//   only the batch's duration is known and used, which is at most too long.
// The two sets of batches are disjoint, so the sum is an unbiased estimate, and no batch over slow_ns is ever missed.
#pragma once
#include <array>
#include <cstdint>

#include "observe/histogram.hpp"
#include "plan/task.hpp"
#include "query/opcode.hpp"

namespace tandem {

// A batch that takes longer is recorded whether its pass is sampled or not.
inline constexpr double slow_ns = 1e6;

struct LatencyCounters {
  std::array<Histogram, command_count> ticks;
  Histogram& of(Command c) noexcept { return ticks[static_cast<std::size_t>(c)]; }
};

struct LatencyTotals {
  std::array<HistogramTotals, command_count> ticks;
  void add(const LatencyCounters& c) noexcept {
    for (std::size_t i = 0; i < command_count; ++i) ticks[i].add(c.ticks[i]);
  }
  void subtract(const LatencyTotals& t) noexcept {
    for (std::size_t i = 0; i < command_count; ++i) ticks[i].subtract(t.ticks[i]);
  }
};

// Ticks per query of each task, one value for each sampled batch, counted once for each of its queries.
using TaskTotals = std::array<HistogramTotals, task_count>;

}  // namespace tandem
