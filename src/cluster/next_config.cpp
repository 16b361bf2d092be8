#include "cluster/next_config.hpp"

#include <algorithm>

#include "codec/config_store.hpp"

namespace tandem::cluster {
namespace {

constexpr Time never{-1};
constexpr std::size_t places_out_max = 256;  // the places of more are forgotten

const MemberRecord* record_of(const std::vector<MemberRecord>& records, const Node& node) noexcept {
  const auto found = std::ranges::find_if(records, [&](const MemberRecord& r) { return r.node.is_named_as(node); });
  return found == records.end() ? nullptr : &*found;
}

// How many bytes the list would have at most, whatever its version.
std::size_t bytes_at_most(FleetConfig config) {
  config.version = ConfigStore::version_max;
  return document_of(config).size();
}

enum class Why : std::uint8_t { stays, gone, leaving, failing };

Why why_out(const Place& place, const std::vector<MemberRecord>& records, const Sightings& seen, const ListRules& rules,
            Time now, bool force) {
  const MemberRecord* const record = record_of(records, place.node);
  if (record == nullptr) return force || seen.gone_for(place.node, now) >= rules.removes_after ? Why::gone : Why::stays;
  if (record->state == MemberState::leaving) return Why::leaving;
  return record->state == MemberState::failing ? Why::failing : Why::stays;
}

// Members that serve come in, at their places. Addresses that changed are taken over.
void let_in(FleetConfig& config, std::vector<MemberRecord> records, const Sightings& seen, const ListRules& rules,
            Time now, Decision& decision) {
  std::ranges::sort(records, {}, [](const MemberRecord& r) { return r.node.name(); });
  for (const MemberRecord& record : records) {
    if (record.state != MemberState::serving) continue;
    const Place* const place = config.find(record.node);
    const bool is_in = place != nullptr && place->is_in();
    if (is_in && place->node == record.node) continue;
    if (!is_in && seen.serves_for(record, now) < rules.joins_after) continue;
    FleetConfig with = config;
    if (place == nullptr) {
      with.places.push_back({record.node});
    } else {
      with.places[static_cast<std::size_t>(place - config.places.data())] = {record.node};
    }
    if (bytes_at_most(with) > document_bytes_max) {
      decision.refused.push_back(record.node.name());
    } else {
      config = std::move(with);
    }
  }
}

// The oldest places are forgotten.
void forget_places(FleetConfig& config) {
  while (config.places.size() - config.nodes() > places_out_max) {
    const auto oldest = std::ranges::min_element(
        config.places, {}, [](const Place& p) { return p.is_in() ? ConfigStore::version_max + 1 : p.out_since; });
    config.places.erase(oldest);
  }
}

}  // namespace

void Sightings::see(const FleetConfig& config, const std::vector<MemberRecord>& records, Time now) {
  std::map<std::string, std::pair<std::string, Time>> serving;
  for (const MemberRecord& record : records) {
    if (record.state != MemberState::serving) continue;
    const auto before = serving_since_.find(record.node.name());
    const bool is_same = before != serving_since_.end() && before->second.first == record.boot;
    serving.emplace(record.node.name(), std::pair(record.boot, is_same ? before->second.second : now));
  }
  serving_since_ = std::move(serving);
  std::map<std::string, Time> gone;
  std::map<std::pair<std::string, std::uint64_t>, Time> out;
  for (const Place& place : config.places) {
    const std::string name = place.node.name();
    if (!place.is_in()) {
      const auto before = out_since_.find({name, place.out_since});
      out.emplace(std::pair(name, place.out_since), before == out_since_.end() ? now : before->second);
    } else if (record_of(records, place.node) == nullptr) {
      const auto before = gone_since_.find(name);
      gone.emplace(name, before == gone_since_.end() ? now : before->second);
    }
  }
  gone_since_ = std::move(gone);
  out_since_ = std::move(out);
}

void Sightings::forget_members() noexcept {
  serving_since_.clear();
  gone_since_.clear();
}

Time Sightings::serves_for(const MemberRecord& record, Time now) const {
  const auto found = serving_since_.find(record.node.name());
  return found == serving_since_.end() || found->second.first != record.boot ? never : now - found->second.second;
}

Time Sightings::gone_for(const Node& node, Time now) const {
  const auto found = gone_since_.find(node.name());
  return found == gone_since_.end() ? never : now - found->second;
}

Time Sightings::out_for(const Place& place, Time now) const {
  const auto found = out_since_.find({place.node.name(), place.out_since});
  return found == out_since_.end() ? Time{0} : now - found->second;
}

std::uint64_t next_version(std::uint64_t last, std::uint64_t unix_s) noexcept {
  // A clock beyond the year 36,000 is none.
  constexpr std::uint64_t unix_max = std::uint64_t{1} << 40;
  return std::max(last + 1, unix_s < unix_max ? unix_s : 0);
}

Decision next_config(const FleetConfig& config, const std::vector<MemberRecord>& records, const Sightings& seen,
                     const ListRules& rules, Time now, std::uint64_t unix_s, bool force) {
  Decision decision;
  FleetConfig next = config;
  let_in(next, records, seen, rules, now, decision);
  const std::uint64_t version = next_version(config.version, unix_s);

  // Nodes that were in the list within the window, and how many of them are out.
  std::size_t lately = config.nodes(), out = 0;
  for (const Place& place : config.places) {
    if (place.is_in() || seen.out_for(place, now) >= rules.window) continue;
    ++lately;
    if (!next.find(place.node)->is_in()) ++out;
  }
  const std::size_t out_max = std::max<std::size_t>(1, lately / 3);
  for (const Why turn : {Why::gone, Why::leaving, Why::failing}) {
    for (Place& place : next.places) {
      if (!place.is_in() || why_out(place, records, seen, rules, now, force) != turn) continue;
      if (next.nodes() == 1 || (!force && out >= out_max)) {
        decision.held.push_back(place.node.name());
        continue;
      }
      place.out_since = version;
      ++out;
    }
  }
  forget_places(next);
  if (version > ConfigStore::version_max || next.nodes() == 0 || next == config) return decision;
  next.version = version;
  decision.config = std::move(next);
  return decision;
}

}  // namespace tandem::cluster
