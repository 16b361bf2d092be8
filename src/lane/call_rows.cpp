// Requests of an embedding program without a plain form.
#include <utility>

#include "base/hash.hpp"
#include "lane/call_query.hpp"
#include "lane/calls.hpp"
#include "lane/calls_state.hpp"
#include "task/index_room.hpp"
#include "task/memory.hpp"
#include "task/settled.hpp"

namespace tandem {
namespace lane {

bool answer_call_as_row(CallState& state, const Strip& strip, std::uint32_t i, std::size_t number,
                        Laps* laps) noexcept {
  Context& context = state.context;
  Query& q = state.row.query(0);
  state.with_request(number, [&](const Request& request) { fill(q, request, context.shared.clock); });
  StripState one;
  if (TD_UNLIKELY(!execute_row(state, strip, i, state.row, 0, one, laps))) return false;
  char* copy = state.copies[i];
  fill_reply(state.replies[i], q, state.row.result(0), &copy);
  task::release_slots_of_one(context, one);
  ++state.rows_run;
  if (TD_UNLIKELY(laps != nullptr)) laps->lap(Task::write_response);
  return true;
}

namespace {

// The query of `batch` in an epoch of its own, for which MM has run. done: `answer` was called in that epoch.
template <class Answer>
task::Settled execute_alone(Context& context, Batch& batch, StripState& one, Answer answer) noexcept {
  Shared& shared = context.shared;
  context.enter();
  task::Settled settled = task::Settled::needs_slot;
  // What a device has found may be discarded by then.
  if (TD_LIKELY(!shared.placement.wants_search() || batch.searched_at(0))) {
    one.now_s = shared.clock.now_s();
    one.flush_cas = shared.flush_cas.load(std::memory_order_acquire);
    if (TD_LIKELY(!batch.searched_at(0))) {
      const Query& q = batch.query(0);
      ItemVersion seen;
      const Item* const item =
          q.operation().has_key ? shared.index.find(batch.fingerprints()[0], q.key_view(), seen, no_location) : nullptr;
      batch.locations()[0] = item != nullptr ? shared.heap.location_of(item) : no_location;
    }
    settled = shared.code.execute(context, batch, one);
  }
  if (TD_LIKELY(settled == task::Settled::done)) {
    answer();
    task::release_slots(context, one);
  } else {
    task::cut(context, batch, one, 0);
  }
  context.epoch.exit();
  return settled;
}

}  // namespace
}  // namespace lane

// Request `number` of those of the last epoch, which is the visitor's `first`.
void CallLane::run_alone(std::size_t number, std::size_t first, ReplyVisitor visit, void* visitor) noexcept {
  lane::CallState& s = *state_;
  Shared& shared = context_.shared;
  Batch& batch = s.row;
  Query& q = batch.query(0);
  s.with_request(number, [&](const Request& request) { lane::fill(q, request, shared.clock); });
  batch.resize(1);
  batch.leave_found();
  context_.tasks.queries_total.add();
  StripState one;
  one.plain_reads = q.is_plain_read();
  one.is_prepared = true;
  one.slot[0] = one.fill[0] = no_location;
  one.refused[0] = Status::none;
  for (auto settled = task::Settled::needs_slot; settled != task::Settled::done;) {
    batch.fingerprints()[0] = fingerprint_of(q.key, q.key_bytes, shared.hash_seed);
    one.strip = {0, 1};
    if (TD_UNLIKELY(context_.remote != nullptr) && shared.placement.wants_search() && !batch.searched_at(0)) {
      context_.remote->let_go();  // of what was asked for the requests behind this one
      context_.remote->search(batch, 0);
    }
    task::memory(context_, batch, one);
    // A slot that was refused is not asked for again.
    one.refuse_first = one.refused[0] == Status::out_of_memory;
    settled = lane::execute_alone(context_, batch, one, [&] {
      char* copy = s.copies[0];
      lane::fill_reply(s.replies[0], q, batch.result(0), &copy);
      visit(visitor, first, {s.replies, 1});
    });
    if (TD_UNLIKELY(settled == task::Settled::needs_room))
      one.refuse_first = !task::make_index_room(context_, batch.fingerprints()[0], q.key_view());
  }
  batch.clear();
  if (TD_LIKELY(context_.remote == nullptr)) return;
  context_.remote->end();
  shared.placement.reclaim_changes(context_.cache);
}

}  // namespace tandem
