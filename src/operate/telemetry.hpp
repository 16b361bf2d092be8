// The server's statistics beyond memcached's: latencies, hot keys, big keys. For `stats latency`, `stats hotkeys`,
// `stats bigkeys`, and for the monitor.
//
// Thread safety: any thread, after observe(). No worker waits for it.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/xdp/xdp.hpp"
#include "observe/hot_keys.hpp"
#include "observe/latency.hpp"
#include "worker/state.hpp"
#include "worker/worker.hpp"

namespace tandem::net {

inline constexpr std::size_t keys_told_max = 100, keys_told_default = 20;

// The server's numbers at one moment. Counters are since the start, or the last `stats reset`.
struct ServerSnapshot {
  EngineStats engine;
  NetTotals net;
  std::uint64_t connections = 0, connections_max = 0, total_connections = 0, rejected_connections = 0;
  std::uint64_t accept_failures = 0, flushes = 0, auth_errors = 0;  // since the start
  std::optional<std::int64_t> certificate_not_after;                // Unix time; nothing: no TLS
  std::optional<Xdp::Facts> xdp;                                    // nothing: no AF_XDP sockets
  std::optional<std::uint64_t> restart_items;                       // taken over from the memory file, if there is one
  std::optional<std::uint64_t> config_version;                      // of the list of nodes; nothing: no `config`
  std::uint32_t uptime_s = 0;
  LatencyTotals latency;
  TaskTotals tasks;
  std::array<TaskCost, task_count> task_costs{};
  std::vector<std::uint32_t> worker_connections;
  TasksRan ran;                    // since the start
  std::optional<HotKeyStats> hot;  // nothing: no key is
  bool hot_keys_enabled = false;
  std::vector<DeviceStats> devices;      // none: the host does everything
  std::optional<SteeringStats> planner;  // nothing: plans are constant
};

struct BigKey {
  std::string key;
  std::uint64_t value_bytes = 0;
};

struct BigKeys {
  std::vector<BigKey> keys;  // the largest value first
  std::uint64_t items_looked_at = 0;
  bool exact = true;  // false: not all candidates could be examined
};

class Telemetry {
 public:
  // Throws std::runtime_error when the engine has no contexts left.
  explicit Telemetry(State& state) : state_(state), context_(state.engine.make_context()) {}
  // Once, before the first client.
  void observe(const std::vector<std::unique_ptr<Worker>>& workers) noexcept { workers_ = &workers; }

  ServerSnapshot snapshot() const;
  HotKeys hot_keys(std::size_t count_max) const;
  // The largest values in the store: walks over the size classes from the largest one down and examines a bounded
  // number of items. A result is reused so that walks take at most a fiftieth of the time.
  BigKeys big_keys(std::size_t count_max);

  // group: "latency", "histograms", "gpu", "planner", "hotkeys" or "bigkeys", the latter two perhaps with a number
  // behind. False: no such group.
  bool stats(std::string_view group, StatSink& sink);
  void reset();

 private:
  LatencyTotals all_latencies() const;
  void walk();

  void stats_latency(StatSink& sink) const;
  void stats_histograms(StatSink& sink) const;
  void stats_planner(StatSink& sink) const;
  void stats_device(StatSink& sink) const;
  void stats_hot_keys(std::size_t count_max, StatSink& sink) const;
  void stats_big_keys(std::size_t count_max, StatSink& sink);

  State& state_;
  const std::vector<std::unique_ptr<Worker>>* workers_ = nullptr;
  mutable std::mutex mutex_;  // guards the next two: what `stats reset` forgot
  LatencyTotals latency_base_;
  TaskTotals tasks_base_;

  // Replies of `stats latency`, `histograms` and `hotkeys`, reused for a while so that repeated requests cost little.
  struct Told {
    std::mutex mutex;
    std::chrono::steady_clock::time_point holds_until;
    std::vector<std::pair<std::string, std::string>> lines;
  };
  template <class F>
  void tell(Told& told, StatSink& sink, F make);
  Told latency_told_, histograms_told_;
  Told hot_keys_told_[keys_told_max + 1];  // by how many were asked for

  std::mutex walk_mutex_;  // guards the rest
  Engine::ContextPtr context_;
  BigKeys walked_;
  std::chrono::steady_clock::time_point walk_holds_until_;
};

}  // namespace tandem::net
