#include "planner/steering.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/ticks.hpp"

namespace tandem {
namespace {

// Between two decisions: with load, and without. While the replica rests they cost the only wake-ups of its thread.
constexpr auto soon = std::chrono::milliseconds(1), resting = std::chrono::milliseconds(2),
               idle = std::chrono::milliseconds(20), idle_after = std::chrono::milliseconds(100);

}  // namespace

void Steering::Totals::add(const PlanBoard& board) noexcept {
  for (std::size_t o = 0; o < option_count; ++o) {
    queries[o] += board.queries[o].get();
    ticks[o] += board.ticks[o].get();
  }
  sets += board.sets.get();
  bytes += board.bytes.get();
}

std::shared_ptr<PlanBoard> Steering::join() {
  std::unique_lock lock(mutex_);
  members_.push_back({.board = std::make_unique<PlanBoard>()});
  PlanBoard& board = *members_.back().board;
  // Both halves get as many.
  const auto odd = std::ranges::count_if(members_, [](const Member& m) { return m.board->number % 2 == 1; });
  board.number = 2 * odd + 1 < std::ssize(members_) ? 1 : 0;
  lock.unlock();
  return {&board, [this](PlanBoard* b) { leave(b); }};  // without memory it calls that, and throws
}

void Steering::leave(PlanBoard* board) noexcept {
  const std::lock_guard lock(mutex_);
  gone_.add(*board);
  members_.erase(std::ranges::find_if(members_, [&](const Member& m) { return m.board.get() == board; }));
}

PlannerSeen Steering::since_last(const DeviceWork& work, std::chrono::steady_clock::time_point time) noexcept {
  constexpr auto report_within = std::chrono::milliseconds(20);  // of a worker with load: batches take milliseconds
  Totals now = gone_;
  PlannerSeen seen{.workers = 0};
  for (Member& member : members_) {
    now.add(*member.board);
    std::uint64_t queries = 0;
    for (const Counter& c : member.board->queries) queries += c.get();
    if (std::exchange(member.queries, queries) != queries) member.loaded_at = time;
    seen.workers += time - member.loaded_at < report_within ? 1u : 0u;
  }
  const double tick_ns = ns_per_tick();
  for (std::size_t o = 0; o < option_count; ++o) {
    seen.use[o].queries = now.queries[o] - before_.queries[o];
    seen.use[o].worker_ns = static_cast<std::uint64_t>(static_cast<double>(now.ticks[o] - before_.ticks[o]) * tick_ns);
    seen.queries += seen.use[o].queries;
  }
  seen.use[device].device_ns = work.device_ns - work_before_.device_ns;
  seen.sets = now.sets - before_.sets;
  seen.bytes = now.bytes - before_.bytes;
  seen.overflows = work.overflows - work_before_.overflows;
  before_ = now;
  work_before_ = work;
  return seen;
}

Steered Steering::steer(const DeviceWork& work, std::chrono::steady_clock::time_point now) noexcept {
  const std::lock_guard lock(mutex_);
  PlannerSeen seen = since_last(work, now);
  seen.now_ns =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count());
  seen.level = work.is_current ? options_[device].level : UpkeepLevel::none;
  seen.has_device = work.is_settled;
  if (seen.queries != 0) loaded_at_ = now;
  choice_ = controller_.decide(seen);
  published_.store(std::uint32_t{choice_.even} | std::uint32_t{choice_.odd} << 8, std::memory_order_relaxed);
  set_queries_min(work.round_trip_ns);
  const bool keeps_up = choice_.level != UpkeepLevel::none;
  return {.keeps_up = keeps_up, .again_in = now - loaded_at_ > idle_after ? idle : keeps_up ? soon : resting};
}

// A device's answer to a batch comes a launch later, whatever is in it: so much work of a worker is sooner done.
void Steering::set_queries_min(double round_trip_ns) noexcept {
  double host_ns = controller_.measured_ns(host_beside);
  if (host_ns == 0) host_ns = controller_.measured_ns(host_alone);
  if (round_trip_ns == 0 || host_ns == 0) return;
  constexpr double least = 1, most = 1024;  // a launch that happened to be late says nothing of the next ones
  queries_min_.store(static_cast<std::uint32_t>(std::clamp(std::ceil(round_trip_ns / host_ns), least, most)),
                     std::memory_order_relaxed);
}

SteeringStats Steering::stats() const {
  const std::lock_guard lock(mutex_);
  SteeringStats s{.choice = choice_, .counts = controller_.counts(), .set_share = controller_.set_share()};
  for (std::size_t o = 0; o < option_count; ++o) s.measured_ns[o] = controller_.measured_ns(o);
  return s;
}

}  // namespace tandem
