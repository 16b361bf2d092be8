#include "lane/calls.hpp"

#include <stdexcept>
#include <string>

#include "lane/calls_state.hpp"
#include "task/memory.hpp"

namespace tandem {

const ProtocolOptions lane::CallState::no_options{};

CallLane::CallLane(Context& context, std::string_view instructions)
    : context_(context),
      ops_(lane::ops_for(context.shared.index, instructions)),
      state_(std::make_unique<lane::CallState>(context)) {}

CallLane::~CallLane() = default;

bool CallLane::may_run() const noexcept { return lane::may_run(*state_); }

std::size_t CallLane::run(std::span<const Request> requests, std::size_t first, ReplyVisitor visit,
                          void* visitor) noexcept {
  state_->requests = requests;
  state_->keys = {};
  return run(first, visit, visitor);
}

std::size_t CallLane::run(std::span<const std::string_view> keys, std::size_t first, ReplyVisitor visit,
                          void* visitor) noexcept {
  state_->requests = {};
  state_->keys = keys;
  return run(first, visit, visitor);
}

std::size_t CallLane::run(std::size_t first, ReplyVisitor visit, void* visitor) noexcept {
  TD_DEBUG_ASSERT(may_run());
  lane::CallState& s = *state_;
  s.taken = s.answered = 0;
  s.stopped = false;
  s.first = first;
  s.visit = visit;
  s.visitor = visitor;
  s.item_bytes_max = context_.shared.policy.item_bytes_max;
  const bool sampled = context_.tasks.sampler.next();
  lane::Laps laps(context_.tasks, false);
  s.laps = &laps;
  lane::run_in_epoch(s, [&] {
    if (TD_UNLIKELY(sampled)) {
      laps.begin();
      ops_.run_calls_timed(s);
    } else {
      ops_.run_calls(s);
    }
  });
  lane::count_run(s, s.answered);
  if (TD_UNLIKELY(sampled)) laps.end(s.answered, s.sets, true);
  return s.answered;
}

}  // namespace tandem
