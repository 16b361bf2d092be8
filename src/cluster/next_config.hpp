// What the list of a fleet becomes, from what its registry has: a pure function, the same in every member.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/config_document.hpp"
#include "cluster/registry.hpp"

namespace tandem::cluster {

struct ListRules {
  Time joins_after{5'000};     // a member has to serve that long
  Time removes_after{20'000};  // a member has to be gone that long
  Time window{60'000};         // within which at most a third of the nodes go
};

// Since when this program has seen what it sees, by its own clock: no decision uses a wall clock, or another's.
class Sightings {
 public:
  void see(const FleetConfig& config, const std::vector<MemberRecord>& records, Time now);
  // The registry could not be seen for a while: members have again all the time to come back.
  void forget_members() noexcept;

  // Time{} below zero where it is not so.
  Time serves_for(const MemberRecord& record, Time now) const;
  Time gone_for(const Node& node, Time now) const;
  // Of a place that is out.
  Time out_for(const Place& place, Time now) const;

 private:
  std::map<std::string, std::pair<std::string, Time>> serving_since_;  // by name: the record's boot, and since when
  std::map<std::string, Time> gone_since_;                             // nodes of the list that have no record
  std::map<std::pair<std::string, std::uint64_t>, Time> out_since_;    // by name and version
};

struct Decision {
  std::optional<FleetConfig> config = std::nullopt;  // nullopt: the list stays
  std::vector<std::string> held = {};     // nodes that go out later, or never: the last one, and what passes a third
  std::vector<std::string> refused = {};  // nodes for which the list has no bytes left
};

// force: every node that does not serve goes out at once, how many these may be.
// unix_s: for the version alone.
Decision next_config(const FleetConfig& config, const std::vector<MemberRecord>& records, const Sightings& seen,
                     const ListRules& rules, Time now, std::uint64_t unix_s, bool force = false);

// A version above `last` and, where it can be, at `unix_s`.
std::uint64_t next_version(std::uint64_t last, std::uint64_t unix_s) noexcept;

}  // namespace tandem::cluster
