#include "pipeline/executor.hpp"

#include <algorithm>
#include <utility>

#include "task/index_operation.hpp"
#include "task/key_compare.hpp"
#include "task/memory.hpp"
#include "task/read_value.hpp"
#include "task/timer.hpp"
#include "task/write_operation.hpp"

namespace tandem {
namespace {

// What stopped a strip before its end.
struct Stopped {
  std::uint32_t at;
  task::Settled why;
};

// IN and KC of a strip that also writes: in query order, so that responses and read-your-writes follow from the order
// of the batch (write protocol 8).
Stopped settle_in_order(Context& context, Batch& batch, StripState& state) noexcept {
  for (std::uint32_t i = state.strip.begin; i < state.strip.end; ++i) {
    const Query& q = batch.query(i);
    const bool reads = (q.opcode == Opcode::get && !q.has(option::touch | option::vivify | option::recache)) ||
                       q.opcode == Opcode::debug;
    if (reads) {
      task::key_compare_one(context, batch, state, i);
    } else if (const task::Settled s = task::write_operation(context, batch, state, i); s != task::Settled::done) {
      return {i, s};
    }
  }
  return {state.strip.end, task::Settled::done};
}

}  // namespace

void Executor::run(Batch& batch, ResponseWriter& writer) {
  TaskTimer timer(context_.tasks, batch.size());
  std::uint32_t i = 0;
  while (i < batch.size()) {
    if (batch.query(i).opcode == Opcode::control) {
      writer.control(batch, i++);
      timer.skip();
      continue;
    }
    i = run_strip(batch, i, writer, timer);
  }
  // Asking costs a sum over counters: not for every batch.
  if (TD_UNLIKELY(context_.counters.total_items.get() - stored_at_check_ >= stores_per_growth_check)) {
    stored_at_check_ = context_.counters.total_items.get();
    if (context_.shared.index.wants_growth()) context_.shared.maintenance.notify();
  }
}

std::uint32_t Executor::run_strip(Batch& batch, std::uint32_t begin, ResponseWriter& writer, TaskTimer& timer) {
  StripState state;
  state.strip.begin = begin;
  state.strip.end = std::min(batch.size(), begin + strip_queries_max);
  state.now_s = context_.shared.clock.now_s();
  state.refuse_first = std::exchange(index_is_full_, false);

  task::fingerprint(context_, batch, state);
  timer.lap(Task::index, state.strip.size());
  task::memory(context_, batch, state);
  timer.lap(Task::memory, state.strip.size());

  context_.epoch.enter();
  state.flush_cas = context_.shared.flush_cas.load(std::memory_order_acquire);
  task::search(context_, batch, state);
  timer.lap(Task::index, 0);
  Stopped stopped{state.strip.end, task::Settled::done};
  if (TD_LIKELY(state.plain_reads)) {
    task::key_compare(context_, batch, state);
  } else {
    stopped = settle_in_order(context_, batch, state);
    if (stopped.why != task::Settled::done) task::cut(context_, batch, state, stopped.at);
  }
  timer.lap(Task::key_compare, state.strip.size());
  if (TD_LIKELY(state.strip.size() != 0)) {
    task::read_value(batch, state);
    timer.lap(Task::read_value, state.strip.size());
    writer.write(batch, state.strip);
    timer.lap(Task::write_response, state.strip.size());
  }
  context_.epoch.exit();
  task::settle_memory(context_, state);
  if (TD_UNLIKELY(stopped.why == task::Settled::needs_room)) {
    index_is_full_ = !task::make_index_room(context_, batch.fingerprints()[stopped.at]);
  }
  return stopped.at;
}

}  // namespace tandem
