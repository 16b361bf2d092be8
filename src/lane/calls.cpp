#include "lane/calls.hpp"

#include <algorithm>
#include <new>

#include "lane/calls_state.hpp"
#include "lane/run.hpp"
#include "task/memory.hpp"

namespace tandem {

const ProtocolOptions lane::CallState::no_options{};

CallLane::CallLane(Context& context, std::string_view instructions)
    : context_(context),
      ops_(lane::ops_for(context.shared.index, instructions)),
      state_(std::make_unique<lane::CallState>(context)) {}

CallLane::~CallLane() = default;

bool CallLane::takes_found() const noexcept { return state_->cells_in == CellsIn::table; }

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

// Whether all of the first `count` requests are of hot keys now, and they are few: then no device is asked.
bool CallLane::are_hot(std::size_t count) noexcept {
  constexpr std::size_t few = 2 * lane::strip_queries;
  lane::CallState& s = *state_;
  const Shared& shared = context_.shared;
  s.hot = takes_found() ? shared.placement.hot() : nullptr;
  if (s.hot == nullptr || s.hot->keys() == 0 || count > few) return false;
  bool all = true;
  for (std::size_t i = 0; i != count && all; ++i) {
    s.with_request(
        i, [&](const Request& request) { all = s.hot->find(fingerprint_of(request.key, shared.hash_seed)).is_hot; });
  }
  return all;
}

// Where devices search: what they have found for the requests from number `done` on, `count` at most. Asks them where
// nothing is known. Returns how many requests the next epoch takes.
std::size_t CallLane::look_at_found(const Batch* found, std::size_t done, std::size_t count) noexcept {
  lane::CallState& s = *state_;
  s.found = found;
  s.found_at = static_cast<std::uint32_t>(done);
  if (context_.remote != nullptr && found == nullptr && context_.shared.placement.wants_search()) {
    if (are_hot(count)) {
      s.source = lane::Source::hot;
      return count;
    }
    if (const std::size_t asked = ask(count); asked != 0) count = asked;
    s.found_at = 0;
  }
  if (s.found != nullptr && s.found->searched_at(s.found_at)) s.source = lane::Source::found;
  return count;
}

// Answers requests of the input in an epoch, and counts them.
template <class Run>
TD_INLINE void CallLane::run_epoch(Run run) noexcept {
  lane::CallState& s = *state_;
  s.rows_run = 0;
  s.stopped = false;
  std::uint64_t located = 0;
  lane::run_in_epoch(s, [&] {
    if (TD_UNLIKELY(s.source == lane::Source::found)) {
      if (s.found->searched_at(s.found_at)) located = s.found->found.end - s.found_at;
    }
    if (TD_UNLIKELY(s.source != lane::Source::text)) s.row.found = {.end = s.is_elsewhere ? 1u : 0u};
    run();
    if (TD_UNLIKELY(s.is_elsewhere)) lane::sample_hot_call(s);
  });
  if (TD_UNLIKELY(s.source == lane::Source::hot)) context_.counters.hot_queries.add(s.answered);
  lane::count_run(s, s.answered - s.rows_run, s.rows_run);
  if (TD_UNLIKELY(located != 0))
    context_.tasks.on_device[index_of(Task::search)].add(std::min<std::uint64_t>(located, s.answered));
  if (TD_UNLIKELY(s.is_elsewhere)) {
    s.row.leave_found();
    context_.shared.placement.reclaim_changes(context_.cache);
  }
}

// take(begin, count) makes these requests the input, of which run() answers those of an epoch.
template <class Take, class Run>
TD_INLINE std::size_t CallLane::run_in_epochs(std::size_t size, std::size_t first, const Batch* found, Take take,
                                              Run run) noexcept {
  lane::CallState& s = *state_;
  if (TD_UNLIKELY(size == 0)) return 0;
  std::size_t done = 0;
  do {
    std::size_t count = std::min(size - done, epoch_requests_max);
    s.source = lane::Source::text;
    take(done, count);
    if (TD_UNLIKELY(context_.remote != nullptr || found != nullptr)) {
      count = look_at_found(found, done, count);
      take(done, count);
    }
    s.first = first + done;
    s.answered = 0;
    s.is_elsewhere = context_.shared.placement.wants_search();
    if (TD_LIKELY(!s.is_elsewhere || s.source != lane::Source::text)) {
      run_epoch(run);
      done += s.answered;
      if (TD_LIKELY(!s.stopped)) continue;
    } else if (found != nullptr) {
      return done;
    }
    run_alone(s.answered, first + done);
    ++done;
  } while (TD_UNLIKELY(done != size));
  if (TD_UNLIKELY(context_.remote != nullptr)) context_.remote->end();
  return size;
}

std::size_t CallLane::run(std::span<const Request> requests, std::size_t first, ReplyVisitor visit, void* visitor,
                          const Batch* found) noexcept {
  lane::CallState& s = *state_;
  s.visit = visit;
  s.visitor = visitor;
  return run_in_epochs(
      requests.size(), first, found,
      [&s, requests](std::size_t begin, std::size_t count) { s.requests = requests.subspan(begin, count); },
      [this, &s] {
        lane::look_for_usual_sets(s);
        ops_.run_requests(s, s.requests);
      });
}

std::size_t CallLane::run(std::span<const std::string_view> keys, KeyCheck check, std::size_t first, ReplyVisitor visit,
                          void* visitor, const Batch* found) noexcept {
  lane::CallState& s = *state_;
  s.visit = visit;
  s.visitor = visitor;
  s.key_kind = check == KeyCheck::store ? lane::kind::get : lane::kind::get | lane::kind::any_key;
  s.requests = {};
  return run_in_epochs(
      keys.size(), first, found,
      [&s, keys](std::size_t begin, std::size_t count) { s.keys = keys.subspan(begin, count); },
      [this, &s] { ops_.run_keys(s, s.keys); });
}

}  // namespace tandem
