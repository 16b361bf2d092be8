// An intake: received input, and for each piece of it the connection or datagram that it came from. It is filled by RV,
// and emptied when the replies are sent. Plain data.
//
// Thread safety: one thread at a time.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "lane/lane.hpp"
#include "net/connection.hpp"
#include "net/udp_port.hpp"
#include "query/batch.hpp"

namespace tandem::net {

// The connection or datagram that a segment belongs to.
struct LaneWait {
  Connection* connection = nullptr;  // nullptr: a datagram
  UdpDatagram* datagram = nullptr;   // nullptr: a connection
  std::uint64_t waits_since = 0;     // ticks; 0: not known
  std::uint64_t sent_at = 0;
  std::array<std::uint32_t, lane_command_count> commands{};
  std::uint32_t controls = 0;             // control commands of a connection
  ParseStop stop = ParseStop::need_more;  // close or quit: the connection is closed when all is sent
};

struct Intake {
  // Its input arena, and the keys that devices search for; none: they have the input, or nothing.
  Batch* batch = nullptr;
  // Input that waits for its answers, and whose it is. Where a device begins with input, all is in the arena, in this
  // order.
  std::vector<LaneSegment> segments;
  std::vector<LaneWait> waits;
  std::vector<LaneRow> rows;  // answered commands that are not plain; the number is that of the segment's wait
  std::uint64_t begin = 0;    // ticks
  std::uint64_t since = 0;    // begin of the pass in which its first input was received
  std::uint64_t oldest_receipt = UINT64_MAX;  // of input that had to wait for its turn
  bool sampled = false;                       // its commands' latencies are recorded

  bool empty() const noexcept { return segments.empty(); }
  // All that was received until now is answered.
  void restart_clock(std::uint64_t now) noexcept {
    begin = now;
    oldest_receipt = UINT64_MAX;
  }
  std::uint64_t ticks_until(std::uint64_t now) const noexcept { return now - std::min(begin, oldest_receipt); }
};

}  // namespace tandem::net
