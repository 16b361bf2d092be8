#include "work/meter.hpp"

#include <algorithm>

#include "codec/command.hpp"

namespace tandem {
namespace {

constexpr std::size_t sampled_keys_max = 2048;
constexpr Task pass_tasks[] = {Task::receive, Task::parse, Task::send};  // timed here; the rest by the lane

// By LaneCommand.
constexpr Command command_of_lane[lane_command_count] = {Command::get, Command::gets, Command::mg, Command::mg,
                                                         Command::get, Command::set,  Command::ms, Command::set};

}  // namespace

Meter::Meter(Context& context, bool has_hot_keys)
    : context_(context),
      slow_ticks_(static_cast<std::uint64_t>(slow_ns / ns_per_tick())),
      lane_keys_(has_hot_keys ? sampled_keys_max : 0),
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

void Meter::record(Intake& in) noexcept {
  const std::uint64_t now = cycles_now();
  const bool slow = is_slow(in, now);
  if (TD_UNLIKELY(in.sampled || slow)) {
    const std::uint64_t each = slow ? 1 : Sampler::mean;
    const auto record = [&](const Asker& asker, Command command, std::uint64_t count) {
      const std::uint64_t from = asker.waits_since != 0 ? asker.waits_since : in.begin;
      const std::uint64_t to = asker.sent_at != 0 ? asker.sent_at : now;
      const std::uint64_t ticks = to > from ? to - from : 0;
      latency_.of(command).record(ticks, count * each);
      if (HotLatency* const classes = context_.hot_latency.get(); TD_UNLIKELY(classes != nullptr))
        (in.hot ? classes->hot : classes->cold).record(ticks, count * each);
    };
    for (const auto* const askers : {&in.whole, &in.askers}) {
      for (const Asker& asker : *askers) {
        for (std::size_t i = 0; i < lane_command_count; ++i) {
          if (asker.commands[i] != 0) record(asker, command_of_lane[i], asker.commands[i]);
        }
      }
    }
    for (const LaneRow& row : in.rows)
      record(in.askers[row.segment], command_of(row.opcode, row.mode, row.options, row.with_cas), 1);
  }
  in.restart_clock(now);
}

void Meter::draw_keys() noexcept {
  const std::span<const std::string_view> keys = lane_keys_.keys();
  // A few of them, as evenly as a strip's are drawn.
  constexpr std::size_t keys_per_draw = std::size_t{4} * strip_queries_max;
  const std::size_t step = std::max<std::size_t>(1, keys.size() / (4 + keys.size() / keys_per_draw));
  const std::size_t first = step == 1 ? 0 : sampler_.draw() % step;
  const auto each = static_cast<std::uint32_t>(step * lane_keys_.each());
  hot_keys_->record(context_.shared.clock.now_s(), [&](HotKeyCounter& counter) {
    for (std::size_t i = first; i < keys.size(); i += step) counter.offer(keys[i], each);
  });
  lane_keys_.clear();
}

}  // namespace tandem
