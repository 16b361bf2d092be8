#include "worker/connection_limits.hpp"

#include <new>
#include <utility>

#include "base/process_meter.hpp"

namespace tandem::net {

ConnectionLimits::ConnectionLimits(State& state, NetCounters& counters, Connections& connections, double turn)
    : state_(state),
      counters_(counters),
      connections_(connections),
      has_timeouts_(state.options.idle_timeout_s != 0 || state.options.tls.enabled),
      turn_ticks_(static_cast<std::uint64_t>(turn / ns_per_tick())),
      long_pass_ticks_(static_cast<std::uint64_t>(long_pass_ns / ns_per_tick())) {}

// The pass has used the memory reserve. If much of it cannot be allocated again, the connection with the largest
// buffers is closed, unless they are too small to help.
void ConnectionLimits::save_memory() noexcept {
  constexpr std::size_t helps_bytes = 16 << 10;
  if (refill_memory_reserve() || !memory_is_short()) return;
  const auto buffers = [](const Connection& c) {
    return c.kept.capacity() + (c.is_blocked() ? c.unsent->copied_bytes() : 0);
  };
  Connection* most = nullptr;
  connections_.for_each([&](Connection& c) {
    if (c.is_closed() || c.in_flight || buffers(c) < helps_bytes) return;
    if (most == nullptr || buffers(c) > buffers(*most)) most = &c;
  });
  if (most == nullptr) return;
  counters_.closed_for_room.add();
  connections_.close(*most);
}

void ConnectionLimits::check_timeouts() {
  const std::uint32_t now_s = this->now_s();
  if (std::exchange(timeouts_checked_s_, now_s) == now_s) return;
  if (state_.options.idle_timeout_s != 0) close_idle(now_s);
  close_unfinished_handshakes(now_s);
}

void ConnectionLimits::close_idle(std::uint32_t now_s) noexcept {
  connections_.for_each([&, this](Connection& c) {
    const std::uint32_t active_s = c.last_active_s.load(std::memory_order_relaxed);
    // It may be newer, or the clock have advanced, since now_s was read.
    if (active_s >= now_s || now_s - active_s <= state_.options.idle_timeout_s || c.is_closed()) return;
    if (c.stream != nullptr && !c.is_blocked()) return;  // a watcher has nothing to send
    if (c.in_flight) return;                             // it waits for its answers
    counters_.idle_kicks.add();
    connections_.close(c, CloseReason::idle_timeout);
  });
}

void ConnectionLimits::close_unfinished_handshakes(std::uint32_t now_s) noexcept {
  const unsigned timeout_s = state_.options.tls.handshake_timeout_s;
  if (timeout_s == 0 || !connections_.has_unfinished_handshakes()) return;
  connections_.for_each([&, this](Connection& c) {
    if (c.tls == nullptr || c.tls->is_established() || c.is_closed()) return;
    if (now_s > c.tls->since_s() && now_s - c.tls->since_s() > timeout_s) connections_.close(c);
  });
}

bool ConnectionLimits::keep(Connection& c, const char* begin, const char* end) noexcept {
  try {
    c.kept.assign(begin, end);
  } catch (const std::bad_alloc&) {
    refuse_kept(c);
    return false;
  }
  return charge_kept(c);
}

bool ConnectionLimits::charge_kept(Connection& c) noexcept {
  const std::size_t capacity = c.kept.capacity();
  if (TD_LIKELY(capacity == c.kept_counted)) return true;
  const std::size_t cost = state_.kept_cost(capacity), charged = state_.kept_cost(c.kept_counted);
  if (cost < charged) {
    state_.kept.give_back(charged - cost);
  } else if (TD_UNLIKELY(cost != charged) && !state_.kept.take(cost - charged)) {
    refuse_kept(c);
    return false;
  }
  connections_.count_kept(c, capacity);
  return true;
}

// As memcached does.
void ConnectionLimits::refuse_kept(Connection& c) noexcept {
  counters_.closed_for_room.add();
  counters_.read_buf_oom.add();
  connections_.close(c);
}

bool ConnectionLimits::take_filling(std::uint64_t bytes) noexcept {
  while (!state_.filling.take(bytes)) {
    Connection* const stalled = longest_stalled_filling(bytes);
    if (stalled == nullptr) return false;
    counters_.closed_for_room.add();
    connections_.close(*stalled);
  }
  return true;
}

bool ConnectionLimits::charge(const Connection& c, MemoryBudget& budget, std::uint64_t bytes) noexcept {
  const auto held = [&budget, this](const Connection& connection) -> std::uint64_t {
    if (!connection.is_blocked()) return 0;
    return &budget == &state_.unsent ? connection.unsent->copied_bytes() : connection.unsent->pinned_bytes();
  };
  if (bytes == 0) return true;  // even beyond a limit that was lowered
  while (!budget.take(bytes)) {
    counters_.closed_for_room.add();
    counters_.response_obj_oom.add();
    Connection* most = nullptr;
    Connection* stalled = nullptr;
    for (Connection* other : connections_.blocked()) {
      if (other == &c) continue;
      if (most == nullptr || held(*other) > held(*most)) most = other;
      if (held(*other) != 0 && is_stalled(*other) && (stalled == nullptr || held(*other) > held(*stalled)))
        stalled = other;
    }
    if (stalled == nullptr && (most == nullptr || held(*most) <= held(c) + bytes)) return false;
    connections_.close(stalled != nullptr ? *stalled : *most);
  }
  return true;
}

// It has neither sent nor read for a while, and no batch of this pass or in flight names it. After a long pass none
// counts as stalled: what clients sent meanwhile is not received yet.
bool ConnectionLimits::is_stalled(const Connection& c) const noexcept {
  const std::uint32_t now_s = this->now_s();
  if (now_s < none_stalled_before_s_ || cycles_now() - pass_begin_ > long_pass_ticks_) return false;
  const std::uint32_t active_s = c.last_active_s.load(std::memory_order_relaxed);
  return !c.is_closed() && !c.in_flight && c.pass.load(std::memory_order_relaxed) != pass_ && active_s < now_s &&
         now_s - active_s > stalled_after_s;
}

// Of the connections with a half value; nullptr: none is stalled, or closing all that are does not make room for
// `bytes`. Then they are not examined again in the same second.
Connection* ConnectionLimits::longest_stalled_filling(std::uint64_t bytes) noexcept {
  const std::uint32_t now_s = this->now_s();
  const auto helps = [&, this] {
    return stalled_bytes_ != 0 && state_.filling.used_bytes() + bytes <= state_.filling.limit_bytes() + stalled_bytes_;
  };
  if (stalled_s_ == now_s && !helps()) return nullptr;
  stalled_s_ = now_s;
  stalled_bytes_ = 0;
  Connection* longest = nullptr;
  connections_.for_each([&, this](Connection& c) {
    if (c.fill == nullptr || !is_stalled(c)) return;
    stalled_bytes_ += c.fill->value_bytes;
    if (longest == nullptr ||
        c.last_active_s.load(std::memory_order_relaxed) < longest->last_active_s.load(std::memory_order_relaxed))
      longest = &c;
  });
  return helps() ? longest : nullptr;
}

bool ConnectionLimits::datagram_time_has_ended() noexcept {
  if (cycles_now() - pass_begin_ <= turn_ticks_) return false;
  const std::uint64_t now_ns = read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  if (datagrams_begin_ns_ == 0) datagrams_begin_ns_ = now_ns;
  return now_ns - datagrams_begin_ns_ > datagrams_ns;
}

}  // namespace tandem::net
