#include "net/meter.hpp"

#include <algorithm>

#include "codec/command.hpp"

namespace tandem::net {
namespace {

constexpr Task pass_tasks[] = {Task::receive, Task::parse, Task::send};  // timed here; the rest by the executor

// By LaneCommand.
constexpr Command command_of_lane[lane_command_count] = {Command::get, Command::gets, Command::mg, Command::mg,
                                                         Command::get, Command::set,  Command::ms, Command::set};

}  // namespace

Meter::Meter(Context& context, bool has_hot_keys)
    : context_(context),
      slow_ticks_(static_cast<std::uint64_t>(slow_ns / ns_per_tick())),
      hot_keys_(has_hot_keys ? std::make_unique<HotKeyCounter>(context.shared.hash_seed) : nullptr) {}

void Meter::begin_sample() noexcept {
  for (const Task task : pass_tasks) cycles_before_[index_of(task)] = context_.tasks.cycles[index_of(task)].get();
  parsed_before_ = context_.tasks.queries[index_of(Task::parse)].get();
}

void Meter::end_sample() noexcept {
  TaskCounters& tasks = context_.tasks;
  for (const Task task : pass_tasks) {
    const std::size_t t = index_of(task);
    // PP counts its own.
    const std::uint64_t queries = task == Task::parse  ? tasks.queries[t].get() - parsed_before_
                                  : task == Task::send ? answered_
                                                       : parsed_;
    if (task != Task::parse) tasks.queries[t].add(queries);
    tasks.record(task, tasks.cycles[t].get() - cycles_before_[t], queries);
  }
  sampled_ = false;
}

// As observe/latency.hpp says. Commands mostly come in runs of one kind from one connection, with the same times.
void Meter::record_sampled_batch(const Intake& in, std::uint64_t now) noexcept {
  const std::uint64_t each = is_slow(in, now) ? 1 : Sampler::mean;
  std::uint64_t run = 0;
  Command run_command = Command::other;
  std::uint32_t run_entry = 0;
  const auto end_run = [&] {
    if (run == 0) return;
    const Entry& entry = in.entries[run_entry];
    const std::uint64_t from = entry.received_at != 0 ? entry.received_at : in.begin;
    const std::uint64_t to = entry.sent_at != 0 ? entry.sent_at : now;
    latency_.of(run_command).record(to > from ? to - from : 0, run);
    run = 0;
  };
  for (std::uint32_t i = 0; i < in.batch->size(); ++i) {
    const Query& q = in.batch->query(i);
    if (!ends_command(q)) continue;
    if (q.opcode == Opcode::nothing && in.entries[q.connection].skips) continue;  // it will come again
    const Command command = command_of(q);
    if (command != run_command || q.connection != run_entry) {
      end_run();
      run_command = command;
      run_entry = q.connection;
    }
    run += each;
  }
  end_run();
  if (in.sampled && hot_keys_ != nullptr) record_keys(*in.batch);
}

// A few of the batch's keys, evenly spread from a random start, each standing for those up to the next.
void Meter::record_keys(const Batch& batch) noexcept {
  constexpr std::uint32_t samples_least = 4, queries_per_sample_more = 32;
  const std::uint32_t count = batch.size();
  const std::uint32_t step = std::max(1u, count / (samples_least + count / queries_per_sample_more));
  const std::uint32_t first = step == 1 ? 0 : sampler_.draw() % step;
  hot_keys_->record(context_.shared.clock.now_s(), [&](HotKeyCounter& counter) {
    for (std::uint32_t i = first; i < count; i += step) {
      const Query& q = batch.query(i);
      if (q.operation().is_access && q.key_bytes != 0) counter.offer(q.key_view(), step);
    }
  });
}

void Meter::record_lane(Intake& in, std::span<const LaneWait> waits) noexcept {
  const std::uint64_t now = cycles_now();
  const bool slow = is_slow(in, now);
  if (TD_UNLIKELY(in.sampled || slow)) {
    const std::uint64_t each = slow ? 1 : Sampler::mean;
    const auto record = [&](const LaneWait& wait, Command command, std::uint64_t count) {
      const std::uint64_t from = wait.waits_since != 0 ? wait.waits_since : in.begin;
      const std::uint64_t to = wait.sent_at != 0 ? wait.sent_at : now;
      latency_.of(command).record(to > from ? to - from : 0, count * each);
    };
    for (const LaneWait& wait : waits) {
      for (std::size_t i = 0; i < lane_command_count; ++i) {
        if (wait.commands[i] != 0) record(wait, command_of_lane[i], wait.commands[i]);
      }
    }
    for (const LaneRow& row : in.rows)
      record(waits[row.segment], command_of(row.opcode, row.mode, row.options, row.with_cas), 1);
  }
  if (in.batch->size() == 0) in.restart_clock(now);
  if (TD_LIKELY(lane_keys_.empty())) return;
  // A few of the keys, as evenly as a strip's are drawn.
  constexpr std::size_t keys_per_draw = std::size_t{4} * strip_queries_max;
  const std::size_t step = std::max<std::size_t>(1, lane_keys_.size() / (4 + lane_keys_.size() / keys_per_draw));
  const std::size_t first = step == 1 ? 0 : sampler_.draw() % step;
  hot_keys_->record(context_.shared.clock.now_s(), [&](HotKeyCounter& counter) {
    for (std::size_t i = first; i < lane_keys_.size(); i += step)
      counter.offer(lane_keys_[i], static_cast<std::uint32_t>(step));
  });
  lane_keys_.clear();
}

}  // namespace tandem::net
