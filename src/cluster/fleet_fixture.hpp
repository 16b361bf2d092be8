// A fleet in one thread and no time: members, their servers' lists, a model of etcd, and a network and clocks that a
// seed makes slow, lossy, cut, stopped or wrong. What must hold always is asserted as it happens.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/etcd_model_fixture.hpp"
#include "cluster/gateway.hpp"
#include "cluster/membership.hpp"
#include "codec/config_store.hpp"

namespace tandem::cluster {

inline constexpr std::uint64_t fleet_epoch_s = 1'795'000'000;

struct FleetOptions {
  std::uint64_t seed = 0;
  unsigned machines = 3;
  bool through_json = false;  // requests and replies as the gateway's bytes
  Time drain{20'000};
};

class Fleet {
 public:
  using Names = std::set<std::string>;

  struct Machine {
    Node node;
    std::unique_ptr<Membership> member;   // nullptr: it does not run
    std::unique_ptr<ConfigStore> server;  // likewise
    unsigned starts = 0;
    bool hangs = false, is_drained = false, is_stopped = false, is_cut = false, watches = false;
    bool owes_probe = false, is_rival = false;
    std::int64_t clock_off_s = 0;
    std::vector<std::function<void()>> waiting;  // what arrived while it was stopped
    std::uint64_t server_version = 0;            // the greatest that this server had since it started
  };

  explicit Fleet(FleetOptions options) : options_(options), random_(options.seed) {
    for (unsigned i = 0; i < options_.machines; ++i) add_machine("n" + std::to_string(i));
  }

  unsigned add_machine(const std::string& host) {
    machines_.push_back(std::make_unique<Machine>());
    machines_.back()->node = {host, "192.0.2." + std::to_string(machines_.size()), 11211};
    return static_cast<unsigned>(machines_.size() - 1);
  }

  Machine& machine(unsigned i) { return *machines_[i]; }
  unsigned machines() const { return static_cast<unsigned>(machines_.size()); }
  EtcdModel& etcd() { return etcd_; }
  Time now() const { return now_; }
  const std::vector<std::string>& faults() const { return faults_; }
  std::uint64_t published() const { return published_; }
  const std::vector<std::string>& messages() const { return messages_; }
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  bool is_drawn(unsigned percent) { return draw(100) < percent; }

  // --- faults; each may be asked for whatever the state is

  void start(unsigned i) {
    Machine& m = machine(i);
    if (!m.server) {
      m.server = std::make_unique<ConfigStore>();
      m.server_version = 0;
      m.hangs = m.owes_probe = false;
    }
    if (m.member) return;
    MembershipOptions options;
    options.self = m.node;
    options.boot = m.node.host + '-' + std::to_string(i) + '-' + std::to_string(++m.starts);
    options.drain = options_.drain;
    m.is_stopped = m.watches = m.owes_probe = false;
    m.waiting.clear();
    m.member = std::make_unique<Membership>(std::move(options), now_);
  }
  void kill_member(unsigned i) {
    machine(i).member.reset();
    ++machine(i).starts;
  }
  void kill_server(unsigned i) {
    Machine& m = machine(i);
    m.server.reset();
    // Its connections end.
    if (std::exchange(m.owes_probe, false) && m.member) m.member->on_server({.call = ServerCall::probe}, now_);
  }
  void hang_server(unsigned i, bool hangs) {
    Machine& m = machine(i);
    m.hangs = hangs;
    if (!hangs && std::exchange(m.owes_probe, false) && m.member)
      m.member->on_server({.call = ServerCall::probe, .done = true}, now_);
  }
  void stop_member(unsigned i, bool stops) {
    Machine& m = machine(i);
    m.is_stopped = stops;
    if (stops) return;
    for (auto& arrived : std::exchange(m.waiting, {})) arrived();
  }
  void cut(unsigned i, bool is_cut) {
    machine(i).is_cut = is_cut;
    if (is_cut) break_watch(i, Time(draw(10'000)));
  }
  void etcd_away() {
    is_etcd_up_ = false;
    for (unsigned i = 0; i < machines(); ++i) break_watch(i, Time(draw(3'000)));
  }
  enum class Back : std::uint8_t { same, wiped, restored };
  void etcd_back(Back how) {
    if (how == Back::wiped) etcd_ = EtcdModel().in_place_of(etcd_);
    if (how == Back::restored && backup_) etcd_ = backup_->in_place_of(etcd_);
    if (how != Back::same) forget_history();
    etcd_.renew_leases(now_);
    is_etcd_up_ = true;
  }
  void back_up() { backup_ = etcd_; }
  // What follows is not compared with what was before: somebody has changed the list, or lost it.
  void forget_history() {
    is_history_whole_ = false;
    lists_.clear();
    config_ = {};
    last_config_revision_ = 0;
  }
  void break_watch(unsigned i, Time after) {
    Machine& m = machine(i);
    if (!m.watches) return;
    m.watches = false;
    deliver(i, after, {.call = RegistryCall::watch, .outcome = RegistryOutcome::failed, .problem = "broken"});
  }
  void set_network(Time slowest, unsigned lost_percent) {
    slowest_ = slowest;
    lost_percent_ = lost_percent;
  }
  void note(std::string fault) { faults_.push_back(std::to_string(now_.count()) + " ms: " + std::move(fault)); }
  void at(Time when, std::function<void()> run) { waiting_.push({std::max(when, now_), ++order_, std::move(run)}); }
  void after(Time pause, std::function<void()> run) { at(now_ + pause, std::move(run)); }

  // --- time

  void run_until(Time end) {
    while (now_ < end && problems_.empty()) {
      Time next = end;
      if (!waiting_.empty()) next = std::min(next, waiting_.top().at);
      for (const auto& m : machines_) {
        if (m->member && !m->is_stopped) next = std::min(next, m->member->next_time());
      }
      now_ = std::max(now_, next);
      if (is_etcd_up_) {
        const std::int64_t before = etcd_.revision();
        etcd_.expire(now_);
        if (etcd_.revision() != before) tell_watchers();
      }
      while (!waiting_.empty() && waiting_.top().at <= now_) {
        const auto run = std::move(waiting_.top().run);
        waiting_.pop();
        run();
      }
      for (unsigned i = 0; i < machines(); ++i) step(i);
    }
  }
  void run_for(Time time) { run_until(now_ + time); }

  // --- what is

  FleetConfig config() { return decoded_config(); }
  Names listed() {
    Names names;
    for (const Place& place : decoded_config().places) {
      if (place.is_in()) names.insert(place.node.name());
    }
    return names;
  }
  Names live() const {
    Names names;
    for (const auto& m : machines_) {
      if (m->member && m->server && !m->hangs && !m->is_stopped && !m->is_drained && !m->is_rival)
        names.insert(m->node.name());
    }
    return names;
  }
  std::string served(unsigned i) {
    std::string document;
    if (machine(i).server)
      machine(i).server->get(ConfigStore::cluster, [&](const ConfigStore::Value& value) { document = value.bytes; });
    return document;
  }
  // Every server of a live node has the list, and it has the live nodes.
  bool is_settled() {
    if (listed() != live()) return false;
    const std::string document = document_of(decoded_config());
    for (unsigned i = 0; i < machines(); ++i) {
      if (machine(i).server && !machine(i).hangs && machine(i).member && served(i) != document) return false;
    }
    return true;
  }
  std::string picture() {
    std::string text = "seed " + std::to_string(options_.seed) + " at " + std::to_string(now_.count()) + " ms";
    for (const std::string& problem : problems_) text += "\n  " + problem;
    text += "\n  etcd: " + to_json(decoded_config());
    for (const auto& [key, pair] : etcd_.pairs()) text += "\n    " + key + " " + pair.value;
    for (unsigned i = 0; i < machines(); ++i) {
      text += "\n  " + machine(i).node.name() + (machine(i).member ? "" : " without member") +
              (machine(i).server ? " serves " + served(i) : " without server");
    }
    for (const std::string& fault : faults_) text += "\n  " + fault;
    return text;
  }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  struct Waiting {
    Time at{};
    std::uint64_t order = 0;
    mutable std::function<void()> run;
    bool operator<(const Waiting& other) const { return std::pair(at, order) > std::pair(other.at, other.order); }
  };
  static constexpr Time request_limit{2'000};

  void require(bool holds, std::string what) {
    if (!holds) problems_.push_back(std::move(what));
  }

  void step(unsigned i) {
    Machine& m = machine(i);
    while (m.member && !m.is_stopped && m.member->next_time() <= now_) {
      const std::int64_t unix_s = static_cast<std::int64_t>(fleet_epoch_s) + now_.count() / 1000 + m.clock_off_s;
      m.member->advance(now_, static_cast<std::uint64_t>(std::max<std::int64_t>(0, unix_s)));
      for (RegistryRequest& request : m.member->take_registry_requests()) send(i, std::move(request));
      for (const ServerRequest& request : m.member->take_server_requests()) ask_server(m, request);
      for (std::string& message : m.member->take_messages()) messages_.push_back(m.node.host + ": " + message);
      if (!m.member->is_done()) continue;
      m.member.reset();
      m.server.reset();  // the unit stops it next
    }
  }

  void ask_server(Machine& m, const ServerRequest& request) {
    const bool answers = m.server && !m.hangs;
    switch (request.call) {
      case ServerCall::probe:
        if (m.server && m.hangs) {
          m.owes_probe = true;
        } else {
          m.member->on_server({.call = ServerCall::probe, .done = answers}, now_);
        }
        break;
      case ServerCall::get: {
        ServerReply reply{.call = ServerCall::get, .done = answers, .is_drained = m.is_drained};
        if (answers) m.server->get(ConfigStore::cluster, [&](const auto& value) { reply.document = value.bytes; });
        m.member->on_server(reply, now_);
        break;
      }
      case ServerCall::set: {
        ServerReply reply{.call = ServerCall::set, .document = request.document};
        if (answers) {
          reply.problem = m.server->set(ConfigStore::cluster, 0, request.document);
          require(reply.problem.empty() || reply.problem.find("needs a greater one") != std::string::npos,
                  "a server refuses its list: " + reply.problem);
          reply.done = reply.problem.empty();
          require(m.server->version() >= m.server_version, "a server's list goes back");
          m.server_version = m.server->version();
          if (reply.done) see_document(request.document);
        }
        m.member->on_server(reply, now_);
        break;
      }
    }
  }

  // One content a version.
  void see_document(const std::string& document) {
    const std::string version = document.substr(0, document.find('\n'));
    const auto [found, is_new] = documents_.emplace(version, document);
    require(found->second == document, "two lists of version " + version);
  }

  void deliver(unsigned i, Time after_time, RegistryReply reply) {
    after(after_time, [this, i, start = machine(i).starts, reply = std::move(reply)] {
      Machine& m = machine(i);
      if (!m.member || m.starts != start) return;
      const auto arrive = [this, i, start, reply] {
        if (machine(i).member && machine(i).starts == start) {
          const std::int64_t unix_s = static_cast<std::int64_t>(fleet_epoch_s) + now_.count() / 1000;
          machine(i).member->on_registry(reply, now_, static_cast<std::uint64_t>(unix_s));
        }
      };
      if (m.is_stopped) {
        m.waiting.push_back(arrive);
      } else {
        arrive();
      }
    });
  }

  bool is_reachable(unsigned i) { return is_etcd_up_ && !machine(i).is_cut; }

  void send(unsigned i, RegistryRequest request) {
    const RegistryReply failed{.call = request.call, .problem = "no answer"};
    const Time there(1 + static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(slowest_.count()))));
    const Time back(1 + static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(slowest_.count()))));
    if (!is_reachable(i) || is_drawn(lost_percent_) || there >= request_limit)
      return deliver(i, is_etcd_up_ ? request_limit : Time{5}, failed);
    after(there, [this, i, there, back, failed, start = machine(i).starts, request = std::move(request)] {
      if (!is_reachable(i) || machine(i).starts != start) return deliver(i, request_limit - there, failed);
      if (request.call == RegistryCall::watch) return watch(i, request);
      const std::int64_t before = etcd_.revision();
      check_rival(request);
      RegistryReply reply = options_.through_json ? answered_as_json(request) : answered(request);
      if (etcd_.revision() != before) {
        check_list();
        tell_watchers();
      }
      if (is_drawn(lost_percent_) || there + back > request_limit) {
        deliver(i, request_limit - there, failed);
      } else {
        deliver(i, back, std::move(reply));
      }
    });
  }

  void watch(unsigned i, const RegistryRequest& request) {
    machine(i).watches = true;
    if (request.revision + 1 < etcd_.compacted()) return break_watch(i, Time{1});
    if (request.revision < etcd_.revision())
      deliver(i, Time{1}, {.call = RegistryCall::watch, .outcome = RegistryOutcome::done});
  }
  void tell_watchers() {
    for (unsigned i = 0; i < machines(); ++i) {
      if (!machine(i).watches || !is_reachable(i)) continue;
      const Time pause(1 + static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(slowest_.count()))));
      deliver(i, pause, {.call = RegistryCall::watch, .outcome = RegistryOutcome::done});
    }
  }

  // --- the registry's answers

  const std::string prefix_ = key_prefix("f");

  std::string record_key(const Node& node) const { return prefix_ + "members/" + node.name(); }

  const std::optional<MemberRecord>& decoded(const std::string& value) {
    const auto found = records_.find(value);
    return found != records_.end() ? found->second : records_.emplace(value, record_from_json(value)).first->second;
  }
  const FleetConfig& decoded_config() {
    const std::int64_t revision = etcd_.modified(prefix_ + "config");
    if (revision == last_config_revision_) return config_;
    last_config_revision_ = revision;
    config_ = {};
    if (revision != 0) config_ = config_from_json(etcd_.pairs().at(prefix_ + "config").value).value_or(FleetConfig{});
    return config_;
  }

  RegistryReply answered_as_json(const RegistryRequest& request) {
    const GatewayRequest asked = gateway_request(request, prefix_);
    const EtcdModel::Answer answer = etcd_.answer(asked.path, asked.body, now_);
    return read_gateway_reply(request.call, prefix_, answer.status, answer.body);
  }

  RegistryReply answered(const RegistryRequest& request) {
    RegistryReply reply{.call = request.call, .outcome = RegistryOutcome::done};
    switch (request.call) {
      case RegistryCall::grant:
        reply.lease = etcd_.grant(request.ttl, now_);
        reply.ttl = request.ttl;
        break;
      case RegistryCall::keep_alive:
        reply.ttl = etcd_.keep_alive(request.lease, now_);
        if (reply.ttl == Time{}) reply.outcome = RegistryOutcome::lease_lost;
        break;
      case RegistryCall::revoke:
        if (!etcd_.revoke(request.lease)) reply.outcome = RegistryOutcome::lease_lost;
        break;
      case RegistryCall::put_record: {
        const std::string key = record_key(request.record.node);
        if (etcd_.modified(key) != request.revision) {
          reply.outcome = RegistryOutcome::refused;
          reply.holder_revision = etcd_.modified(key);
          if (reply.holder_revision != 0) reply.holder = decoded(etcd_.pairs().at(key).value);
        } else if (!etcd_.put(key, to_json(request.record), request.lease)) {
          reply.outcome = RegistryOutcome::lease_lost;
        }
        break;
      }
      case RegistryCall::publish:
        if (etcd_.modified(prefix_ + "config") != request.revision) {
          reply.outcome = RegistryOutcome::refused;
        } else {
          etcd_.put(prefix_ + "config", to_json(request.config), 0);
        }
        break;
      case RegistryCall::read:
        for (const auto& [key, pair] : etcd_.pairs()) {
          if (!key.starts_with(prefix_ + "members/")) continue;
          if (const auto& record = decoded(pair.value)) reply.records.push_back(*record);
        }
        reply.config_revision = etcd_.modified(prefix_ + "config");
        if (reply.config_revision != 0) reply.config = decoded_config();
        break;
      case RegistryCall::watch:
        break;
    }
    reply.revision = etcd_.revision();
    return reply;
  }

  // --- what must hold at each write

  // A name is not taken from who holds it.
  void check_rival(const RegistryRequest& request) {
    if (request.call != RegistryCall::put_record) return;
    const auto held = etcd_.pairs().find(record_key(request.record.node));
    if (held == etcd_.pairs().end() || held->second.modified != request.revision) return;
    const auto& record = decoded(held->second.value);
    require(!record || record->boot == request.record.boot,
            "a member takes the name of another: " + held->second.value);
  }

  // A node that has served for long is not taken out.
  void check_removed(const std::string& name) {
    const auto held = etcd_.pairs().find(prefix_ + "members/" + name);
    if (held == etcd_.pairs().end()) return;
    const auto& record = decoded(held->second.value);
    if (record && record->state == MemberState::serving && now_ - written_at_[held->second.modified] > Time{10'000})
      problems_.push_back("a node that serves goes out: " + name);
  }

  void check_list() {
    written_at_[etcd_.revision()] = now_;
    const std::int64_t before_revision = last_config_revision_;
    const FleetConfig before = config_;
    const FleetConfig& config = decoded_config();
    if (last_config_revision_ == before_revision) return;
    ++published_;
    require(config.nodes() != 0, "an empty list");
    require(config.version > before.version, "a version that does not rise");
    require(document_of(config).size() <= document_bytes_max, "a list that passes what clients read");
    see_document(document_of(config));
    if (is_history_whole_) check_history(before, config);
  }

  void check_history(const FleetConfig& before, const FleetConfig& config) {
    Names names;
    std::vector<std::string> order;
    for (const Place& place : config.places) {
      if (place.is_in()) names.insert(place.node.name());
      order.push_back(place.node.name());
    }
    for (const Place& place : before.places) {
      if (place.is_in() && !names.contains(place.node.name())) check_removed(place.node.name());
    }
    // Places: what was there is there in the same order, and what is new comes behind.
    for (std::size_t i = 0; i < before.places.size(); ++i)
      require(i < order.size() && order[i] == before.places[i].node.name(), "a node that loses its place");
    // What the list had within the last minute.
    Names lately = names;
    while (lists_.size() > 1 && lists_[1].first <= now_ - Time{60'000}) lists_.pop_front();
    for (const auto& [since, listed] : lists_) lately.insert(listed.begin(), listed.end());
    const std::size_t gone = lately.size() - names.size();
    require(gone <= std::max<std::size_t>(1, lately.size() / 3), "more than a third goes within a minute");
    lists_.emplace_back(now_, std::move(names));
  }

  const FleetOptions options_;
  std::mt19937_64 random_;
  Time now_{0};
  std::uint64_t order_ = 0, published_ = 0;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::priority_queue<Waiting> waiting_;
  EtcdModel etcd_;
  std::optional<EtcdModel> backup_;
  bool is_etcd_up_ = true, is_history_whole_ = true;
  Time slowest_{20};
  unsigned lost_percent_ = 0;
  std::unordered_map<std::string, std::optional<MemberRecord>> records_;
  FleetConfig config_;
  std::int64_t last_config_revision_ = 0;
  std::map<std::string, std::string> documents_;       // by version
  std::unordered_map<std::int64_t, Time> written_at_;  // by revision
  std::deque<std::pair<Time, Names>> lists_;
  std::vector<std::string> faults_, problems_, messages_;
};

}  // namespace tandem::cluster
