#include "lane/calls.hpp"

#include <algorithm>
#include <new>

#include "lane/calls_state.hpp"
#include "task/memory.hpp"

namespace tandem {

const ProtocolOptions lane::CallState::no_options{};

CallLane::CallLane(Context& context, std::string_view instructions)
    : context_(context),
      ops_(lane::ops_for(context.shared.index, instructions)),
      state_(std::make_unique<lane::CallState>(context)) {}

CallLane::~CallLane() = default;

bool CallLane::takes_found() const noexcept { return state_->cells_in == lane::CellsIn::table; }

// Has devices search for the first `count` requests, and waits. Returns for how many they did; 0: the index is on the
// host again, or there is no memory.
std::size_t CallLane::ask(std::size_t count) noexcept {
  constexpr std::size_t queries_max = 1024;
  lane::CallState& s = *state_;
  if (s.asked == nullptr) s.asked.reset(new (std::nothrow) Batch(queries_max));
  if (TD_UNLIKELY(s.asked == nullptr)) return 0;
  Batch& batch = *s.asked;
  batch.clear();
  for (std::size_t i = 0; i != std::min(count, queries_max); ++i) {
    s.with_request(i, [&](const Request& request) { lane::fill(batch.next(), request, context_.shared.clock); });
    batch.commit();
  }
  context_.remote->search(batch, 0);
  s.found = &batch;
  return batch.found.end;
}

template <class Take>
std::size_t CallLane::run_in_epochs(std::size_t size, std::size_t first, ReplyVisitor visit, void* visitor,
                                    Take take) noexcept {
  lane::CallState& s = *state_;
  const Batch* const found = s.found;
  for (std::size_t done = 0; done != size;) {
    const std::size_t count = std::min(size - done, epoch_requests_max);
    take(done, count);
    s.found = found;
    s.found_at = static_cast<std::uint32_t>(done);
    if (TD_UNLIKELY(context_.remote != nullptr) && found == nullptr && context_.shared.placement.wants_search()) {
      const std::size_t asked = ask(count);
      if (asked != 0) take(done, asked);
      s.found_at = 0;
    }
    s.source =
        TD_UNLIKELY(s.found != nullptr) && s.found->searched_at(s.found_at) ? lane::Source::found : lane::Source::text;
    std::size_t ran = 0;
    s.stopped = true;
    if (TD_LIKELY(lane::may_run(s))) {
      ran = run(first + done, visit, visitor);
      done += ran;
    } else if (found != nullptr) {
      return done;
    }
    if (TD_LIKELY(!s.stopped)) continue;
    run_alone(ran, first + done, visit, visitor);
    ++done;
  }
  if (TD_UNLIKELY(context_.remote != nullptr)) context_.remote->end();
  return size;
}

std::size_t CallLane::run(std::span<const Request> requests, std::size_t first, ReplyVisitor visit, void* visitor,
                          const Batch* found) noexcept {
  state_->found = found;
  return run_in_epochs(requests.size(), first, visit, visitor, [&](std::size_t begin, std::size_t count) {
    state_->requests = requests.subspan(begin, count);
    state_->keys = {};
  });
}

std::size_t CallLane::run(std::span<const std::string_view> keys, KeyCheck check, std::size_t first, ReplyVisitor visit,
                          void* visitor, const Batch* found) noexcept {
  state_->found = found;
  state_->key_kind = check == KeyCheck::store ? lane::kind::get : lane::kind::get | lane::kind::any_key;
  return run_in_epochs(keys.size(), first, visit, visitor, [&](std::size_t begin, std::size_t count) {
    state_->requests = {};
    state_->keys = keys.subspan(begin, count);
  });
}

std::size_t CallLane::run(std::size_t first, ReplyVisitor visit, void* visitor) noexcept {
  lane::CallState& s = *state_;
  s.taken = s.answered = s.rows_run = 0;
  s.stopped = false;
  s.timed_rows = {};
  s.first = first;
  s.visit = visit;
  s.visitor = visitor;
  s.item_bytes_max = context_.shared.policy.item_bytes_max;
  const bool sampled = context_.tasks.sampler.next();
  lane::Laps laps(context_.tasks, false);
  s.laps = &laps;
  std::uint64_t located = 0;
  lane::run_in_epoch(s, [&] {
    if (TD_UNLIKELY(s.source == lane::Source::found)) {
      if (s.found->searched_at(s.found_at)) located = s.found->found.end - s.found_at;
      s.row.found = {.end = s.is_elsewhere ? 1u : 0u};
    }
    if (TD_UNLIKELY(sampled)) {
      laps.begin();
      ops_.run_calls_timed(s);
    } else {
      ops_.run_calls(s);
    }
  });
  lane::count_run(s, s.answered - s.rows_run, s.rows_run);
  located = std::min<std::uint64_t>(located, s.answered);
  if (TD_UNLIKELY(located != 0)) context_.tasks.on_device[index_of(Task::search)].add(located);
  if (TD_UNLIKELY(sampled)) laps.end({s.answered, s.sets + s.timed_rows.inserts, s.timed_rows.removes, located}, true);
  if (TD_UNLIKELY(s.is_elsewhere)) {
    s.row.leave_found();
    context_.shared.placement.reclaim_changes(context_.cache);
  }
  return s.answered;
}

}  // namespace tandem
