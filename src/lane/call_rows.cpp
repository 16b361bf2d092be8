// Requests of an embedding program without a plain form.
#include <utility>

#include "lane/call_query.hpp"
#include "lane/calls.hpp"
#include "lane/calls_state.hpp"
#include "task/alone.hpp"
#include "task/memory.hpp"

namespace tandem {
namespace lane {

bool answer_call_as_row(CallState& state, const Strip& strip, std::uint32_t i, std::size_t number) noexcept {
  if (TD_UNLIKELY(strip.is_cold(i))) return false;
  Context& context = state.context;
  Query& q = state.row.query(0);
  state.with_request(number, [&](const Request& request) { fill(q, request, context.shared.clock); });
  QueryState one;
  if (TD_UNLIKELY(!execute_row(state, strip, i, state.row, 0, one, nullptr))) return false;
  char* copy = state.copies[i];
  fill_reply(state.replies[i], q, state.row.result(0), &copy);
  task::release_slots(context, one);
  ++state.rows_run;
  return true;
}

}  // namespace lane

// Request `number` of those of the last epoch, which is the visitor's `first`.
void CallLane::run_alone(std::size_t number, std::size_t first) noexcept {
  lane::CallState& s = *state_;
  Shared& shared = context_.shared;
  Batch& batch = s.row;
  Query& q = batch.query(0);
  s.with_request(number, [&](const Request& request) { lane::fill(q, request, shared.clock); });
  batch.resize(1);
  task::execute_alone(context_, batch, [&] {
    char* copy = s.copies[0];
    lane::fill_reply(s.replies[0], q, batch.result(0), &copy);
    s.visit(s.visitor, first, {s.replies, 1});
  });
  batch.clear();
}

}  // namespace tandem
