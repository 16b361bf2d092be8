// A UDP port of one worker: datagrams in and out, many at a time. Framing is memcached's: a request is one datagram, a
// reply may be several, and each command of a datagram is answered on its own. Calls that depend on the kind of port
// are made once a pass, not once a datagram.
//
// Thread safety: the worker's thread.
#pragma once
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/platform.hpp"
#include "codec/protocol.hpp"
#include "codec/udp.hpp"
#include "net/counters.hpp"
#include "net/limits.hpp"
#include "work/output_range.hpp"

namespace tandem::net {

// Where a reply goes.
struct UdpReply {
  class UdpPort* port = nullptr;
  std::uint32_t datagram = 0;  // index of the request in its port's last receive()
  std::uint16_t request_id = 0;
};

// A datagram from its receipt to its answers: it has a parser and limits, like a connection. Behind its bytes are
// lane_padding_bytes readable ones.
struct UdpDatagram {
  char* data = nullptr;  // from its frame on
  std::size_t bytes = 0;
  UdpReply reply{};
  std::optional<Parser> parser;
  // What it has had of its share (worker/messages.hpp).
  std::uint64_t looked_at = 0, messages = 0, message_bytes = 0;

  // Begins with its requests. The frame becomes that of a reply which fits one datagram, as most do. REQUIRES: it is
  // longer than a frame.
  void begin(std::uint16_t request_id, const ProtocolOptions& options, const Clock& clock) noexcept {
    reply.request_id = request_id;
    write_udp_frame({request_id, 0, 1}, data);
    parser.emplace(options, clock);
    parser->begin(data[udp_frame_bytes]);
    looked_at = messages = message_bytes = 0;
  }
};

// One command's reply to a datagram: a stretch of a worker's Output. Its first udp_frame_bytes are the frame that it
// has when it fits one datagram; longer ones get frames of their own.
struct UdpMessage {
  UdpReply to;
  std::size_t output_begin, output_end, externals_begin, externals_end;

  OutputRange range(const Output& output) const noexcept {
    return {&output, output_begin, output_end, externals_begin, externals_end};
  }
};

class UdpPort {
 public:
  virtual ~UdpPort() = default;
  UdpPort(const UdpPort&) = delete;
  UdpPort& operator=(const UdpPort&) = delete;

  virtual int fd() const noexcept = 0;      // to be watched for input
  virtual std::string address() const = 0;  // as `stats conns` shows it
  std::uint64_t pass = 0;                   // the worker's last pass that received from it
  unsigned batches_in_flight = 0;           // with a device, that have datagrams of it: its buffers are in use
  bool has_more = false;                    // it may hold datagrams that no event will tell of; set by receive()
  // Takes what has arrived, at most datagrams_per_pass; what the last call returned is overwritten. Returns how many.
  virtual unsigned receive(NetCounters& counters) noexcept = 0;
  UdpDatagram& datagram(unsigned i) noexcept { return datagrams_[i]; }
  // Sends replies to datagrams of the last receive(). What the port cannot send now is dropped, and counted.
  virtual void send(const Output& output, std::span<const UdpMessage> messages, NetCounters& counters) noexcept = 0;

 protected:
  UdpPort() noexcept {
    for (std::uint32_t i = 0; i < datagrams_per_pass; ++i) datagrams_[i].reply = {.port = this, .datagram = i};
  }

  std::array<UdpDatagram, datagrams_per_pass> datagrams_{};
};

using UdpPorts = std::vector<std::unique_ptr<UdpPort>>;

// Stretches of memory that a datagram is put together from: at most three of a reply, since a pinned one is longer than
// a datagram.
inline constexpr unsigned udp_pieces_max = 3;
static_assert(copied_value_bytes_max > udp_payload_bytes_max);

// Cuts a reply into datagrams and calls f(pieces, frame) for each. frame: of several datagrams, what goes before the
// pieces; nullptr: the one datagram's frame is in its piece.
template <class F>
void cut_reply(std::uint16_t request_id, const OutputRange& range, F f) {
  const std::size_t bytes = range.bytes() - udp_frame_bytes;
  if (TD_LIKELY(bytes <= udp_payload_bytes_max)) {
    // Values this short are not pinned: the reply is one stretch, its frame included.
    const iovec whole{const_cast<char*>(range.output->data()) + range.begin, range.copied_bytes()};
    return f(std::span<const iovec>(&whole, 1), nullptr);
  }
  UdpFrame frame{request_id, 0,
                 static_cast<std::uint16_t>((bytes + udp_payload_bytes_max - 1) / udp_payload_bytes_max)};
  std::array<iovec, udp_pieces_max> pieces;
  std::size_t count = 0, filled = 0, skipped = udp_frame_bytes;  // the frame that it would have as one datagram
  const auto close = [&] {
    f(std::span<const iovec>(pieces.data(), count), &frame);
    ++frame.sequence;
    count = filled = 0;
  };
  range.for_each([&](const char* p, std::size_t left, Location) {
    const std::size_t skip = std::min(left, std::exchange(skipped, 0));
    p += skip;
    left -= skip;
    while (left != 0) {
      const std::size_t taken = std::min(left, udp_payload_bytes_max - filled);
      pieces[count++] = {const_cast<char*>(p), taken};
      p += taken;
      left -= taken;
      filled += taken;
      if (filled == udp_payload_bytes_max) close();
    }
  });
  if (filled != 0) close();
}

}  // namespace tandem::net
