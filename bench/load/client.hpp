// One thread's share of a run.
#pragma once
#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bench/load/plan.hpp"
#include "bench/load/recorder.hpp"
#include "bench/load/schedule.hpp"
#include "bench/load/socket.hpp"

namespace tandem::load {

// State shared by the clients of a run. Thread safety: any thread.
struct RunState {
  std::atomic<bool> stop{false};  // one has failed: all must end, too
};

// Decides which connection of a thread sends the next batch, and when: at the rate, in turn; or by a trace's own times.
// Thread safety: none.
class Arrival {
 public:
  Arrival(const Plan& plan, std::uint32_t thread, std::uint64_t start_ns, const std::vector<RequestMaker>& makers);

  bool replays() const noexcept { return replays_; }
  bool is_open_loop() const noexcept { return replays_ || schedule_.is_open_loop(); }
  // UINT64_MAX: no connection has more to send.
  std::uint64_t next_ns() const noexcept { return next_ns_; }
  std::size_t connection() const noexcept { return turn_; }
  // Approximate number of operations due from the next one on to `until_ns`.
  std::uint64_t ops_until(std::uint64_t until_ns) const noexcept;
  // Reports that the connection has sent a batch of `ops`. `has_more`: it has another, which a trace has due at
  // `next_due_ns` (RequestMaker::next_due_ns() before that batch was made).
  void sent(std::uint64_t ops, bool has_more, std::uint64_t next_due_ns);

 private:
  void find_due();
  bool replays_ = false;
  Schedule schedule_;
  std::vector<std::uint64_t> due_ns_;  // of a trace, each connection's next
  std::vector<std::uint32_t> heap_;    // connections, the next due first
  std::vector<bool> done_;
  std::size_t turn_ = 0, left_;
  std::uint64_t start_ns_, next_ns_ = UINT64_MAX;
};

// Thread safety: none; run() is called by one thread.
class Client {
 public:
  virtual ~Client() = default;
  virtual void run(std::uint64_t start_ns) = 0;
};

// `connections`: the numbers of this thread's. Connects at once; throws std::system_error.
std::unique_ptr<Client> make_tcp_client(const Plan& plan, const Address& address, std::uint32_t thread,
                                        Recorder& recorder, RunState& state);
std::unique_ptr<Client> make_udp_client(const Plan& plan, const Address& address, std::uint32_t thread,
                                        Recorder& recorder, RunState& state);

// Numbers of the connections of thread `thread`.
std::vector<std::uint32_t> connections_of(const Options& options, std::uint32_t thread);

// Sleeps in epoll_wait until there is input, `until_ns`, or max_wait; polls if `spin`. Close to `until_ns` it does not
// sleep, since waking takes longer. Returns the number of events.
int wait_for_events(int epoll, epoll_event* events, int events_max, std::uint64_t until_ns, bool spin);

inline constexpr std::uint64_t wait_max_ns = 50'000'000;

}  // namespace tandem::load
