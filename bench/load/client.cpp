#include "bench/load/client.hpp"

#include <sys/epoll.h>

#include <algorithm>

#include "base/platform.hpp"

namespace tandem::load {
namespace {

// Time to wake a sleeping thread: closer than this to a due time, poll the clock instead.
constexpr std::uint64_t wake_ns = 60'000;

}  // namespace

std::vector<std::uint32_t> connections_of(const Options& options, std::uint32_t thread) {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t i = thread; i < options.connections; i += options.threads) numbers.push_back(i);
  return numbers;
}

int wait_for_events(int epoll, epoll_event* events, int events_max, std::uint64_t until_ns, bool spin) {
  std::uint64_t wait_ns = 0;
  if (!spin) {
    const std::uint64_t now = monotonic_ns();
    wait_ns = until_ns > now + wake_ns ? std::min(until_ns - now - wake_ns, wait_max_ns) : 0;
  }
  const timespec timeout{0, static_cast<long>(wait_ns)};
  return epoll_pwait2(epoll, events, events_max, &timeout, nullptr);
}

Arrival::Arrival(const Plan& plan, std::uint32_t thread, std::uint64_t start_ns,
                 const std::vector<RequestMaker>& makers)
    : replays_(plan.options.replay_speed > 0), done_(makers.size()), left_(makers.size()), start_ns_(start_ns) {
  if (plan.options.rate_per_s > 0) schedule_ = Schedule(plan.options, thread, plan.ops_per_batch(), start_ns);
  for (std::uint32_t i = 0; replays_ && i < makers.size(); ++i) {
    due_ns_.push_back(makers[i].next_due_ns());
    if (due_ns_.back() != UINT64_MAX) heap_.push_back(i);
  }
  std::ranges::make_heap(heap_, [this](auto a, auto b) { return due_ns_[a] > due_ns_[b]; });
  if (is_open_loop()) find_due();
}

void Arrival::find_due() {
  next_ns_ = UINT64_MAX;
  if (replays_) {
    if (heap_.empty()) return;
    turn_ = heap_.front();
    next_ns_ = start_ns_ + due_ns_[turn_];
    return;
  }
  if (left_ > 0) next_ns_ = schedule_.next_ns();
}

std::uint64_t Arrival::ops_until(std::uint64_t until_ns) const noexcept {
  if (next_ns_ >= until_ns) return 0;
  if (replays_) return heap_.size();  // lower bound
  return std::max<std::uint64_t>(1, schedule_.ops_within(until_ns - next_ns_));
}

void Arrival::sent(std::uint64_t ops, bool has_more, std::uint64_t next_due_ns) {
  if (replays_) {
    const auto later = [this](auto a, auto b) { return due_ns_[a] > due_ns_[b]; };
    std::ranges::pop_heap(heap_, later);
    due_ns_[turn_] = next_due_ns;
    if (due_ns_[turn_] == UINT64_MAX) {
      heap_.pop_back();
    } else {
      std::ranges::push_heap(heap_, later);
    }
    find_due();
    return;
  }
  schedule_.advance(ops);
  if (!has_more && !done_[turn_]) {
    done_[turn_] = true;
    --left_;
  }
  for (std::size_t tries = 0; tries < done_.size(); ++tries) {
    turn_ = turn_ + 1 == done_.size() ? 0 : turn_ + 1;
    if (!done_[turn_]) break;
  }
  find_due();
}

}  // namespace tandem::load
