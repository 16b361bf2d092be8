// What a member tells of itself: JSON for `tandem-member status`, and metrics for the textfile collector of Prometheus'
// node_exporter.
#pragma once
#include <cstdint>
#include <string>

#include "cluster/membership.hpp"

namespace tandem::cluster {

struct MemberReport {
  std::string name, registry;  // of the node (empty: it only follows a list), and where the list comes from
  Membership::Status status;
  std::uint64_t unix_s = 0;
};

// At most some 8 KiB: names of nodes that are held back are cut.
std::string to_json(const MemberReport& report);
std::string to_metrics(const MemberReport& report);
// For people. `json` is to_json()'s; empty: it is not.
std::string to_text(const std::string& json, std::uint64_t unix_s);
// Whether the node is in the list (or follows one), the registry answers, and the report is not an old one.
bool is_well(const std::string& json, std::uint64_t unix_s);

}  // namespace tandem::cluster
