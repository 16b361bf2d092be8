// An intake: received input, and for each piece of it who has sent it. It is filled by RV, and emptied when the replies
// are sent. Plain data.
//
// Thread safety: one thread at a time.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "codec/ethernet.hpp"
#include "lane/lane.hpp"
#include "query/batch.hpp"

namespace tandem {

// Who has sent a segment, and what it has had.
struct Asker {
  void* owner = nullptr;        // as the sink knows it
  const char* frame = nullptr;  // of a datagram, in its input; nullptr: a stream
  bool is_raw = false;          // before the frame are the headers of Ethernet, IPv4 and UDP (codec/ethernet.hpp)
  bool fills = false;           // a large value of it is being received into its slot: its input stands behind that
  bool is_over = false;         // of a datagram: it gets no more answers; of a stream: its owner was told that it ended
  ParseStop stop = ParseStop::need_more;  // close or quit: the connection is closed when all is sent
  std::uint32_t controls = 0;             // control commands
  std::uint32_t executed = 0;             // queries of a datagram
  std::uint64_t waits_since = 0;          // ticks; 0: not known
  std::uint64_t sent_at = 0;
  std::array<std::uint32_t, lane_command_count> commands{};
};

// What was received for the segment, and what a device is given of it, begins here.
inline const char* input_of(const LaneSegment& segment, const Asker& asker) noexcept {
  if (TD_LIKELY(segment.frame == nullptr)) return segment.begin;
  return TD_UNLIKELY(asker.is_raw) ? segment.frame - ethernet::header_bytes : segment.frame;
}

struct Intake {
  // Its input arena, and the keys that devices search for; none: they have the input, or nothing.
  Batch* batch = nullptr;
  // Input that waits for its answers, and whose it is. Where a device begins with input, all is in the arena, in this
  // order.
  std::vector<LaneSegment> segments;
  std::vector<Asker> askers;
  std::vector<Asker> whole;   // whose segments a device has answered whole; they are in the others no more
  std::vector<LaneRow> rows;  // answered commands that are not plain; the number is that of the segment's asker
  std::uint64_t queries = 0;  // answered
  std::uint64_t bytes = 0;    // of requests, in flight
  std::uint64_t begin = 0;    // ticks
  std::uint64_t since = 0;    // begin of the pass in which its first input was received
  std::uint64_t oldest_receipt = UINT64_MAX;  // of input that had to wait for its turn
  bool has_raw = false;
  bool sampled = false;  // its commands' latencies are recorded
  bool hot = false;      // the host has answered it by hot keys alone, as devices have the index

  bool empty() const noexcept { return segments.empty(); }
  void clear() noexcept {
    segments.clear();
    askers.clear();
    if (TD_UNLIKELY(!whole.empty())) whole.clear();
    if (TD_UNLIKELY(!rows.empty())) rows.clear();
    queries = 0;
    has_raw = false;
  }
  // All that was received until now is answered.
  void restart_clock(std::uint64_t now) noexcept {
    begin = now;
    oldest_receipt = UINT64_MAX;
  }
  std::uint64_t ticks_until(std::uint64_t now) const noexcept { return now - std::min(begin, oldest_receipt); }
};

}  // namespace tandem
