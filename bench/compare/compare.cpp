#include "bench/compare/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <utility>

#include "bench/compare/load_child.hpp"
#include "bench/compare/rate_search.hpp"
#include "bench/compare/results.hpp"

namespace tandem::bench {
namespace {

// Servers that are ended together.
struct RunningPeers {
  std::vector<std::unique_ptr<RunningPeer>> all;

  RunningPeers() = default;
  ~RunningPeers() {
    for (const auto& server : all)
      if (server) server->child().begin_to_end();
  }
  RunningPeers(const RunningPeers&) = delete;
  RunningPeers& operator=(const RunningPeers&) = delete;
};

class Comparison {
 public:
  Comparison(const CompareOptions& options, Json& document)
      : options_(options), document_(document), runs_(document["runs"]) {}

  std::vector<std::string> run() {
    for (std::size_t first = 0; first < options_.cells.size();) {
      std::size_t end = first;
      while (end < options_.cells.size() && options_.cells[end].data == options_.cells[first].data) ++end;
      run_data_set({options_.cells.data() + first, end - first});
      first = end;
    }
    return std::move(failures_);
  }
  void compare_runs() {
    std::map<std::string, double> goals;
    for (const Cell& cell : options_.cells)
      if (cell.goal) goals[cell.name] = *cell.goal;
    document_["comparisons"] = make_comparisons(runs_, goals);
  }

 private:
  using Servers = std::vector<RunningPeer*>;

  // Restarts the servers with only this data.
  void run_data_set(std::span<const Cell> cells) {
    RunningPeers servers;
    for (const Peer& peer : options_.peers) {
      if (std::ranges::none_of(cells, [&](const Cell& cell) { return cell.suits(peer); })) continue;
      servers.all.push_back(start(peer, cells));
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Cell& cell = cells[i];
      if (std::ranges::none_of(options_.peers, [&](const Peer& peer) { return cell.suits(peer); })) {
        document_["notes"].push_back(fmt::format("no server speaks what {} needs", cell.name));
        continue;
      }
      Servers suited;
      for (auto& server : servers.all) {
        if (server && server->why_ended()) server = start(Peer(server->peer()), cells.subspan(i));
        if (server && cell.suits(server->peer())) suited.push_back(server.get());
      }
      run_cell(cell, suited);
    }
  }

  // A server with the data of these cells; nullptr: it failed.
  std::unique_ptr<RunningPeer> start(const Peer& peer, std::span<const Cell> cells) {
    const Cell& cell = cells.front();
    PeerValues values;
    values.memory_mib = options_.memory_mib;
    values.threads = options_.threads;
    values.key_bytes = cell.data.key_bytes;
    values.value_bytes = cell.data.value_bytes;
    values.item_bytes_max = cell.data.item_bytes_max();
    try {
      auto server = std::make_unique<RunningPeer>(peer, values, options_.server_processors, options_.start_timeout_s);
      if (peer.stores()) preload(*server, cell);
      return server;
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {
      std::string names;
      for (const Cell& one : cells)
        if (one.suits(peer)) names.append(names.empty() ? "" : ", ").append(one.name);
      failed(names, error.what());
      return nullptr;
    }
  }

  // Whether it could be done. If not, the comparison goes on, in this cell without the server.
  template <class Work>
  bool attempt(const Cell& cell, const Work& work) {
    try {
      work();
      return true;
    } catch (const CompareError& error) {
      failed(cell.name, error.what());
      return false;
    }
  }

  // why: begins with the server's name.
  void failed(std::string_view cells, std::string_view why) {
    failures_.push_back(fmt::format("{}: {}", cells, why));
    document_["notes"].push_back(fmt::format("failed: {}", failures_.back()));
    log(fmt::format("  failed: {}", failures_.back()));
  }

  void preload(RunningPeer& server, const Cell& cell) {
    log(fmt::format("{}: setting {} keys", server.peer().name, cell.data.keys));
    Cell plain = cell;  // the sets need not use the cell's kind of connection
    plain.udp = false;
    plain.protocol = "text";
    const auto command = load_command(options_, plain, server.peer().dialect, server.port(), {}, {.preload = true});
    const ProgramResult result = options_.run_load(command, options_.load_processors);
    if (result.status != 0)
      throw broken(server, fmt::format("{}: {}\n  command: {}", server.peer().name, result.error, shell_line(command)));
  }

  void run_cell(const Cell& cell, Servers servers) {
    log(fmt::format("{}: {}", cell.name, describe(cell)));
    run_rounds(cell, servers, phase_closed, options_.rounds, [](const RunningPeer&) { return 0.0; });
    Servers stores;
    for (RunningPeer* server : servers)
      if (server->peer().stores()) stores.push_back(server);
    if (options_.rounds > 0 && options_.tail_rounds > 0 && !stores.empty()) {
      double slowest = closed_rate(cell, *stores.front());
      for (const RunningPeer* server : stores) slowest = std::min(slowest, closed_rate(cell, *server));
      const double rate = std::max(options_.tail_load * slowest, 1.0);
      run_rounds(cell, servers, phase_equal_rate, options_.tail_rounds, [&](const RunningPeer&) { return rate; });
    }
    for (int point = 1; point <= options_.sweep_points; ++point) {
      const double share = static_cast<double>(point) / options_.sweep_points;
      run_round(cell, servers, phase_sweep, point - 1,
                [&](const RunningPeer& server) { return std::max(share * closed_rate(cell, server), 1.0); });
    }
    if (options_.limit_us)
      for (RunningPeer* server : servers) attempt(cell, [&] { search(cell, *server); });
  }

  template <class RateOf>
  void run_rounds(const Cell& cell, Servers& servers, std::string_view phase, int rounds, const RateOf& rate_of) {
    for (int round = 0; round < rounds; ++round) run_round(cell, servers, phase, round, rate_of);
  }

  // Each server once; each round begins with another one. Removes those that fail from `servers`.
  template <class RateOf>
  void run_round(const Cell& cell, Servers& servers, std::string_view phase, int round, const RateOf& rate_of) {
    Servers bad;
    for (std::size_t i = 0; i < servers.size(); ++i) {
      RunningPeer& server = *servers[(i + static_cast<std::size_t>(round)) % servers.size()];
      const bool is_done = attempt(cell, [&] {
        const std::string trouble = run_load(cell, server, phase, round, rate_of(server));
        // A lost datagram is counted and shown, not an error. Above a server's capacity, neither is a timeout.
        if (!trouble.empty() && !cell.udp && phase != phase_sweep)
          throw broken(server, fmt::format("{}: {}\n  command: {}", server.peer().name, trouble,
                                           runs_.back()["command"].get<std::string>()));
      });
      if (!is_done) bad.push_back(&server);
    }
    std::erase_if(servers, [&](RunningPeer* server) { return std::ranges::find(bad, server) != bad.end(); });
  }

  // Adds a run. Returns problems other than wrong answers.
  std::string run_load(const Cell& cell, RunningPeer& server, std::string_view phase, int round, double rate) {
    const auto command =
        load_command(options_, cell, server.peer().dialect, server.port(), server.child().processes(), {.rate = rate});
    const std::string line = shell_line(command);
    const double busy_before = busy_s(options_.server_processors);
    const double own_before = server.child().cpu_s();
    const auto started = std::chrono::steady_clock::now();
    const ProgramResult result = options_.run_load(command, options_.load_processors);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    const double foreign_s = busy_s(options_.server_processors) - busy_before - (server.child().cpu_s() - own_before);
    LoadOutcome outcome;
    try {
      outcome = read_load_result(result, server.peer().name, line);
    } catch (const CompareError& error) {
      throw broken(server, error.what());
    }
    if (server.why_ended()) throw broken(server, "it did not last");

    Json run{{"kind", "load"},
             {"cell", cell.name},
             {"subject", server.peer().name},
             {"place", place_of(server)},
             {"round", round},
             {"phase", phase},
             {"command", line},
             {"server_command", server.command()},
             {"seed", options_.seed},
             {"settings", std::move(outcome.run["settings"])},
             {"result", std::move(outcome.run["result"])}};
    run["settings"]["processors"] = to_string(options_.server_processors);
    run["settings"]["server_threads"] = options_.threads;
    run["settings"]["memory_mib"] = options_.memory_mib;
    Json& measured = run["result"]["server"];
    measured["resident_bytes"] = server.child().resident_bytes();
    const double processors = static_cast<double>(options_.server_processors.size());
    measured["foreign_share"] = std::clamp(foreign_s / (seconds * processors), 0.0, 1.0);
    runs_.push_back(std::move(run));
    return outcome.trouble;
  }

  void search(const Cell& cell, RunningPeer& server) {
    const double ceiling = closed_rate(cell, server);
    log(fmt::format("{}: searching the highest rate of {}", cell.name, server.peer().name));
    Json tried = Json::array();
    const std::string percentile = fmt::format("p{:g}", options_.percentile);
    const auto measure = [&](double rate) {
      const std::string trouble = run_load(cell, server, phase_search, static_cast<int>(tried.size()), rate);
      const Json& run = runs_.back();
      tried.push_back(runs_.size() - 1);
      return judge(run, rate, percentile, trouble);
    };
    RateSearchOptions how;
    how.limit_us = *options_.limit_us;
    how.start_rate = ceiling / 2;
    how.tolerance = options_.tolerance;
    how.trials = options_.trials;
    const RateSearchResult result = find_highest_rate(how, measure);
    std::string void_reason;
    int voids = 0;
    for (std::size_t i = 0; i < result.trials.size(); ++i) {
      const Trial& trial = result.trials[i];
      if (trial.void_reason.empty()) continue;
      ++voids;
      void_reason = trial.void_reason;
      runs_[tried[i].get<std::size_t>()]["void"] = trial.void_reason;
    }
    Json found{{"cell", cell.name},
               {"subject", server.peer().name},
               {"percentile", options_.percentile},
               {"limit_us", *options_.limit_us},
               {"highest_rate", result.highest_rate},
               {"end", to_string(result.end)},
               {"tolerance", options_.tolerance},
               {"trials", options_.trials},
               {"void", voids},
               {"tried", std::move(tried)}};
    if (result.lowest_failed > 0) found["lowest_failed"] = result.lowest_failed;
    if (voids > 0) found["void_reason"] = void_reason;
    document_["searches"].push_back(std::move(found));
    log(fmt::format("  {:.0f} ops/s ({}, {} runs)", result.highest_rate, to_string(result.end), result.trials.size()));
  }

  Trial judge(const Json& run, double rate, const std::string& percentile, const std::string& trouble) const {
    Trial trial;
    trial.rate = rate;
    if (!trouble.empty()) {
      trial.void_reason = trouble;
      return trial;
    }
    const auto latency = number_at(run, "result/latency_us/" + percentile);
    if (!latency)
      throw CompareError(
          fmt::format("{}: the load generator tells no {}", run["subject"].get<std::string>(), percentile));
    trial.latency_us = *latency;
    // The latency includes the generator's own lag. If that alone exceeds the limit, the run says nothing about the
    // server; a run that passes nevertheless does.
    const double lag_us = number_at(run, "result/send_lag_us/" + percentile).value_or(0);
    if (trial.latency_us > *options_.limit_us && trial.latency_us - lag_us <= *options_.limit_us)
      trial.void_reason =
          fmt::format("the load generator itself was {:.0f} us late ({} of its lag)", lag_us, percentile);
    return trial;
  }

  // Median of the closed loop's rounds; without rounds, of one run made for it.
  double closed_rate(const Cell& cell, const RunningPeer& server) {
    const std::string& name = server.peer().name;
    if (auto spread = Results(runs_, phase_closed).spread(cell.name, name, metric("ops_per_s"))) return spread->median;
    run_load(cell, const_cast<RunningPeer&>(server), phase_closed, 0, 0);
    return *number_at(runs_.back(), "result/ops_per_s");
  }

  int place_of(const RunningPeer& server) const {
    const auto found = std::ranges::find(options_.peers, server.peer().name, &Peer::name);
    return static_cast<int>(found - options_.peers.begin());
  }

  // The message, and how the server ended if it has.
  static CompareError broken(RunningPeer& server, std::string message) {
    for (int i = 0; i < 60; ++i) {  // its end may be reported after its connections', on a busy machine by seconds
      wait_readable(-1, std::chrono::milliseconds(50));
      if (const auto why = server.why_ended()) return CompareError(fmt::format("{}\n{}", *why, message));
    }
    return CompareError(message);
  }

  void log(std::string_view text) const {
    if (options_.log) options_.log(text);
  }

  const CompareOptions& options_;
  Json& document_;
  Json& runs_;
  std::vector<std::string> failures_;
};

}  // namespace

std::vector<std::string> compare(const CompareOptions& options, Json& document) {
  for (const char* name : {"notes", "runs", "comparisons", "searches"})
    if (!document.contains(name)) document[name] = Json::array();
  Comparison comparison(options, document);
  std::vector<std::string> failures;
  try {
    failures = comparison.run();
  } catch (const Interrupted&) {
    comparison.compare_runs();
    throw;
  }
  comparison.compare_runs();
  return failures;
}

}  // namespace tandem::bench
