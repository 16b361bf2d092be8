// A model of etcd, as far as members of a fleet use it: revisions, leases, transactions, histories that are compacted;
// and its JSON gateway with its habits: numbers in strings, what is zero or false left out. real_etcd_test.cpp holds it
// to a real one.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cluster/registry.hpp"
#include "codec/base64.hpp"

namespace tandem::cluster {

class EtcdModel {
 public:
  struct Pair {
    std::string value;
    std::int64_t created = 0, modified = 0, writes = 0, lease = 0;
  };
  struct Event {
    std::int64_t revision = 0;
    std::string key;
    std::optional<Pair> pair;  // nullopt: deleted
  };
  struct Lease {
    Time ttl{}, ends{};
  };

  std::int64_t revision() const noexcept { return revision_; }
  const std::map<std::string, Pair>& pairs() const noexcept { return pairs_; }
  bool has_lease(std::int64_t lease) const { return leases_.contains(lease); }
  std::int64_t compacted() const noexcept { return compacted_; }

  std::int64_t grant(Time ttl, Time now) {
    leases_[++last_lease_] = {ttl, now + ttl};
    return last_lease_;
  }
  // Zero: there is no such lease.
  Time keep_alive(std::int64_t lease, Time now) {
    const auto found = leases_.find(lease);
    if (found == leases_.end()) return {};
    found->second.ends = now + found->second.ttl;
    return found->second.ttl;
  }
  bool revoke(std::int64_t lease) {
    if (leases_.erase(lease) == 0) return false;
    // One revision for all of its keys.
    bool has_keys = false;
    for (auto pair = pairs_.begin(); pair != pairs_.end();) {
      if (pair->second.lease != lease) {
        ++pair;
        continue;
      }
      if (!std::exchange(has_keys, true)) ++revision_;
      history_.push_back({revision_, pair->first, std::nullopt});
      pair = pairs_.erase(pair);
    }
    return true;
  }
  // False: there is no such lease. 0: none is wanted.
  bool put(const std::string& key, std::string value, std::int64_t lease) {
    if (lease != 0 && !leases_.contains(lease)) return false;
    Pair& pair = pairs_[key];
    ++revision_;
    if (pair.created == 0) pair.created = revision_;
    pair.value = std::move(value);
    pair.modified = revision_;
    ++pair.writes;
    pair.lease = lease;
    history_.push_back({revision_, key, pair});
    return true;
  }
  bool remove(const std::string& key) {
    if (pairs_.erase(key) == 0) return false;
    history_.push_back({++revision_, key, std::nullopt});
    return true;
  }
  // 0: there is no such key.
  std::int64_t modified(const std::string& key) const {
    const auto found = pairs_.find(key);
    return found == pairs_.end() ? 0 : found->second.modified;
  }
  void expire(Time now) {
    for (;;) {
      const auto over = std::ranges::find_if(leases_, [&](const auto& lease) { return lease.second.ends <= now; });
      if (over == leases_.end()) return;
      revoke(over->first);
    }
  }
  // While etcd was away no lease has ended: who leads anew gives all of them their whole time.
  void renew_leases(Time now) {
    for (auto& [id, lease] : leases_) lease.ends = now + lease.ttl;
  }
  void compact(std::int64_t revision) {
    compacted_ = revision;
    std::erase_if(history_, [&](const Event& event) { return event.revision < revision; });
  }
  std::vector<Event> since(std::int64_t revision) const {
    std::vector<Event> found;
    for (const Event& event : history_) {
      if (event.revision >= revision) found.push_back(event);
    }
    return found;
  }
  // In the place of another, which has given leases that this one does not know.
  EtcdModel in_place_of(const EtcdModel& other) const {
    EtcdModel model = *this;
    model.last_lease_ = other.last_lease_ + 1000;
    return model;
  }

  struct Answer {
    int status = 200;
    std::string body;
  };
  // A request of gateway.hpp, but for a watch.
  Answer answer(std::string_view path, const std::string& body, Time now) {
    const Json request = Json::parse(body);
    if (path == "/v3/kv/range") return said(range(request));
    if (path == "/v3/kv/txn") return transact(request);
    if (path == "/v3/lease/grant") {
      const Time ttl = std::chrono::seconds(integer(request, "TTL"));
      return said({{"header", header()}, {"ID", text(grant(ttl, now))}, {"TTL", text(ttl.count() / 1000)}});
    }
    if (path == "/v3/lease/keepalive") {
      const std::int64_t lease = integer(request, "ID");
      Json result{{"header", header()}, {"ID", text(lease)}};
      if (const Time ttl = keep_alive(lease, now); ttl != Time{}) result["TTL"] = text(ttl.count() / 1000);
      return {200, Json{{"result", std::move(result)}}.dump() + '\n'};
    }
    if (path == "/v3/lease/revoke") return revoke(integer(request, "ID")) ? said({{"header", header()}}) : no_lease();
    return {404, "Not Found\n"};
  }
  // All that a watch of these keys would be told until now.
  std::string watch(const std::string& body) const {
    const Json request = Json::parse(body).at("create_request");
    const std::int64_t start = integer(request, "start_revision");
    std::string lines = Json{{"result", {{"header", header()}, {"created", true}}}}.dump() + '\n';
    if (start != 0 && start < compacted_)
      return lines +
             Json{{"result", {{"header", header()}, {"canceled", true}, {"compact_revision", text(compacted_)}}}}
                 .dump() +
             '\n';
    for (const Event& event : since(start == 0 ? revision_ + 1 : start)) {
      if (!is_within(event.key, request)) continue;
      Json json;
      if (event.pair) {
        json = {{"kv", pair_json(event.key, *event.pair)}};
      } else {
        json = {{"type", "DELETE"}, {"kv", {{"key", to_base64(event.key)}, {"mod_revision", text(event.revision)}}}};
      }
      lines += Json{{"result", {{"header", header()}, {"events", Json::array({json})}}}}.dump() + '\n';
    }
    return lines;
  }

 private:
  using Json = nlohmann::json;

  static std::string text(std::int64_t value) { return std::to_string(value); }
  static std::int64_t integer(const Json& json, const char* name) {
    return json.contains(name) ? std::stoll(json.at(name).get<std::string>()) : 0;
  }
  static std::string to_base64(const std::string& bytes) {
    std::string out(codec::base64_bytes(bytes.size()), '\0');
    codec::base64_encode(out.data(), bytes.data(), bytes.size());
    return out;
  }
  static std::string bytes(const Json& json, const char* name) {
    if (!json.contains(name)) return {};
    const auto from = json.at(name).get<std::string>();
    std::string out(codec::base64_binary_bytes_max(from.size()), '\0');
    out.resize(codec::base64_decode(out.data(), from.data(), from.size()));
    return out;
  }
  static bool is_within(const std::string& key, const Json& range) {
    const std::string first = bytes(range, "key"), end = bytes(range, "range_end");
    return end.empty() ? key == first : key >= first && key < end;
  }
  static Answer said(const Json& json) { return {200, json.dump()}; }
  static Answer no_lease() {
    const std::string why = "etcdserver: requested lease not found";
    return {404, Json{{"error", why}, {"message", why}, {"code", 5}}.dump()};
  }
  Json header() const {
    return {{"cluster_id", "1"}, {"member_id", "1"}, {"revision", text(revision_)}, {"raft_term", "2"}};
  }
  static Json pair_json(const std::string& key, const Pair& pair) {
    Json json{{"key", to_base64(key)},
              {"create_revision", text(pair.created)},
              {"mod_revision", text(pair.modified)},
              {"version", text(pair.writes)}};
    if (!pair.value.empty()) json["value"] = to_base64(pair.value);
    if (pair.lease != 0) json["lease"] = text(pair.lease);
    return json;
  }
  Json range(const Json& request) const {
    Json found = Json::array();
    for (const auto& [key, pair] : pairs_) {
      if (is_within(key, request)) found.push_back(pair_json(key, pair));
    }
    Json json{{"header", header()}};
    if (!found.empty()) json.update({{"count", text(static_cast<std::int64_t>(found.size()))}, {"kvs", found}});
    return json;
  }
  Answer transact(const Json& request) {
    bool succeeds = true;
    for (const Json& compare : request.at("compare"))
      succeeds = succeeds && modified(bytes(compare, "key")) == integer(compare, "mod_revision");
    Json answers = Json::array();
    const Json operations = request.value(succeeds ? "success" : "failure", Json::array());
    for (const Json& operation : operations) {
      if (operation.contains("request_put")) {
        const Json& put_request = operation.at("request_put");
        if (!put(bytes(put_request, "key"), bytes(put_request, "value"), integer(put_request, "lease")))
          return no_lease();
        answers.push_back({{"response_put", {{"header", {{"revision", text(revision_)}}}}}});
      } else {
        Json found = range(operation.at("request_range"));
        found["header"] = {{"revision", text(revision_)}};
        answers.push_back({{"response_range", std::move(found)}});
      }
    }
    Json json{{"header", header()}};
    if (succeeds) json["succeeded"] = true;
    if (!answers.empty()) json["responses"] = std::move(answers);
    return said(json);
  }

  std::int64_t revision_ = 1, compacted_ = 0, last_lease_ = 7'000'000'000;
  std::map<std::string, Pair> pairs_;
  std::map<std::int64_t, Lease> leases_;
  std::vector<Event> history_;
};

}  // namespace tandem::cluster
