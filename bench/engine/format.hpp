// Requests and replies of the in-process mode as bytes: a client's request for an operation, and the expected answer of
// the server.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bench/workload/keys.hpp"
#include "codec/ethernet.hpp"
#include "codec/udp.hpp"

namespace tandem::bench {

// udp: text, a datagram for each request; raw: the same in a whole frame of a network.
enum class WireProtocol : std::uint8_t { text, meta, binary, udp, raw };
inline constexpr std::uint32_t raw_value_bytes_max = 1024;  // of a SET, beside a key of any length
std::string_view to_string(WireProtocol protocol);
// Throws std::invalid_argument.
WireProtocol parse_wire_protocol(std::string_view name);

// One request: a GET or a SET of a key, or a GET of a key that was never stored.
class WireOp {
 public:
  WireOp(std::uint64_t key, bool is_set) noexcept : word_(key << 2 | (is_set ? 1 : 0)) {}
  static WireOp miss(std::uint64_t key) noexcept {
    WireOp op(key, false);
    op.word_ |= 2;
    return op;
  }
  std::uint64_t key() const noexcept { return word_ >> 2; }
  bool is_set() const noexcept { return (word_ & 1) != 0; }
  bool is_miss() const noexcept { return (word_ & 2) != 0; }

 private:
  std::uint64_t word_;
};
static_assert(sizeof(WireOp) == 8);

struct ReplyErrors {
  std::uint64_t wrong_values = 0, wrong_replies = 0, unexpected_misses = 0;
  std::string first;             // in words
  std::uint64_t other_keys = 0;  // answers to getk for another key: not errors

  std::uint64_t count() const noexcept { return wrong_values + wrong_replies + unexpected_misses; }
  void add(const ReplyErrors& other);
};

// Thread safety: immutable.
class WireFormat {
 public:
  // `keys` outlives it. getk: the client compares the keys of GETs. REQUIRES: only in the meta protocol.
  WireFormat(WireProtocol protocol, const workload::KeySpace& keys, bool getk = false) noexcept
      : protocol_(protocol), getk_(getk), keys_(keys) {}

  WireProtocol protocol() const noexcept { return protocol_; }
  bool in_datagrams() const noexcept { return protocol_ == WireProtocol::udp || is_raw(); }
  bool is_raw() const noexcept { return protocol_ == WireProtocol::raw; }
  // With the headers of its datagram.
  std::uint64_t request_bytes(WireOp op) const noexcept;
  std::uint64_t reply_bytes(WireOp op) const noexcept;
  // Writes request_bytes(op) bytes; returns the end.
  char* write_request(WireOp op, char* out) const noexcept;
  // The key's and the value's bytes in a request; a GET has no value.
  std::string_view key_in(WireOp op, std::string_view request) const noexcept;
  std::string_view value_in(WireOp op, std::string_view request) const noexcept;
  // Compares every byte of the replies to `ops` (except a CAS id, which only the store knows). Of a raw frame, also
  // whether its checksums are right.
  void check(std::span<const WireOp> ops, std::string_view replies, ReplyErrors& errors) const;

 private:
  // Removes the reply to `op` from the front of `replies`; false: its end is unknown.
  bool check_one(WireOp op, std::string_view& replies, std::string& scratch, ReplyErrors& errors) const;
  std::uint64_t header_bytes() const noexcept {
    return (is_raw() ? ethernet::header_bytes : 0) + (in_datagrams() ? udp_frame_bytes : 0);
  }
  char* write_payload(WireOp op, char* out) const noexcept;
  bool check_payload(WireOp op, std::string_view& replies, std::string& scratch, ReplyErrors& errors) const;
  bool check_get(WireOp op, std::string_view& replies, std::string& scratch, ReplyErrors& errors) const;

  WireProtocol protocol_;
  bool getk_;
  const workload::KeySpace& keys_;
};

}  // namespace tandem::bench
