#include "pipeline/executor.hpp"

#include <algorithm>

#include "task/index_room.hpp"
#include "task/memory.hpp"

namespace tandem {

void Executor::run(Batch& batch, ResponseWriter& writer) { context_.shared.code.run(*this, batch, writer); }

// Ends an epoch after its strips up to `end` are answered; `end` itself may need room in the index.
std::uint32_t Executor::end_epoch(const Batch& batch, std::uint32_t begin, std::uint32_t end,
                                  bool needs_room) noexcept {
  context_.epoch.exit();
  if (TD_UNLIKELY(batch.found.end > begin)) count_device(batch, {begin, std::min(end, batch.found.end)});
  if (TD_UNLIKELY(needs_room)) make_room(batch, end);
  return end;
}

// The slots that MM prepared are kept for the next attempt. A slot that MM refused is not requested again: waiting for
// one would discard the device's results each time.
std::uint32_t Executor::start_over(Batch& batch, StripState& state) noexcept {
  const std::uint32_t begin = state.strip.begin;
  refuses_next_ = state.refuse_first || (!state.plain_reads && state.refused[0] == Status::out_of_memory);
  task::cut(context_, batch, state, begin);
  context_.epoch.exit();
  return begin;
}

// Counts the tasks that devices have run for these queries.
TD_NOINLINE void Executor::count_device(const Batch& batch, Strip answered) noexcept {
  for (const Stage& stage : batch.plan.stages()) {
    if (stage.processor != Processor::device) continue;
    for (std::size_t t = index_of(stage.first); t <= index_of(stage.last); ++t)
      context_.tasks.on_device[t].add(answered.size());
  }
}

void Executor::make_room(const Batch& batch, std::uint32_t i) noexcept {
  if (batch.query(i).opcode == Opcode::nothing) return;  // taken back by the writer
  refuses_next_ = !task::make_index_room(context_, batch.fingerprints()[i], batch.query(i).key_view());
}

}  // namespace tandem
