// What the control commands ask of the server: flush_all, verbosity, and `stats` with memcached's names where Tandem
// has the quantity.
//
// Thread safety: any thread.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "net/acceptor.hpp"
#include "net/state.hpp"
#include "net/worker.hpp"
#include "protocol/protocol.hpp"

namespace tandem::net {

class Control final : public ServerControl {
 public:
  explicit Control(State& state) noexcept : state_(state) {}
  // Once, before the first client: what the statistics are about. Both outlive the clients.
  void observe(const std::vector<std::unique_ptr<Worker>>& workers, const Acceptor& acceptor, int tcp_port,
               int udp_port) noexcept;

  void flush_all(std::uint32_t at_s) override;
  bool stats(std::string_view group, StatSink& sink) override;
  void set_verbosity(unsigned level) override;

 private:
  struct Totals {
    NetTotals net;
    std::uint64_t total_connections = 0, rejected_connections = 0, listen_disabled = 0, listen_disabled_us = 0,
                  flushes = 0;
  };
  Totals totals() const noexcept;
  void general(StatSink& sink);
  void settings(StatSink& sink) const;
  void items(StatSink& sink) const;
  void slabs(StatSink& sink) const;
  void connections(StatSink& sink) const;
  void own(StatSink& sink) const;
  void reset();

  State& state_;
  const std::vector<std::unique_ptr<Worker>>* workers_ = nullptr;
  const Acceptor* acceptor_ = nullptr;
  int tcp_port_ = 0, udp_port_ = 0;
  std::atomic<std::uint64_t> flushes_{0};
  mutable std::mutex mutex_;  // guards reset_base_
  Totals reset_base_;         // what `stats reset` forgot
};

}  // namespace tandem::net
