#include "lane/calls.hpp"

#include <algorithm>

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

template <class Take>
std::size_t CallLane::run_in_epochs(std::size_t size, std::size_t first, ReplyVisitor visit, void* visitor,
                                    Take take) noexcept {
  for (std::size_t done = 0;;) {
    const std::size_t count = std::min(size - done, epoch_requests_max);
    take(done, count);
    const std::size_t ran = run(first + done, visit, visitor);
    done += ran;
    if (ran != count || done == size) return done;
  }
}

std::size_t CallLane::run(std::span<const Request> requests, std::size_t first, ReplyVisitor visit,
                          void* visitor) noexcept {
  return run_in_epochs(requests.size(), first, visit, visitor, [&](std::size_t begin, std::size_t count) {
    state_->requests = requests.subspan(begin, count);
    state_->keys = {};
  });
}

std::size_t CallLane::run(std::span<const std::string_view> keys, std::size_t first, ReplyVisitor visit,
                          void* visitor) noexcept {
  return run_in_epochs(keys.size(), first, visit, visitor, [&](std::size_t begin, std::size_t count) {
    state_->requests = {};
    state_->keys = keys.subspan(begin, count);
  });
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
  lane::count_run(s, s.answered, 0);
  if (TD_UNLIKELY(sampled)) laps.end({s.answered, s.sets, 0, 0}, true);
  return s.answered;
}

}  // namespace tandem
