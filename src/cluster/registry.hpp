// Where the members of a fleet write themselves down, and find its list: etcd, or a file that somebody else writes.
// Plain requests and replies, so that a member's decisions (membership.hpp) can be tested with a registry that is
// slow, forgets or lies.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/config_document.hpp"

namespace tandem::cluster {

// Of a clock that only goes forward.
using Time = std::chrono::milliseconds;

enum class RegistryCall : std::uint8_t {
  grant,       // a lease of `ttl`
  keep_alive,  // of `lease`
  revoke,      // `lease`, and with it the keys that have it
  put_record,  // `record` with `lease`, if the key's revision is `revision` (0: if there is none)
  read,        // all records and the list
  publish,     // `config`, if the list's revision is `revision` (0: if there is none)
  watch,       // for changes behind `revision`; answered at each, and once more when it has ended
};

struct RegistryRequest {
  RegistryCall call{};
  std::int64_t lease = 0;
  Time ttl{};
  std::int64_t revision = 0;
  MemberRecord record = {};
  FleetConfig config = {};
};

enum class RegistryOutcome : std::uint8_t {
  done,
  refused,     // the revision is another one, and nothing was written
  lease_lost,  // there is no such lease (any more), and nothing was written
  failed,      // no answer in time, or not that of a registry: it may have been done
};

struct RegistryReply {
  RegistryCall call{};
  RegistryOutcome outcome = RegistryOutcome::failed;
  std::int64_t revision = 0;  // of the registry when it answered
  std::int64_t lease = 0;     // of grant
  Time ttl{};                 // of grant and keep_alive
  // Of read. A record that cannot be read is left out.
  std::vector<MemberRecord> records = {};
  std::optional<FleetConfig> config = std::nullopt;
  std::int64_t config_revision = 0;
  bool config_unreadable = false;  // there is a list, and this program cannot read it
  // Of a refused put_record: which record is there, and its revision; nullopt: none that can be read.
  std::optional<MemberRecord> holder = std::nullopt;
  std::int64_t holder_revision = 0;
  // Why it failed, for the log.
  std::string problem = {};
};

// A registry over the network or the file system. Requests are answered in any order, each (but a watch) exactly once,
// at the latest after some seconds. Thread safety: one thread.
class Registry {
 public:
  virtual ~Registry() = default;
  virtual void send(RegistryRequest request) = 0;
  // The replies that have arrived since the last call. Waits until there is one, a descriptor of `wake` can be read or
  // written, or `limit` is over.
  struct Wake {
    int fd = -1;
    bool reads = false, writes = false;  // wanted; afterwards: are possible
  };
  virtual std::vector<RegistryReply> wait(std::vector<Wake>& wake, Time limit) = 0;
};

}  // namespace tandem::cluster
