// An intake: a batch, and for each part of its input the connection or datagram that it came from. It is filled by RV
// and PP, and emptied when the replies are sent. Plain data.
//
// Thread safety: one thread at a time.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "codec/output.hpp"
#include "lane/lane.hpp"
#include "net/connection.hpp"
#include "net/output_range.hpp"
#include "net/udp_port.hpp"
#include "query/batch.hpp"

namespace tandem::net {

// Why parsing a connection's input stopped.
enum class Stop : std::uint8_t { need_more, yield, large, close, quit };

// The part of the batch that one connection, or one datagram, has sent.
struct Entry {
  Connection* connection = nullptr;  // nullptr: a datagram
  UdpDatagram* datagram = nullptr;   // nullptr: a connection
  const char* rest = nullptr;        // input not parsed yet ...
  const char* input_end = nullptr;   // ... up to here
  // Its replies in the responder's output, while `open`.
  std::size_t output_begin = 0, output_end = 0, externals_begin = 0, externals_end = 0;
  std::uint32_t first_query = 0;
  Stop stop = Stop::need_more;
  bool open = false;
  bool skips = false;       // queries from some place on are not executed; `rest` is where they begin
  bool turn_ended = false;  // `skips` because the connection's turn was over
  std::uint64_t received_at = 0, sent_at = 0;  // ticks, in a sampled pass; 0: not known
  std::uint64_t controls = 0;                  // of a connection, executed in this pass

  OutputRange range_in(const Output& output) const noexcept {
    return {&output, output_begin, output_end, externals_begin, externals_end};
  }
};

// The connection or datagram that a segment of the lane belongs to.
struct LaneWait {
  Connection* connection = nullptr;  // nullptr: a datagram
  UdpDatagram* datagram = nullptr;   // nullptr: a connection
  std::uint64_t waits_since = 0;     // ticks; 0: not known
  std::uint64_t sent_at = 0;
  std::array<std::uint32_t, lane_command_count> commands{};
};

struct Intake {
  Batch* batch = nullptr;
  std::vector<Entry> entries;
  // Input that waits for the lane, or for a device that answers it from its bytes; and whose it is. Where a device
  // begins with input, all is in the arena, in this order.
  std::vector<LaneSegment> segments;
  std::vector<LaneWait> waits;
  std::vector<LaneRow> rows;  // that the lane has answered; the number is that of the segment's wait
  // Some entries follow the lane: their connections may be blocked.
  bool stays_here = false;
  std::uint64_t begin = 0;                    // ticks
  std::uint64_t since = 0;                    // begin of the pass in which its first input was received
  std::uint64_t oldest_receipt = UINT64_MAX;  // of input that had to wait for its turn
  bool sampled = false;                       // its commands' latencies are recorded

  bool has_unparsed() const noexcept { return !segments.empty(); }
  // The entry's input was received before this pass.
  void note_earlier(Entry& entry, std::uint64_t received_at) noexcept {
    entry.received_at = received_at;
    oldest_receipt = std::min(oldest_receipt, received_at);
  }
  // All that was received until now is answered.
  void restart_clock(std::uint64_t now) noexcept {
    begin = now;
    oldest_receipt = UINT64_MAX;
  }
  std::uint64_t ticks_until(std::uint64_t now) const noexcept { return now - std::min(begin, oldest_receipt); }
};

}  // namespace tandem::net
