// Samples of what is answered, by which the router learns which keys are hot; and those keys turn hot (KVCG 6, 7).
#include "task/hot.hpp"

#include "codec/command.hpp"
#include "lane/calls_state.hpp"
#include "lane/state.hpp"
#include "router/router.hpp"

namespace tandem::lane {
namespace {

void offer(Context& context, Fingerprint f, std::string_view key, bool is_write, Location candidate) noexcept {
  context.samples->offer(f, is_write);
  if (TD_LIKELY(!context.router->model()->is_hot(f))) return;
  const HotTable* const hot = context.shared.placement.hot();
  if (hot != nullptr && !hot->find(f).is_hot) task::promote(context, f, key, candidate);
}

}  // namespace

bool is_whole_command(const State& state, const Strip& strip, std::uint32_t i) noexcept {
  if (state.rows == nullptr) return true;  // a call
  const Query& row = state.rows->batch.query(place_of(state, strip) + i);
  return row.continues_line == 0 && ends_command(row);
}

void sample_hot(State& state, const Strip& strip) noexcept {
  Context& context = state.context;
  const std::uint32_t i = context.tasks.sampler.draw() % strip.count;
  // One that the lane has left is met again.
  if (strip.is_cold(i) || strip.is_run(i) || info::key_bytes(strip.info[i]) == 0) return;
  bool is_write = strip.is_set(i);
  if (strip.is_row(i)) {
    is_write = state.rows->batch.query(place_of(state, strip) + i).operation().slot_need != SlotNeed::none;
  }
  offer(context, fingerprint_at(state, strip, i), strip.key_of(i), is_write, strip.candidate(i, context.shared.heap));
}

void sample_hot_call(CallState& state) noexcept {
  Context& context = state.context;
  if (context.samples == nullptr || state.answered == 0 ||
      !context.samples->is_due(static_cast<std::uint32_t>(state.answered)))
    return;
  const auto i = static_cast<std::uint32_t>(context.tasks.sampler.draw() % state.answered);
  state.with_request(i, [&](const Request& request) {
    if (!is_good_key(request.key)) return;
    const Fingerprint f = fingerprint_of(request.key, state.seed);
    const bool is_found = state.source == Source::found && state.found->searched_at(state.found_at + i);
    offer(context, f, request.key, request.action != Action::get,
          is_found ? state.found->locations()[state.found_at + i] : no_location);
  });
}

}  // namespace tandem::lane
