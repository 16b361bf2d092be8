#include "embedded/device_calls.hpp"

#include <algorithm>

#include "lane/call_query.hpp"

namespace tandem {
namespace {

// A call's requests: of gets, keys.
struct Requests {
  std::span<const Request> all;
  ReplyVisitor visit;
  void* visitor;

  std::size_t size() const noexcept { return all.size(); }
  std::string_view key(std::size_t i) const noexcept { return all[i].key; }
  std::size_t run(CallLane& lane, std::size_t first, std::size_t count, const Batch* found) const noexcept {
    return lane.run(all.subspan(first, count), first, visit, visitor, found);
  }
};
struct Keys {
  std::span<const std::string_view> all;
  KeyCheck check;
  ReplyVisitor visit;
  void* visitor;

  std::size_t size() const noexcept { return all.size(); }
  std::string_view key(std::size_t i) const noexcept { return all[i]; }
  std::size_t run(CallLane& lane, std::size_t first, std::size_t count, const Batch* found) const noexcept {
    return lane.run(all.subspan(first, count), check, first, visit, visitor, found);
  }
};

}  // namespace

template <class Calls>
void DeviceCalls::submit(const Calls& calls, std::size_t count, const Plan& plan) {
  Batch& batch = runner_.filling();
  for (std::size_t i = submitted_; i != submitted_ + count; ++i) {
    const std::string_view key = calls.key(i);
    Query& q = batch.next();
    q.key = key.data();
    q.key_bytes = static_cast<std::uint8_t>(key.size());
    q.opcode = lane::is_good_key(key) ? Opcode::get : Opcode::nothing;
    batch.commit();
  }
  runner_.submit(plan);
  submitted_ += count;
}

// A wait has ended the epochs of all: nothing of them can be used.
void DeviceCalls::drop_flights() {
  while (runner_.in_flight() != 0) {
    static_cast<void>(runner_.begin_answer());
    runner_.end_answer();
  }
}

template <class Calls>
void DeviceCalls::answer_oldest(const Calls& calls) {
  const Batch& batch = runner_.begin_answer();
  const std::size_t count = batch.size();
  const std::size_t answered = calls.run(lane_, answered_, count, &batch);
  runner_.end_answer();
  answered_ += answered;
  if (TD_LIKELY(answered == count)) return;
  // Only devices have the index, and they have not searched, or a wait has ended the epoch of what they have found: for
  // the rest of this batch they are asked and waited for; those behind it are submitted again.
  drop_flights();
  answered_ += calls.run(lane_, answered_, count - answered, nullptr);
  submitted_ = answered_;
}

template <class Calls>
void DeviceCalls::run(const Calls& calls) {
  drop_flights();  // of a call that ended by an exception
  // Of shorter ones the clock would cost too much.
  constexpr std::size_t calls_timed_min = 64;
  const bool is_timed = planner_.is_steered() && calls.size() >= calls_timed_min;
  if (is_timed) planner_.begin(cycles_now());
  answered_ = submitted_ = 0;
  while (answered_ != calls.size()) {
    const std::size_t left = calls.size() - submitted_;
    if (left != 0 && runner_.can_fill()) {
      const std::size_t count = std::min<std::size_t>(left, batch_);
      const Plan plan = planner_.plan_for(static_cast<std::uint32_t>(count));
      if (TD_LIKELY(plan.uses(Processor::device))) {
        submit(calls, count, plan);
        continue;
      }
      if (runner_.in_flight() == 0) {
        submitted_ += calls.run(lane_, submitted_, std::min(left, CallLane::epoch_requests_max), nullptr);
        answered_ = submitted_;
        continue;
      }
    }
    answer_oldest(calls);
  }
  if (is_timed) planner_.end(cycles_now(), Planner::work_of(context_.counters, 0), false);
}

void DeviceCalls::run(std::span<const Request> requests, ReplyVisitor visit, void* visitor) {
  run(Requests{requests, visit, visitor});
}

void DeviceCalls::run(std::span<const std::string_view> keys, KeyCheck check, ReplyVisitor visit, void* visitor) {
  run(Keys{keys, check, visit, visitor});
}

}  // namespace tandem
