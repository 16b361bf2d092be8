// The program around a Membership: its clocks, its signals, its server and its registry.
#pragma once
#include <memory>
#include <string>

#include "cluster/membership.hpp"
#include "cluster/registry.hpp"
#include "cluster/server_link.hpp"

namespace tandem::cluster {

struct MemberLoopOptions {
  MembershipOptions membership;
  ServerLinkOptions link;
  std::string registry_name;  // in reports
  std::string metrics_file;   // empty: none
};

// Runs until the node has left (TERM) or an INT, which leaves the node in the list for the lease's time, comes. Returns
// the exit code. Lines for operators go to stderr.
int run_member(const MemberLoopOptions& options, Registry& registry);

Time steady_now() noexcept;
std::uint64_t unix_now() noexcept;
// Random, for MembershipOptions::boot.
std::string random_boot();

}  // namespace tandem::cluster
