// What a worker notes of its own work: latencies of commands, and the keys asked for (docs/monitoring.md).
#include <algorithm>

#include "codec/command.hpp"
#include "net/worker.hpp"

namespace tandem::net {
namespace {

constexpr Task pass_tasks[] = {Task::receive, Task::parse, Task::send};  // timed here; the others by the executor

}  // namespace

void Worker::begin_sample() noexcept {
  for (const Task task : pass_tasks) {
    const auto t = static_cast<std::size_t>(task);
    cycles_before_[t] = context_->tasks.cycles[t].get();
  }
  parsed_before_ = context_->tasks.queries[index_of(Task::parse)].get();
}

void Worker::end_sample() noexcept {
  TaskCounters& tasks = context_->tasks;
  for (const Task task : pass_tasks) {
    const auto t = static_cast<std::size_t>(task);
    // PP counts its own.
    const std::uint64_t queries = task == Task::parse  ? tasks.queries[t].get() - parsed_before_
                                  : task == Task::send ? pass_answered_
                                                       : pass_parsed_;
    if (task != Task::parse) tasks.queries[t].add(queries);
    tasks.record(task, tasks.cycles[t].get() - cycles_before_[t], queries);
  }
  sampled_ = false;
}

// The entry's input had been received before this pass.
void Worker::went_on(Entry& entry, std::uint64_t waits_since) noexcept {
  entry.received_at = waits_since;
  in_.oldest_receipt = std::min(in_.oldest_receipt, waits_since);
}

// The batch is answered. Its commands are recorded as observe/latency.hpp says; they mostly come in runs of one kind
// from one connection, whose times are the same.
void Worker::record_batch(std::uint64_t now) noexcept {
  const bool slow = now - std::min(in_.begin, in_.oldest_receipt) > slow_ticks_;
  const std::uint64_t each = slow ? 1 : Sampler::mean;
  std::uint64_t run = 0;
  Command run_command = Command::other;
  std::uint32_t run_entry = 0;
  const auto end_run = [&] {
    if (run == 0) return;
    const Entry& entry = in_.entries[run_entry];
    const std::uint64_t from = entry.received_at != 0 ? entry.received_at : in_.begin;
    const std::uint64_t to = entry.sent_at != 0 ? entry.sent_at : now;
    latency_.of(run_command).record(to > from ? to - from : 0, run);
    run = 0;
  };
  for (std::uint32_t i = 0; i < in_.batch->size(); ++i) {
    const Query& q = in_.batch->query(i);
    if (!ends_command(q)) continue;
    if (q.opcode == Opcode::nothing && in_.entries[q.connection].skips) continue;  // it will come again
    const Command command = command_of(q);
    if (command != run_command || q.connection != run_entry) {
      end_run();
      run_command = command;
      run_entry = q.connection;
    }
    run += each;
  }
  end_run();
  if (in_.sampled && hot_keys_ != nullptr) record_keys();
}

// A few of the batch's keys, evenly spread from a random start, each standing for those up to the next.
void Worker::record_keys() noexcept {
  constexpr std::uint32_t samples_least = 4, queries_per_sample_more = 32;
  const std::uint32_t count = in_.batch->size();
  const std::uint32_t step = std::max(1u, count / (samples_least + count / queries_per_sample_more));
  const std::uint32_t first = step == 1 ? 0 : sampler_.draw() % step;
  hot_keys_->record(state_.engine.shared().clock.now_s(), [&](HotKeyCounter& counter) {
    for (std::uint32_t i = first; i < count; i += step) {
      const Query& q = in_.batch->query(i);
      if (q.operation().is_access && q.key_bytes != 0) counter.offer(q.key_view(), step);
    }
  });
}

}  // namespace tandem::net
