#include "cluster/gateway.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "codec/base64.hpp"

namespace tandem::cluster {
namespace {

using Json = nlohmann::json;

constexpr std::string_view config_key = "config", members_key = "members/";
// gRPC's codes.
constexpr std::int64_t code_not_found = 5, code_unauthenticated = 16;
constexpr std::size_t reason_bytes_max = 200;
constexpr std::int64_t ttl_max_s = 1'000'000;

std::string to_base64(std::string_view text) {
  std::string out(codec::base64_bytes(text.size()), '\0');
  codec::base64_encode(out.data(), text.data(), text.size());
  return out;
}

std::string from_base64(const std::string& text) {
  std::string out(codec::base64_binary_bytes_max(text.size()), '\0');
  out.resize(codec::base64_decode(out.data(), text.data(), text.size()));
  return out;
}

std::string number(std::int64_t value) { return std::to_string(value); }
std::string record_key(const std::string& prefix, const MemberRecord& record) {
  return prefix + std::string(members_key) + record.node.name();
}

// Keys that begin with `prefix`.
Json keys_below(const std::string& prefix) {
  std::string end = prefix;
  ++end.back();
  return {{"key", to_base64(prefix)}, {"range_end", to_base64(end)}};
}

// Puts if the key has that revision; else tells what is there.
std::string put_if(const std::string& key, std::int64_t revision, const std::string& value, std::int64_t lease) {
  const std::string name = to_base64(key);
  Json put{{"key", name}, {"value", to_base64(value)}};
  if (lease != 0) put["lease"] = number(lease);
  const Json compare{{"key", name}, {"target", "MOD"}, {"result", "EQUAL"}, {"mod_revision", number(revision)}};
  return Json{{"compare", Json::array({compare})},
              {"success", Json::array({{{"request_put", std::move(put)}}})},
              {"failure", Json::array({{{"request_range", {{"key", name}}}}})}}
      .dump();
}

// --- reading: a member that is not there is null

const Json& member(const Json& json, const char* name) {
  static const Json none;
  if (!json.is_object()) return none;
  const auto found = json.find(name);
  return found == json.end() ? none : *found;
}

// A number, in a string or not; 0 where there is none. nullopt: something else.
std::optional<std::int64_t> integer(const Json& json) {
  if (json.is_null()) return 0;
  if (json.is_number_unsigned()) {
    const auto value = json.get<std::uint64_t>();
    return value <= INT64_MAX ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt;
  }
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (!json.is_string()) return std::nullopt;
  const auto& text = json.get_ref<const std::string&>();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::string> bytes(const Json& json) {
  if (!json.is_string()) return std::nullopt;
  return from_base64(json.get_ref<const std::string&>());
}

RegistryReply failed(RegistryCall call, std::string problem) {
  problem.resize(std::min(problem.size(), reason_bytes_max));
  std::ranges::replace_if(problem, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return {.call = call, .problem = problem.empty() ? "an error without a reason" : std::move(problem)};
}

RegistryReply no_reply_of_etcd(RegistryCall call) { return failed(call, "this is no reply of etcd's gateway"); }

RegistryReply read_error(RegistryCall call, long status, const Json& json, std::string_view body) {
  const Json& message = member(json, "error");
  RegistryReply reply = failed(call, message.is_string() ? message.get<std::string>()
                                                         : "HTTP status " + std::to_string(status) + " " +
                                                               std::string(body.substr(0, reason_bytes_max)));
  const bool has_lease = call != RegistryCall::read && call != RegistryCall::publish && call != RegistryCall::watch;
  if (has_lease && integer(member(json, "code")) == code_not_found)
    return {.call = call, .outcome = RegistryOutcome::lease_lost};
  return reply;
}

RegistryReply read_lease(RegistryReply reply, const Json& json) {
  // A keepalive is a stream of one.
  const Json& result = reply.call == RegistryCall::keep_alive ? member(json, "result") : json;
  const auto lease = integer(member(result, "ID")), ttl = integer(member(result, "TTL"));
  if (!result.is_object() || !lease || !ttl || *lease == 0 || *ttl < 0) return no_reply_of_etcd(reply.call);
  reply.lease = *lease;
  reply.ttl = std::chrono::seconds(std::min(*ttl, ttl_max_s));
  if (reply.ttl == Time{0}) reply.outcome = RegistryOutcome::lease_lost;
  return reply;
}

// Of a key: its revision, and its bytes. False: it is none.
bool read_pair(const Json& pair, std::string& key, std::string& value, std::int64_t& revision) {
  const std::optional<std::string> name = bytes(member(pair, "key"));
  // What is empty is left out.
  const Json& json = member(pair, "value");
  const std::optional<std::string> found = json.is_null() ? std::string() : bytes(json);
  const auto modified = integer(member(pair, "mod_revision"));
  if (!name || !found || !modified || *modified <= 0) return false;
  key = *name;
  value = *found;
  revision = *modified;
  return true;
}

RegistryReply read_put(RegistryReply reply, const Json& json) {
  if (member(json, "succeeded") == true) return reply;
  reply.outcome = RegistryOutcome::refused;
  const Json& answers = member(json, "responses");
  if (!answers.is_array() || answers.size() != 1) return no_reply_of_etcd(reply.call);
  const Json& range = member(answers.front(), "response_range");
  if (!range.is_object()) return no_reply_of_etcd(reply.call);
  const Json& pairs = member(range, "kvs");
  if (!pairs.is_array() || pairs.empty()) return reply;
  std::string key, value;
  if (!read_pair(pairs.front(), key, value, reply.holder_revision)) return no_reply_of_etcd(reply.call);
  reply.holder = record_from_json(value);
  return reply;
}

RegistryReply read_keys(RegistryReply reply, const std::string& prefix, const Json& json) {
  const Json& pairs = member(json, "kvs");
  if (!pairs.is_array() && !pairs.is_null()) return no_reply_of_etcd(reply.call);
  for (const Json& pair : pairs) {
    std::string key, value;
    std::int64_t revision = 0;
    if (!read_pair(pair, key, value, revision) || !key.starts_with(prefix)) return no_reply_of_etcd(reply.call);
    if (key == prefix + std::string(config_key)) {
      reply.config = config_from_json(value);
      reply.config_revision = revision;
      reply.config_unreadable = !reply.config;
    } else if (std::optional<MemberRecord> record = record_from_json(value);
               record && key == record_key(prefix, *record)) {
      reply.records.push_back(std::move(*record));
    }
  }
  return reply;
}

}  // namespace

std::string key_prefix(std::string_view fleet) { return "/tandem/" + std::string(fleet) + '/'; }

GatewayRequest gateway_request(const RegistryRequest& request, const std::string& prefix) {
  switch (request.call) {
    case RegistryCall::grant:
      return {"/v3/lease/grant",
              Json{{"TTL", number(std::chrono::duration_cast<std::chrono::seconds>(request.ttl).count())}}.dump()};
    case RegistryCall::keep_alive:
      return {"/v3/lease/keepalive", Json{{"ID", number(request.lease)}}.dump()};
    case RegistryCall::revoke:
      return {"/v3/lease/revoke", Json{{"ID", number(request.lease)}}.dump()};
    case RegistryCall::put_record:
      return {"/v3/kv/txn",
              put_if(record_key(prefix, request.record), request.revision, to_json(request.record), request.lease)};
    case RegistryCall::read:
      return {"/v3/kv/range", keys_below(prefix).dump()};
    case RegistryCall::publish:
      return {"/v3/kv/txn", put_if(prefix + std::string(config_key), request.revision, to_json(request.config), 0)};
    case RegistryCall::watch: {
      Json create = keys_below(prefix);
      create["start_revision"] = number(request.revision + 1);
      return {"/v3/watch", Json{{"create_request", std::move(create)}}.dump()};
    }
  }
  return {};
}

RegistryReply read_gateway_reply(RegistryCall call, const std::string& prefix, long status, std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  if (status != 200 || member(json, "error") != nullptr) return read_error(call, status, json, body);
  const Json& header = member(call == RegistryCall::keep_alive ? member(json, "result") : json, "header");
  const auto revision = integer(member(header, "revision"));
  // The first revision is 1.
  if (!revision || *revision <= 0) return no_reply_of_etcd(call);
  RegistryReply reply{.call = call, .outcome = RegistryOutcome::done, .revision = *revision};
  switch (call) {
    case RegistryCall::grant:
    case RegistryCall::keep_alive:
      return read_lease(std::move(reply), json);
    case RegistryCall::put_record:
    case RegistryCall::publish:
      return read_put(std::move(reply), json);
    case RegistryCall::read:
      return read_keys(std::move(reply), prefix, json);
    case RegistryCall::revoke:
    case RegistryCall::watch:
      break;
  }
  return reply;
}

GatewayRequest authenticate_request(std::string_view user, std::string_view password) {
  return {"/v3/auth/authenticate",
          Json{{"name", user}, {"password", password}}.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

std::string read_token(long status, std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  const Json& token = member(json, "token");
  const bool is_header = token.is_string() && std::ranges::all_of(token.get_ref<const std::string&>(),
                                                                  [](char c) { return c > ' ' && c < 0x7f; });
  return status == 200 && is_header ? token.get<std::string>() : std::string();
}

bool wants_token(long status, std::string_view body) {
  if (status == 401) return true;
  if (status == 200) return false;
  const Json json = Json::parse(body, nullptr, false);
  const Json& message = member(json, "error");
  // An etcd without a name in the request says that it is empty, with the code of any bad request.
  return integer(member(json, "code")) == code_unauthenticated ||
         (message.is_string() && message.get_ref<const std::string&>() == "etcdserver: user name is empty");
}

WatchReader::Seen WatchReader::read(std::string_view bytes) {
  Seen seen;
  while (!bytes.empty() && !seen.has_ended) {
    const std::size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (line_.size() > gateway_bytes_max) seen.has_ended = true;
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    const std::string line = std::exchange(line_, {});
    const Json json = Json::parse(line, nullptr, false);
    const Json& result = member(json, "result");
    if (!result.is_object() || member(result, "canceled") == true) {
      seen.has_ended = true;
    } else if (member(result, "events").is_array()) {
      seen.has_changed = true;
    }
  }
  return seen;
}

}  // namespace tandem::cluster
