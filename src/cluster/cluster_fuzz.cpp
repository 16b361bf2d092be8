// Any bytes as what a member reads: replies of etcd's gateway, its watch, the list of a file, records and lists in the
// registry, and the server's answers on the control socket. What is taken passes through again unchanged, and what is
// read in two parts is what is read whole.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/platform.hpp"
#include "cluster/config_document.hpp"
#include "cluster/control_replies.hpp"
#include "cluster/gateway.hpp"
#include "cluster/member_report.hpp"
#include "codec/config_store.hpp"

namespace {

using namespace tandem::cluster;  // NOLINT(google-build-using-namespace)

void look_at_list(const FleetConfig& config) {
  TD_ASSERT(config_from_json(to_json(config)) == config);
  const std::string document = document_of(config);
  if (document.size() <= tandem::ConfigStore::value_bytes_max)
    TD_ASSERT(tandem::ConfigStore().set(tandem::ConfigStore::cluster, 0, document).empty());
}

void look_at_reply(RegistryCall call, std::string_view bytes) {
  const RegistryReply reply = read_gateway_reply(call, key_prefix("f"), 200, bytes);
  TD_ASSERT((reply.outcome == RegistryOutcome::failed) != reply.problem.empty());
  if (reply.config) look_at_list(*reply.config);
  for (const MemberRecord& record : reply.records) TD_ASSERT(record_from_json(to_json(record)) == record);
  TD_ASSERT(reply.outcome != RegistryOutcome::done || reply.revision > 0);
  TD_ASSERT(reply.ttl >= Time{0});
}

void look_at_watch(std::string_view bytes, std::size_t cut) {
  WatchReader whole, parts;
  const WatchReader::Seen all = whole.read(bytes);
  WatchReader::Seen seen = parts.read(bytes.substr(0, cut));
  if (!seen.has_ended) {
    const WatchReader::Seen rest = parts.read(bytes.substr(cut));
    seen.has_changed = seen.has_changed || rest.has_changed;
    seen.has_ended = rest.has_ended;
  }
  TD_ASSERT(seen.has_changed == all.has_changed && seen.has_ended == all.has_ended);
}

std::string replies_in(std::string_view first, std::string_view second) {
  ControlReplies replies;
  std::string found;
  for (const std::string_view part : {first, second}) {
    replies.feed(part);
    while (const auto reply = replies.next()) found += (reply->is_value ? 'v' : 'l') + reply->text + '\n';
  }
  return found;
}

}  // namespace

// The first byte says what the rest is, the second where it is cut.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t cut = std::min<std::size_t>(data[1], bytes.size());
  switch (data[0]) {
    case 'g':
      for (const RegistryCall call : {RegistryCall::grant, RegistryCall::keep_alive, RegistryCall::revoke,
                                      RegistryCall::put_record, RegistryCall::read, RegistryCall::publish})
        look_at_reply(call, bytes);
      (void)read_token(200, bytes);
      (void)wants_token(400, bytes);
      break;
    case 'w':
      look_at_watch(bytes, cut);
      break;
    case 'd':
      if (const auto config = read_document(bytes)) {
        TD_ASSERT(document_of(*config) == bytes);
        look_at_list(*config);
      }
      break;
    case 'j':
      if (const auto config = config_from_json(bytes)) look_at_list(*config);
      if (const auto record = record_from_json(bytes)) TD_ASSERT(record_from_json(to_json(*record)) == record);
      (void)to_text(std::string(bytes), 0);
      (void)is_well(std::string(bytes), 0);
      break;
    case 'c':
      TD_ASSERT(bytes.size() > control_reply_bytes_max ||
                replies_in(bytes, {}) == replies_in(bytes.substr(0, cut), bytes.substr(cut)));
      break;
    default:
      break;
  }
  return 0;
}
