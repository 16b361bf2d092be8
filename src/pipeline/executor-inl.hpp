// The executor's code for one kind of index. Included once, where the kind's code is compiled (code_of()).
#pragma once
#include <algorithm>
#include <iterator>
#include <utility>

#include "index/index_kind.hpp"
#include "pipeline/executor.hpp"
#include "task/evict-inl.hpp"
#include "task/execute-inl.hpp"
#include "task/index_operation-inl.hpp"
#include "task/key_compare-inl.hpp"
#include "task/memory.hpp"
#include "task/read_value.hpp"
#include "task/rescue-inl.hpp"
#include "task/timer.hpp"
#include "task/write_operation-inl.hpp"

namespace tandem {
namespace executor {

// Why a strip stopped before its end.
struct Stopped {
  std::uint32_t at;
  task::Settled why;
};

// Insert, Delete and KC of a strip that also writes: in query order, so that responses and read-your-writes follow the
// batch's order (write protocol 8). Timed: consecutive queries of one task are timed together.
template <IndexKind I, bool Timed>
Stopped settle_in_order(Context& context, Batch& batch, StripState& state, TaskTimer& timer) noexcept {
  std::uint32_t timed = state.strip.begin;
  const auto lap = [&](std::uint32_t end) {
    if constexpr (Timed) {
      if (end != timed) timer.lap(task::settled_by(batch.query(timed)), end - timed);
      timed = end;
    }
  };
  for (std::uint32_t i = state.strip.begin; i < state.strip.end; ++i) {
    if constexpr (Timed) {
      if (task::settled_by(batch.query(i)) != task::settled_by(batch.query(timed))) lap(i);
    }
    if (const task::Settled s = task::settle_one<I>(context, batch, state, i); s != task::Settled::done) {
      lap(i);
      return {i, s};
    }
  }
  lap(state.strip.end);
  return {state.strip.end, task::Settled::done};
}

// The strip from `begin` on: either searched by a device or by the host, never mixed.
TD_INLINE Strip strip_at(const Batch& batch, std::uint32_t begin) noexcept {
  std::uint32_t end = std::min(batch.size(), begin + strip_queries_max);
  if (TD_UNLIKELY(batch.searched_at(begin))) end = std::min(end, batch.found.end);
  return {begin, end};
}

// KC and RD of a strip, cut at the query that this epoch cannot execute.
template <IndexKind I>
TD_INLINE Stopped settle(Context& context, Batch& batch, StripState& state, TaskTimer& timer) noexcept {
  Stopped stopped{state.strip.end, task::Settled::done};
  if (TD_LIKELY(state.plain_reads)) {
    task::key_compare<I>(context, batch, state);
    timer.lap(Task::key_compare, state.strip.size());
  } else {
    stopped = TD_UNLIKELY(timer.is_sampled()) ? settle_in_order<I, true>(context, batch, state, timer)
                                              : settle_in_order<I, false>(context, batch, state, timer);
    if (stopped.why != task::Settled::done) task::cut(context, batch, state, stopped.at);
  }
  timer.count(Task::search, state.strip.size());  // queries that were only looked at may be looked at again
  task::read_value(batch, state);
  timer.lap(Task::read_value, state.strip.size());
  return stopped;
}

// The device's results may have been discarded, for a slot or since.
TD_INLINE bool is_ready(const Context& context, const Batch& batch, std::uint32_t begin) noexcept {
  return !context.shared.placement.wants_search() || batch.searched_at(begin);
}

// PP's last part and IN's first: fingerprints to search, or the device's results. If those were discarded in between,
// the host searches the batch in the next epoch.
template <IndexKind I>
TD_INLINE void look_at(Context& context, Batch& batch, StripState& state) noexcept {
  if constexpr (DeviceSearches<I>) {
    if (TD_UNLIKELY(batch.searched_at(state.strip.begin))) return task::take_found<I>(context, batch, state);
  }
  task::fingerprint<I>(context, batch, state);
}

// The strips of one epoch: the current one, and those in flight behind it (Executor::run_strips).
template <IndexKind I>
class Strips {
 public:
  Strips(Context& context, Batch& batch, TaskTimer& timer, std::uint32_t begin) noexcept
      : context_(context),
        batch_(batch),
        timer_(timer),
        begin_(begin),
        looked_end_(begin),
        now_s_(context.shared.clock.now_s()) {}

  StripState& current() noexcept { return state_of(current_); }

  // The first strip's fingerprints and its MM, outside the epoch.
  void begin(bool refuse_first) noexcept {
    look();
    current().refuse_first = refuse_first;
    task::memory(context_, batch_, current());
    timer_.lap(Task::memory, current().strip.size());
    if (TD_UNLIKELY(looked_end_ != current().strip.end)) end_behind_current();
  }
  // Advances the strips behind it, each as far as it may be ahead.
  void fill() noexcept {
    while (looked_ < 3 * lead && look()) {
    }
    while (searched_ < std::min(2 * lead, looked_)) search();
    while (found_ < std::min(lead, looked_)) search_rest();
  }
  // Advances one strip in each task before KC.
  TD_INLINE void step() noexcept {
    look();
    search();
    search_rest();
  }
  // Makes the next strip the current one and prepares its slots. False: there is none, or it needs another epoch.
  TD_INLINE bool advance() noexcept {
    if (++current_ == looked_) return false;
    StripState& next = current();
    const std::uint32_t next_end = next.strip.end;
    task::memory(context_, batch_, next);
    timer_.lap(Task::memory, next.strip.size());
    if (TD_LIKELY(next.strip.end == next_end)) return true;
    if (next.strip.size() == 0) return false;
    end_behind_current();
    return true;
  }

 private:
  static constexpr std::uint32_t lead = 2;

  StripState& state_of(std::uint32_t strip) noexcept { return states_[strip % std::size(states_)]; }
  TD_INLINE bool look() noexcept {
    if (looked_end_ == batch_.size()) return false;
    // Without an index on the host, queries that no device has searched yet need another epoch.
    if (looked_end_ != begin_ && TD_UNLIKELY(!is_ready(context_, batch_, looked_end_))) return false;
    StripState& state = state_of(looked_);
    state.strip = strip_at(batch_, looked_end_);
    state.now_s = now_s_;
    state.refuse_first = false;
    look_at<I>(context_, batch_, state);
    timer_.lap(Task::search, 0);
    if (TD_UNLIKELY(state.strip.size() == 0)) return false;
    looked_end_ = state.strip.end;
    ++looked_;
    return true;
  }
  TD_INLINE void search() noexcept {
    if (searched_ == looked_) return;
    StripState& state = state_of(searched_++);
    if (TD_LIKELY(!batch_.searched_at(state.strip.begin))) task::search<I>(context_, batch_, state);
    timer_.lap(Task::search, 0);
  }
  TD_INLINE void search_rest() noexcept {
    if (found_ == searched_) return;
    task::search_rest<I>(context_, batch_, state_of(found_++));
    timer_.lap(Task::search, 0);
  }
  // The current strip was cut: drops those behind it.
  void end_behind_current() noexcept {
    looked_end_ = batch_.size();
    looked_ = current_ + 1;
    searched_ = std::min(searched_, looked_);
    found_ = std::min(found_, looked_);
  }

  Context& context_;
  Batch& batch_;
  TaskTimer& timer_;
  const std::uint32_t begin_;
  std::uint32_t looked_ = 0, searched_ = 0, found_ = 0, current_ = 0;  // strips so far; index of the current one
  std::uint32_t looked_end_;                                           // queries
  const std::uint32_t now_s_;
  StripState states_[3 * lead + 1];
};

}  // namespace executor

template <IndexKind I>
void Executor::run_as(Batch& batch, ResponseWriter& writer) {
  TaskTimer timer(context_.tasks, batch.size());
  std::uint32_t i = 0;
  while (i < batch.size()) {
    if (TD_UNLIKELY(batch.query(i).opcode == Opcode::control)) {
      context_.let_go();  // the query may wait for the batches in flight
      writer.control(batch, i++);
      timer.skip();
      continue;
    }
    if (TD_UNLIKELY(context_.remote != nullptr) && context_.shared.placement.wants_search() && !batch.searched_at(i)) {
      const std::uint64_t from = cycles_now();
      context_.remote->search(batch, i);
      context_.waited_ticks += cycles_now() - from;
    }
    i = batch.size() - i > strip_queries_max ? run_strips<I>(batch, i, writer, timer)
                                             : run_strip<I>(batch, i, writer, timer);
  }
  if (TD_UNLIKELY(context_.remote != nullptr)) {
    context_.remote->end();
    context_.shared.placement.reclaim_changes(context_.cache);
  }
  // The check sums up counters, so it is not made for every batch.
  if (TD_UNLIKELY(context_.counters.total_items.get() - stored_at_check_ >= task::stores_per_growth_check)) {
    stored_at_check_ = context_.counters.total_items.get();
    if (context_.shared.index.wants_growth()) context_.shared.maintenance.notify();
  }
}

// One epoch. Strips pass through the tasks staggered, each `lead` strips behind the previous one in the next task:
//
//   strip k             KC RD                        WR
//   strip k + lead              IN (second buckets)
//   strip k + 2 lead            IN (first buckets)
//   strip k + 3 lead            PP (fingerprints)
//
// So the lines that one task prefetches arrive while other tasks work, and no task requests more lines at once than a
// core can have in flight. MM runs just before KC. When later queries are taken back (a write that cannot continue in
// this epoch, a client that does not read), their strips have only been looked at, and the next call starts there
// again.
template <IndexKind I>
std::uint32_t Executor::run_strips(Batch& batch, std::uint32_t begin, ResponseWriter& writer, TaskTimer& timer) {
  executor::Strips<I> strips(context_, batch, timer, begin);
  strips.begin(std::exchange(refuses_next_, false));
  context_.enter();
  if (TD_UNLIKELY(!executor::is_ready(context_, batch, begin))) return start_over(batch, strips.current());
  std::uint64_t flush_cas = context_.shared.flush_cas.load(std::memory_order_acquire);
  strips.fill();

  executor::Stopped stopped{};
  context_.retired_bytes = 0;
  for (bool goes_on = true; goes_on;) {
    StripState& state = strips.current();
    state.flush_cas = flush_cas;
    stopped = executor::settle<I>(context_, batch, state, timer);
    flush_cas = state.flush_cas;  // a write may have seen a later flush; what follows uses that one
    strips.step();
    goes_on = stopped.why == task::Settled::done;
    if (TD_LIKELY(state.strip.size() != 0)) {
      goes_on &= writer.write(batch, state.strip);
      timer.lap(Task::write_response, state.strip.size());
    }
    task::release_slots(context_, state);
    goes_on = goes_on && context_.retired_bytes < task::retired_bytes_per_epoch_max && strips.advance();
  }
  return end_epoch(batch, begin, stopped.at, stopped.why == task::Settled::needs_room);
}

// The same for at most one strip: the tasks one after the other.
template <IndexKind I>
std::uint32_t Executor::run_strip(Batch& batch, std::uint32_t begin, ResponseWriter& writer, TaskTimer& timer) {
  StripState state;
  state.strip = executor::strip_at(batch, begin);
  state.now_s = context_.shared.clock.now_s();
  state.refuse_first = std::exchange(refuses_next_, false);
  executor::look_at<I>(context_, batch, state);
  timer.lap(Task::search, 0);
  task::memory(context_, batch, state);
  timer.lap(Task::memory, state.strip.size());
  context_.enter();
  if (TD_UNLIKELY(!executor::is_ready(context_, batch, begin))) return start_over(batch, state);
  state.flush_cas = context_.shared.flush_cas.load(std::memory_order_acquire);
  if (TD_LIKELY(!batch.searched_at(begin))) task::search<I>(context_, batch, state);
  if (state.left != 0) task::search_rest<I>(context_, batch, state);
  timer.lap(Task::search, 0);
  const executor::Stopped stopped = executor::settle<I>(context_, batch, state, timer);
  if (TD_LIKELY(state.strip.size() != 0)) {
    writer.write(batch, state.strip);
    timer.lap(Task::write_response, state.strip.size());
  }
  task::release_slots(context_, state);
  return end_epoch(batch, begin, stopped.at, stopped.why == task::Settled::needs_room);
}

// The code that a store with this kind of index runs.
template <IndexKind I>
constexpr KindCode code_of() noexcept {
  return {.kind = I::kind,
          .run = [](Executor& e, Batch& batch, ResponseWriter& writer) { e.run_as<I>(batch, writer); },
          .execute = task::execute<I>,
          .store_plain = task::store_plain<I>,
          .unlink = task::unlink<I>,
          .rescue = task::rescue<I>,
          .move_to = task::move_to<I>};
}

}  // namespace tandem
