#include "cluster/membership.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tandem::cluster {
namespace {

// A list that is written anew after a loss passes by so much the greatest version that anyone has told: a node that is
// not there may have a few more.
constexpr std::uint64_t versions_passed = 100;

std::uint64_t version_of(std::string_view document) noexcept {
  std::uint64_t version = 0;
  std::from_chars(document.data(), document.data() + document.size(), version);
  return version;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

Membership::Membership(MembershipOptions options, Time now)
    : options_(std::move(options)),
      advanced_at_(now),
      next_(now),
      tick_at_(now),
      lease_at_(now),
      record_at_(now),
      look_at_(now),
      look_not_before_(now),
      watch_not_before_(now),
      forgot_at_(now),
      out_at_(now - options_.drain) {}

std::vector<RegistryRequest> Membership::take_registry_requests() { return std::exchange(registry_requests_, {}); }
std::vector<ServerRequest> Membership::take_server_requests() { return std::exchange(server_requests_, {}); }
std::vector<std::string> Membership::take_messages() { return std::exchange(messages_, {}); }

void Membership::advance(Time now, std::uint64_t unix_s) {
  // It was stopped for a while, in which members may have come and gone.
  if (now - advanced_at_ > 5 * options_.tick) forget_members(now);
  advanced_at_ = now;
  const bool is_tick = now >= tick_at_;
  if (is_tick) {
    tick_at_ = now + options_.tick;
    look_at_server();
  }
  lead_server();
  if (phase_ == Phase::asking && late_ >= options_.late_max) phase_ = Phase::done;
  if (options_.is_listed) {
    if (is_in()) {
      out_at_ = Time::max();
    } else if (out_at_ == Time::max()) {
      out_at_ = now;
    }
    leave_when_due(now);
    keep_lease(now);
  }
  if (phase_ != Phase::revoking && phase_ != Phase::done) look_at_registry(now, unix_s, is_tick);
  tell();
  next_ = tick_at_;
  if (options_.is_listed && !leases_ && has_verdict())
    next_ = std::min(next_, is_registered_ ? lease_at_ : std::max(record_at_, lease_at_));
  if (!looks_) next_ = std::min(next_, std::max(look_not_before_, wants_look_ ? now : look_at_));
  next_ = std::max(next_, now + Time{1});
}

// --- the server

void Membership::look_at_server() {
  if (probes_) {
    late_ = std::min(late_ + 1, options_.late_max);
  } else {
    probes_ = true;
    server_requests_.push_back({ServerCall::probe, {}});
  }
  if (gets_ || sets_) return;
  gets_ = true;
  server_requests_.push_back({ServerCall::get, {}});
}

// Also without a registry: a server that was restarted gets the last list.
void Membership::lead_server() {
  if (gets_ || sets_ || !server_document_ || config_.version <= server_version_) return;
  sets_ = true;
  server_requests_.push_back({ServerCall::set, document_});
}

void Membership::on_server(const ServerReply& reply, Time now) {
  switch (reply.call) {
    case ServerCall::probe:
      probes_ = false;
      late_ = reply.done ? 0 : std::min(late_ + 1, options_.late_max);
      has_answered_ = has_answered_ || reply.done;
      if (phase_ != Phase::asking) break;
      phase_ = reply.done ? Phase::leaving : Phase::done;
      leave_at_ = now;
      break;
    case ServerCall::get:
      gets_ = false;
      server_document_.reset();
      if (!reply.done) break;
      server_document_ = reply.document;
      server_version_ = version_of(reply.document);
      is_drained_ = reply.is_drained;
      if (server_version_ <= known_.version) break;
      if (std::optional<FleetConfig> list = read_document(reply.document)) known_ = std::move(*list);
      break;
    case ServerCall::set:
      sets_ = false;
      server_document_.reset();  // asked for at the next tick
      if (!reply.done) break;
      server_document_ = reply.document;
      server_version_ = version_of(reply.document);
      break;
  }
  next_ = now;
}

MemberState Membership::state() const noexcept {
  if (is_drained_ || phase_ >= Phase::leaving) return MemberState::leaving;
  return late_ >= options_.late_max ? MemberState::failing : MemberState::serving;
}

// --- the lease and the record

void Membership::keep_lease(Time now) {
  if (leases_ || phase_ == Phase::done) return;
  if (phase_ == Phase::revoking) {
    if (lease_ == 0) {
      phase_ = Phase::done;
      return;
    }
    leases_ = true;
    registry_requests_.push_back({.call = RegistryCall::revoke, .lease = lease_});
    return;
  }
  // A server that nobody has asked yet is neither serving nor failing.
  if (!has_verdict()) return;
  if (now >= lease_at_) {
    leases_ = true;
    lease_sent_ = now;
    const RegistryCall call = lease_ == 0 ? RegistryCall::grant : RegistryCall::keep_alive;
    registry_requests_.push_back({.call = call, .lease = lease_, .ttl = options_.ttl});
  } else if (lease_ != 0 && now >= record_at_ && (!is_registered_ || record_.state != state())) {
    write_record(now);
  }
}

void Membership::write_record(Time now) {
  leases_ = true;
  record_ = {options_.self, state(), options_.boot, server_version_};
  record_at_ = now;
  registry_requests_.push_back(
      {.call = RegistryCall::put_record, .lease = lease_, .revision = record_revision_, .record = record_});
}

void Membership::lose_lease(Time now) {
  lease_ = 0;
  is_registered_ = false;
  record_revision_ = 0;
  lease_at_ = record_at_ = now;
}

void Membership::on_lease(const RegistryReply& reply, Time now) {
  leases_ = false;
  if (reply.call == RegistryCall::revoke) {
    phase_ = Phase::done;
    return;
  }
  if (reply.outcome == RegistryOutcome::failed) {
    fail_registry(reply, now);
    lease_at_ = now + options_.ttl / 10;
    return;
  }
  if (reply.outcome != RegistryOutcome::done || reply.ttl <= Time{0}) return lose_lease(now);
  if (reply.call == RegistryCall::grant) {
    lose_lease(now);
    lease_ = reply.lease;
  }
  lease_until_ = lease_sent_ + reply.ttl;
  lease_at_ = lease_sent_ + std::min(options_.ttl, reply.ttl) / 3;
}

void Membership::on_record(const RegistryReply& reply, Time now) {
  leases_ = false;
  is_registered_ = reply.outcome == RegistryOutcome::done;
  switch (reply.outcome) {
    case RegistryOutcome::done:
      record_revision_ = reply.revision;
      has_rival_ = false;
      break;
    case RegistryOutcome::lease_lost:
      lose_lease(now);
      break;
    case RegistryOutcome::failed:
      fail_registry(reply, now);
      record_at_ = now + options_.ttl / 10;
      break;
    case RegistryOutcome::refused:
      // One's own: an answer was lost.
      has_rival_ = reply.holder_revision != 0 && (!reply.holder || reply.holder->boot != options_.boot);
      record_revision_ = has_rival_ ? 0 : reply.holder_revision;
      record_at_ = now + (has_rival_ ? options_.ttl / 3 : options_.look_pause);
      break;
  }
}

// The record that was written may have been taken away, or overwritten.
void Membership::check_own_record(Time now) {
  if (!is_registered_ || leases_ || revision_ < record_revision_) return;
  const auto own = std::ranges::find_if(
      records_, [&](const MemberRecord& record) { return record.node.is_named_as(options_.self); });
  if (own != records_.end() && own->boot == options_.boot) return;
  is_registered_ = false;
  record_revision_ = 0;
  record_at_ = now;
}

// --- the list

void Membership::look_at_registry(Time now, std::uint64_t unix_s, bool is_tick) {
  if (looks_) return;
  // What a look is due for by time alone; it is decided again on what the look brings.
  if (is_tick && !wants_look_ && is_up_) {
    decision_ = decide(now, unix_s);
    wants_look_ = decision_.config.has_value();
  }
  if ((!wants_look_ && now < look_at_) || now < look_not_before_) return;
  looks_ = true;
  wants_look_ = false;
  look_not_before_ = now + options_.look_pause;
  registry_requests_.push_back({.call = RegistryCall::read});
}

void Membership::on_registry(const RegistryReply& reply, Time now, std::uint64_t unix_s) {
  if (phase_ == Phase::done) return;
  switch (reply.call) {
    case RegistryCall::grant:
    case RegistryCall::keep_alive:
    case RegistryCall::revoke:
      on_lease(reply, now);
      break;
    case RegistryCall::put_record:
      on_record(reply, now);
      break;
    case RegistryCall::read:
      on_read(reply, now, unix_s);
      break;
    case RegistryCall::publish:
      on_published(reply, now);
      break;
    case RegistryCall::watch:
      on_watch(reply, now);
      break;
  }
  next_ = now;
}

// Why a watch has ended does not matter: what was missed is read.
void Membership::on_watch(const RegistryReply& reply, Time now) {
  wants_look_ = true;
  if (reply.outcome == RegistryOutcome::done) return;
  watches_ = false;
  watch_not_before_ = now + options_.tick;
}

void Membership::fail_registry(const RegistryReply& reply, Time now) {
  ++registry_failures_;
  is_up_ = false;
  wants_look_ = true;
  if (!down_since_) down_since_ = now;
  if (std::exchange(registry_problem_, reply.problem) != reply.problem) say("registry: " + reply.problem);
}

void Membership::forget_members(Time now) {
  seen_.forget_members();
  forgot_at_ = now;
}

void Membership::on_read(const RegistryReply& reply, Time now, std::uint64_t unix_s) {
  looks_ = false;
  if (reply.outcome != RegistryOutcome::done) {
    fail_registry(reply, now);
    look_not_before_ = now + options_.tick;
    return;
  }
  // Long enough for leases to end that were not renewed meanwhile.
  const bool was_down = down_since_ && now - *down_since_ >= options_.ttl / 2;
  const bool is_another = reply.revision < revision_ || (config_.version != 0 && !reply.config);
  if (revision_ == 0 || was_down || is_another) forget_members(now);
  if (is_another) lease_at_ = now;
  if (!std::exchange(registry_problem_, {}).empty()) say("registry: answers again");
  is_up_ = true;
  down_since_.reset();
  revision_ = reply.revision;
  records_ = reply.records;
  take(reply.config.value_or(FleetConfig{}));
  config_revision_ = reply.config_revision;
  config_unreadable_ = reply.config_unreadable;
  look_at_ = now + options_.look_after;
  check_own_record(now);
  seen_.see(config_, records_, now);
  if (!options_.is_listed) return;
  if (!watches_ && now >= watch_not_before_) {
    watches_ = true;
    registry_requests_.push_back({.call = RegistryCall::watch, .revision = revision_});
  }
  decision_ = decide(now, unix_s);
  if (!decision_.config) return;
  publishing_ = std::move(*decision_.config);
  looks_ = true;
  registry_requests_.push_back({.call = RegistryCall::publish, .revision = config_revision_, .config = publishing_});
}

void Membership::on_published(const RegistryReply& reply, Time now) {
  looks_ = false;
  wants_look_ = true;
  if (reply.outcome == RegistryOutcome::failed) {
    fail_registry(reply, now);
    look_not_before_ = now + options_.tick;
  }
  if (reply.outcome != RegistryOutcome::done) return;
  ++publishes_;
  revision_ = std::max(revision_, reply.revision);
  config_revision_ = reply.revision;
  take(publishing_);
}

void Membership::take(FleetConfig config) {
  if (config != config_) {
    config_ = std::move(config);
    document_ = document_of(config_);
  }
  if (config_.version >= known_.version) known_ = config_;
}

// Only who has the name publishes. Who loses a race to publish reads again.
Decision Membership::decide(Time now, std::uint64_t unix_s) const {
  if (!options_.is_listed || !is_registered_ || config_unreadable_) return {};
  if (std::optional<FleetConfig> config = repaired(now, unix_s)) return {std::move(config), {}, {}};
  if (config_.version < known_.version) return {};  // it waits for more
  if (config_.version == 0 && now - forgot_at_ < options_.rules.joins_after) return {};
  return next_config(config_, records_, seen_, options_.rules, now, unix_s);
}

// The list, if the registry has lost it, has an older one than somebody else, or another one of the same version: the
// greatest list that any member knows, under a version above all of them.
std::optional<FleetConfig> Membership::repaired(Time now, std::uint64_t unix_s) const {
  FleetConfig list = known_;
  if (known_.version > config_.version) {
    std::uint64_t served = 0;
    for (const MemberRecord& record : records_) served = std::max(served, record.serves);
    const Time since = now - forgot_at_;
    // Others write themselves down anew first; who knows a greater list publishes that.
    if (config_.version == 0 && since < options_.rules.joins_after) return std::nullopt;
    if (served > known_.version && since < options_.rules.removes_after) return std::nullopt;
    list.version = next_version(std::max(list.version, served) + versions_passed, unix_s);
    return list;
  }
  if (config_.version == 0 || server_version_ != config_.version || !server_document_ || *server_document_ == document_)
    return std::nullopt;
  list = config_;
  list.version = next_version(list.version + versions_passed, unix_s);
  return list;
}

bool Membership::is_in() const noexcept {
  const Place* const place = (config_.version != 0 ? config_ : known_).find(options_.self);
  return place != nullptr && place->is_in();
}

// --- leaving

void Membership::leave(Time now) {
  if (!options_.is_listed) {
    phase_ = Phase::done;
  } else if (phase_ == Phase::running) {
    phase_ = Phase::asking;
    tick_at_ = now;
  } else if (phase_ != Phase::done) {
    phase_ = Phase::revoking;
  }
  next_ = now;
}

void Membership::leave_when_due(Time now) {
  if (phase_ != Phase::leaving) return;
  if (has_rival_) {
    // The other one is what the list names.
  } else if (is_in()) {
    const bool is_alone = config_.nodes() == 1;
    if (!is_alone && now - leave_at_ < options_.drain) return;
    say("leaves although the list still names this node");
  } else if (now - out_at_ < options_.drain) {
    return;
  }
  phase_ = Phase::revoking;
}

// --- what operators are told

void Membership::say(std::string text) { messages_.push_back(std::move(text)); }

void Membership::tell() {
  const bool is_behind = server_document_ && config_.version != 0 && server_version_ > config_.version;
  const Told before = std::exchange(told_, {has_verdict(), has_rival_, config_unreadable_, is_behind, state(),
                                            config_.version, decision_.held, decision_.refused});
  if (told_ == before) return;
  if (told_.has_verdict && (!before.has_verdict || told_.state != before.state))
    say("this node is " + std::string(name_of(told_.state)));
  if (told_.has_rival && !before.has_rival)
    say("another member has the name " + options_.self.name() + ", and this one waits");
  if (told_.is_unreadable && !before.is_unreadable) say("the registry's list cannot be read, and stays");
  if (told_.version != before.version && told_.version != 0)
    say("list " + std::to_string(config_.version) + " has " + std::to_string(config_.nodes()) + " nodes");
  if (told_.is_behind && !before.is_behind)
    say("the server has a list of the greater version " + std::to_string(server_version_));
  if (told_.held != before.held && !told_.held.empty())
    say("held in the list, as more than a third or all would go within a minute: " + joined(told_.held));
  if (told_.refused != before.refused && !told_.refused.empty())
    say("not in the list, which would be longer than clients read: " + joined(told_.refused));
}

Membership::Status Membership::status(Time now) const {
  return {.version = config_.version,
          .server_version = server_version_,
          .nodes = config_.nodes(),
          .is_in = is_in(),
          .state = state(),
          .is_registered = is_registered_,
          .has_rival = has_rival_,
          .is_registry_up = is_up_,
          .is_leaving = phase_ != Phase::running,
          .lease_left = lease_ == 0 ? Time{0} : std::max(Time{0}, lease_until_ - now),
          .publishes = publishes_,
          .registry_failures = registry_failures_,
          .held = decision_.held,
          .refused = decision_.refused};
}

}  // namespace tandem::cluster
