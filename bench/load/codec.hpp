// A memcached protocol as a client writes requests and checks replies.
//
//             text                    meta                            binary
//   get       get k                   mg k v, with getk mg k v K      get
//   multiget  get k...                mg k k v q for each, then mn    getkq for each, then noop
//   set       set k 0 TTL n           ms k n [T TTL]                  set
//   remove    delete k                md k                            delete
//   touch     touch k TTL             mg k T TTL                      touch
//   scan                              mr k v Ln (Tandem's own)
//
// And Redis': GET, MGET, SET [EX], DEL, EXPIRE or TOUCH.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "bench/load/contents.hpp"
#include "bench/load/options.hpp"
#include "bench/load/request.hpp"

namespace tandem::load {

// Of a request without its keys and its value; of a multiget, per key.
inline constexpr std::size_t request_overhead_bytes_max = 64;

// Whether the protocol has a request for this kind of operation.
bool can_ask(Protocol protocol, workload::OpKind kind);

// Writes the requests of one workload and checks the replies to them. Thread safety: immutable.
class Codec {
 public:
  Codec(const Contents& contents, bool verify) : contents_(contents), verify_(verify) {}
  virtual ~Codec() = default;
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;

  // Appends the request at `out`, which has room for `request_bytes_max`; returns its end.
  virtual char* write(const Request& request, const std::uint64_t* keys, char* out) const = 0;
  // Checks the reply to `request` at the start of `data`. `partial`: more bytes are needed.
  virtual ReplyCheck check(const Request& request, const std::uint64_t* keys, std::string_view data) const = 0;

  const Contents& contents() const noexcept { return contents_; }

  static std::size_t request_bytes_max(const Request& request) noexcept {
    return (workload::key_bytes_max + request_overhead_bytes_max) * (std::size_t{request.key_count} + 1) +
           request.value_bytes;
  }

 protected:
  const Contents contents_;
  const bool verify_;
};

// The size of the (first) value in the reply to a get, from its head; nullopt without such a head. For messages: does
// not check the rest of the reply.
std::optional<std::uint32_t> announced_value_bytes(Protocol protocol, std::string_view reply);

// getk: the codec compares the keys of gets. REQUIRES: only in the meta protocol.
std::unique_ptr<Codec> make_codec(Protocol protocol, const Contents& contents, bool verify, bool getk = false);

}  // namespace tandem::load
