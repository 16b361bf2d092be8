// What a member of a fleet does: it keeps its server's record in the registry, publishes the list when that has to
// change, and gives the list to its server. A state machine without threads, clocks or sockets: replies, a time and a
// wall clock's seconds go in, requests come out.
//
// docs/decisions/0058-member.md has the reasons. Thread safety: one thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/config_document.hpp"
#include "cluster/next_config.hpp"
#include "cluster/registry.hpp"

namespace tandem::cluster {

struct MembershipOptions {
  Node self;
  std::string boot;         // differs from every other member's, also from this one's before a restart
  bool is_listed = true;    // false: the registry only has the list (a file), in which somebody else writes nodes
  Time ttl{10'000};         // of the lease, renewed three times within
  Time tick{1'000};         // between two looks at the server
  unsigned late_max = 3;    // so many late answers of the server, one after the other, make it `failing`
  Time look_after{10'000};  // without a change the registry is read that often
  Time look_pause{200};     // between two reads at the least
  Time drain{180'000};      // a node that leaves serves on for so long: three polls of the slowest clients
  ListRules rules = {};
};

enum class ServerCall : std::uint8_t {
  probe,  // `mn` on the port that clients use
  get,    // the list that the server has, and whether an operator has drained it
  set,    // the list
};
struct ServerRequest {
  ServerCall call{};
  std::string document = {};  // of set
};
struct ServerReply {
  ServerCall call{};
  bool done = false;          // false: no answer, or a set that was refused
  std::string document = {};  // of get and set; empty: the server has none
  bool is_drained = false;
  std::string problem = {};
};

// Exactly one reply to each request, but to a probe: a server that hangs answers late, or never.
class Membership {
 public:
  explicit Membership(MembershipOptions options, Time now);

  void advance(Time now, std::uint64_t unix_s);  // at next_time(), or earlier
  void on_registry(const RegistryReply& reply, Time now, std::uint64_t unix_s);
  void on_server(const ServerReply& reply, Time now);
  // Leaves the list, serves on for `drain`, and gives the lease back. Again: without waiting. Beside a server that is
  // dead: ends at once, and the lease lasts until the server may be back.
  void leave(Time now);

  std::vector<RegistryRequest> take_registry_requests();
  std::vector<ServerRequest> take_server_requests();
  // What an operator wants to know, once each time that it changes.
  std::vector<std::string> take_messages();
  Time next_time() const noexcept { return next_; }
  bool is_done() const noexcept { return phase_ == Phase::done; }

  struct Status {
    std::uint64_t version = 0, server_version = 0;  // of the list, and of that which the server has; 0: none
    std::size_t nodes = 0;
    bool is_in = false;  // this node is in the list
    MemberState state = MemberState::failing;
    bool is_registered = false, has_rival = false, is_registry_up = false, is_leaving = false;
    Time lease_left{};
    std::uint64_t publishes = 0, registry_failures = 0;
    std::vector<std::string> held, refused;
  };
  Status status(Time now) const;
  const FleetConfig& config() const noexcept { return config_; }

 private:
  enum class Phase : std::uint8_t {
    running,
    asking,  // whether the server that is to be left still answers
    leaving,
    revoking,
    done,
  };

  void look_at_server();
  void lead_server();
  void keep_lease(Time now);
  void write_record(Time now);
  void look_at_registry(Time now, std::uint64_t unix_s, bool is_tick);
  void leave_when_due(Time now);
  void on_lease(const RegistryReply& reply, Time now);
  void on_record(const RegistryReply& reply, Time now);
  void on_read(const RegistryReply& reply, Time now, std::uint64_t unix_s);
  void on_published(const RegistryReply& reply, Time now);
  void on_watch(const RegistryReply& reply, Time now);
  void lose_lease(Time now);
  void check_own_record(Time now);
  void fail_registry(const RegistryReply& reply, Time now);
  void forget_members(Time now);
  Decision decide(Time now, std::uint64_t unix_s) const;
  std::optional<FleetConfig> repaired(Time now, std::uint64_t unix_s) const;
  MemberState state() const noexcept;
  bool has_verdict() const noexcept { return has_answered_ || late_ >= options_.late_max; }
  bool is_in() const noexcept;
  void tell();
  void say(std::string text);
  void take(FleetConfig config);

  const MembershipOptions options_;
  Phase phase_ = Phase::running;
  Time advanced_at_, next_, tick_at_;
  std::vector<RegistryRequest> registry_requests_;
  std::vector<ServerRequest> server_requests_;
  std::vector<std::string> messages_;
  // What was told last.
  struct Told {
    bool has_verdict = false, has_rival = false, is_unreadable = false, is_behind = false;
    MemberState state = MemberState::failing;
    std::uint64_t version = 0;
    std::vector<std::string> held = {}, refused = {};
    bool operator==(const Told&) const = default;
  } told_;
  std::string registry_problem_;

  // The server.
  bool probes_ = false, has_answered_ = false, gets_ = false, sets_ = false, is_drained_ = false;
  unsigned late_ = 0;                           // answers, one after the other
  std::optional<std::string> server_document_;  // nullopt: not known
  std::uint64_t server_version_ = 0;

  // The lease and the record: one request at a time.
  bool leases_ = false, is_registered_ = false, has_rival_ = false;
  std::int64_t lease_ = 0, record_revision_ = 0;
  Time lease_at_, record_at_, lease_sent_{}, lease_until_{};
  MemberRecord record_;  // as it was sent last

  // Records and the list: one request at a time, so that a revision below the last one means another registry.
  bool looks_ = false, wants_look_ = true, watches_ = false, is_up_ = false, config_unreadable_ = false;
  Time look_at_, look_not_before_, watch_not_before_, forgot_at_;
  std::optional<Time> down_since_;
  std::int64_t revision_ = 0, config_revision_ = 0;
  std::vector<MemberRecord> records_;
  FleetConfig config_;      // the registry's; version 0: it has none
  std::string document_;    // of config_
  FleetConfig known_;       // the greatest that this program has seen anywhere
  FleetConfig publishing_;  // as it was sent last
  Sightings seen_;
  Decision decision_;  // the last one

  Time leave_at_{}, out_at_;
  std::uint64_t publishes_ = 0, registry_failures_ = 0;
};

}  // namespace tandem::cluster
