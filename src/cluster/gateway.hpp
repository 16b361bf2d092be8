// Requests and replies of etcd's JSON gateway (/v3/...), as bytes. 64-bit numbers are strings there, bytes are base64,
// and what is zero or false is left out: a keepalive of a lost lease is answered 200 without a TTL.
//
// Thread safety: functions without state; a WatchReader belongs to one thread.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/registry.hpp"

namespace tandem::cluster {

struct GatewayRequest {
  std::string path;
  std::string body;
};

// Bytes of a reply that is read whole. 130 nodes and as many that are gone need a sixth.
inline constexpr std::size_t gateway_bytes_max = std::size_t{1} << 20;

// The keys of a fleet begin with it: "/tandem/<fleet>/".
std::string key_prefix(std::string_view fleet);

GatewayRequest gateway_request(const RegistryRequest& request, const std::string& prefix);
// Any bytes: what is no reply to the request is `failed`, with the reason.
RegistryReply read_gateway_reply(RegistryCall call, const std::string& prefix, long status, std::string_view body);

GatewayRequest authenticate_request(std::string_view user, std::string_view password);
// Empty: there is none in it.
std::string read_token(long status, std::string_view body);
// Whether the reply asks for a (new) token.
bool wants_token(long status, std::string_view body);

// The stream of a watch: a JSON document a line.
class WatchReader {
 public:
  struct Seen {
    bool has_changed = false;
    bool has_ended = false;  // compacted, canceled, or no watch of etcd's
  };
  Seen read(std::string_view bytes);

 private:
  std::string line_;
};

}  // namespace tandem::cluster
