// What a worker's connections may hold, how long they may be silent, and how long each has its turn
// (docs/decisions/0021-turns.md). The limits of memory are shared by all workers (State); at one, the worker's own
// longest-stalled connection is closed, where that helps.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstdint>

#include "base/memory_budget.hpp"
#include "base/memory_reserve.hpp"
#include "base/ticks.hpp"
#include "net/limits.hpp"
#include "worker/connections.hpp"

namespace tandem::net {

class ConnectionLimits {
 public:
  // All outlive the limits. turn: a connection's turn, in ns.
  ConnectionLimits(State& state, NetCounters& counters, Connections& connections, double turn = turn_ns);

  void begin_pass(std::uint64_t number, std::uint64_t begin_ticks) noexcept {
    pass_ = number;
    pass_begin_ = begin_ticks;
    in_pass_ = true;
    datagrams_begin_ns_ = 0;
  }
  void end_pass() noexcept {
    if (in_pass_ && TD_UNLIKELY(cycles_now() - pass_begin_ > long_pass_ticks_))
      none_stalled_before_s_ = now_s() + stalled_after_s + 1;
    in_pass_ = false;
    if (TD_UNLIKELY(memory_reserve_missing() != 0)) save_memory();
  }
  // Closes connections that have been idle, or in their handshake, for too long: once a second.
  bool has_timeouts() const noexcept { return has_timeouts_; }
  void check_timeouts();

  // Replaces the kept input. False, as charge_kept(): the limit is passed, or there is no memory, and the connection is
  // closed.
  bool keep(Connection& c, const char* begin, const char* end) noexcept;
  // Charges the present size of the connection's buffer of kept input.
  bool charge_kept(Connection& c) noexcept;
  void refuse_kept(Connection& c) noexcept;
  // Charges a large value that is to be received. False: it does not fit.
  bool take_filling(std::uint64_t bytes) noexcept;
  // Charges unsent output of `c`: `budget` is State::unsent or State::pinned. At the limit a connection with unsent
  // output is closed: one that is stalled, else the one that holds the most; false: that is `c` itself.
  bool charge(const Connection& c, MemoryBudget& budget, std::uint64_t bytes) noexcept;

  // Turns: whether the time of all datagrams together is over, by processor time, as an answer is not dropped because
  // the machine is busy.
  bool datagram_time_has_ended() noexcept;
  void restart_datagrams() noexcept { datagrams_begin_ns_ = 0; }
  std::uint64_t turn_ticks() const noexcept { return turn_ticks_; }

 private:
  bool is_stalled(const Connection& c) const noexcept;
  Connection* longest_stalled_filling(std::uint64_t bytes) noexcept;
  void close_idle(std::uint32_t now_s) noexcept;
  void close_unfinished_handshakes(std::uint32_t now_s) noexcept;
  void save_memory() noexcept;
  std::uint32_t now_s() const noexcept { return state_.engine.shared().clock.now_s(); }

  State& state_;
  NetCounters& counters_;
  Connections& connections_;
  const bool has_timeouts_;
  const std::uint64_t turn_ticks_, long_pass_ticks_;
  std::uint64_t pass_ = 0, pass_begin_ = 0;  // number; ticks
  bool in_pass_ = false;                     // that has begun
  std::uint32_t timeouts_checked_s_ = 0;
  // The last look at stalled connections with half values: in which second, and what they hold.
  std::uint32_t stalled_s_ = 0;
  std::uint64_t stalled_bytes_ = 0;
  std::uint32_t none_stalled_before_s_ = 0;
  std::uint64_t datagrams_begin_ns_ = 0;  // of processor time; 0: not looked at yet
};

}  // namespace tandem::net
