// What the control commands ask of the server: flush_all, verbosity, and `stats` with memcached's names where Tandem
// has the quantity.
//
// Thread safety: any thread.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "codec/protocol.hpp"
#include "operate/admin.hpp"
#include "operate/telemetry.hpp"
#include "worker/acceptor.hpp"
#include "worker/state.hpp"
#include "worker/worker.hpp"

namespace tandem::net {

class Control final : public ServerControl {
 public:
  // Throws std::runtime_error when the engine has no contexts left.
  explicit Control(State& state)
      : state_(state), admin_(state), telemetry_(state), survey_context_(state.engine.make_context()) {}
  // Sets the sources of the statistics: once, before the first client. Both outlive the clients.
  void observe(const std::vector<std::unique_ptr<Worker>>& workers, const Acceptor& acceptor, int tcp_port,
               int udp_port) noexcept;

  void flush_all(std::uint32_t at_s) override;
  bool stats(std::string_view group, StatSink& sink) override;
  void set_verbosity(unsigned level) override;
  std::string refresh_certificates() override;
  Administration& administration() override { return admin_; }
  ConfigStore& config() override { return state_.config; }
  Telemetry& telemetry() noexcept { return telemetry_; }

 private:
  // A class's statistics that are read from its items.
  struct ClassSurvey {
    std::uint64_t items = 0, item_bytes = 0;
    std::uint32_t oldest_s = 0;  // since the last access of the one not accessed longest
  };
  template <class F>
  void visit_pages(std::uint32_t pages_max, F f);
  const std::vector<ClassSurvey>& survey();

  struct Totals {
    NetTotals net;
    std::uint64_t total_connections = 0, rejected_connections = 0, listen_disabled = 0, listen_disabled_us = 0,
                  flushes = 0, auth_cmds = 0, auth_errors = 0;
    EventLog::Counts log;
    void subtract(const Totals& base) noexcept;
  };
  Totals totals() const noexcept;
  void general(StatSink& sink);
  void process_stats(StatSink& sink, const Totals& now) const;
  void buffer_stats(StatSink& sink, const Totals& now) const;
  void command_stats(StatSink& sink, const Totals& now, const StoreTotals& store) const;
  void tls(StatSink& sink, const Totals& now) const;
  void settings(StatSink& sink) const;
  void tls_settings(StatSink& sink) const;
  void restart_stats(StatSink& sink) const;
  void items(StatSink& sink);
  void slabs(StatSink& sink) const;
  void connections(StatSink& sink) const;
  void own(StatSink& sink) const;
  void reset();

  State& state_;
  Admin admin_;
  Telemetry telemetry_;
  const std::vector<std::unique_ptr<Worker>>* workers_ = nullptr;
  const Acceptor* acceptor_ = nullptr;
  int tcp_port_ = 0, udp_port_ = 0;
  std::uint64_t reserved_fds_ = 0;  // open before the first client; 0: not known
  mutable std::mutex mutex_;        // guards reset_base_
  Totals reset_base_;               // what `stats reset` forgot

  std::mutex survey_mutex_;  // guards the rest
  Engine::ContextPtr survey_context_;
  std::vector<ClassSurvey> survey_;
  std::chrono::steady_clock::time_point survey_holds_until_;
};

}  // namespace tandem::net
