#include "net/frame_stage.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "codec/scan.hpp"
#include "codec/udp.hpp"

namespace tandem::net {

void FrameStage::begin_pass() noexcept {
  is_open_ = takes_datagrams_ = takes_queries_ = false;
  if (TD_LIKELY(!worker_.runner->has_devices())) return;
  const Plan& plan = worker_.planner.plan_for(UINT32_MAX);
  is_open_ = begins_with_input(plan) && worker_.runner->frames_to_fill(plan) != nullptr;
  takes_datagrams_ = is_open_ && plan == plan_frames;
  takes_queries_ = !is_open_ && worker_.runner->can_begin(plan);
}

void FrameStage::wait(UdpPort& port, unsigned number, std::uint16_t request_id) {
  const UdpPort::Datagram datagram = port.datagram(number);
  InputArena& input = batches_.input();
  char* const to = input.room();
  std::memcpy(to, datagram.data, datagram.bytes);
  input.take(datagram.bytes);
  batches_.in().datagrams.push_back({to, to + datagram.bytes, {&port, number, request_id}});
}

namespace {

// Of at most 2,040 bytes.
std::uint32_t count_line_ends(const char* p, const char* end) noexcept {
  constexpr std::uint64_t line_ends = 0x0a0a0a0a0a0a0a0a, low_7 = 0x7f7f7f7f7f7f7f7f, ones = 0x0101010101010101;
  std::uint64_t counts = 0;  // a byte each
  for (; end - p >= 8; p += 8) {
    const std::uint64_t differs = codec::load<std::uint64_t>(p) ^ line_ends;
    counts += ~(((differs & low_7) + low_7) | differs | low_7) >> 7;
  }
  constexpr std::uint64_t even = 0x00ff00ff00ff00ff;
  const std::uint64_t pairs = (counts & even) + (counts >> 8 & even);
  auto count = static_cast<std::uint32_t>(pairs * (ones & even) >> 48);
  for (; p != end; ++p) count += *p == '\n' ? 1u : 0u;
  return count;
}

}  // namespace

// The plan for as many requests as wait. Lines of values count, too, and a datagram is one. Counts no further than the
// plan takes.
const Plan& FrameStage::plan_of_waiting() noexcept {
  constexpr std::ptrdiff_t counted_bytes = 255 * 8;
  const Intake& in = batches_.in();
  std::uint64_t most = in.datagrams.size();
  for (const LaneSegment& s : in.segments) {
    if (!s.binary) most += static_cast<std::uint64_t>(s.end - s.begin) / frame_line_bytes_min + 1;
  }
  const auto plan_for = [&](std::uint64_t requests) -> const Plan& {
    return worker_.planner.plan_for(static_cast<std::uint32_t>(std::min<std::uint64_t>(requests, UINT32_MAX)));
  };
  if (most == 0 || !begins_with_input(plan_for(most))) return plan_cpu;
  std::uint64_t lines = std::max<std::uint64_t>(in.datagrams.size(), 1);
  for (const LaneSegment& s : in.segments) {
    for (const char* p = s.begin; !s.binary && p != s.end;) {
      if (const Plan& plan = plan_for(lines); begins_with_input(plan)) return plan;
      const char* const end = s.end - p > counted_bytes ? p + counted_bytes : s.end;
      lines += count_line_ends(p, end);
      p = end;
    }
  }
  return plan_for(lines);
}

// Calls stream(i) for each segment and datagram(d) for each datagram that waits, in the order of the arena.
template <class OfStream, class OfDatagram>
void FrameStage::for_each_asked(OfStream stream, OfDatagram datagram) {
  Intake& in = batches_.in();
  auto next = in.datagrams.begin();
  for (std::size_t i = 0; i < in.segments.size(); ++i) {
    for (; next != in.datagrams.end() && next->begin < in.segments[i].begin; ++next) datagram(*next);
    stream(i);
  }
  for (; next != in.datagrams.end(); ++next) datagram(*next);
}

bool FrameStage::fill(FrameColumns& frames) {
  const InputArena& input = batches_.input();
  frames.clear();
  for_each_asked(
      [&](std::size_t i) {
        const LaneSegment& s = batches_.in().segments[i];
        if (s.binary) return;
        static_cast<void>(frames.add_stream(input.offset_of(s.begin), static_cast<std::uint64_t>(s.end - s.begin)));
      },
      [&](const FrameDatagram& d) {
        static_cast<void>(frames.add_datagram(input.offset_of(d.begin), static_cast<std::uint64_t>(d.end - d.begin)));
      });
  return !frames.empty();
}

void FrameStage::take_replies() {
  Intake& in = batches_.in();
  joined_.clear();
  whole_.clear();
  in.parts.clear();
  if (worker_.runner->begin_located()) return;
  if (worker_.runner->begin_frames()) {
    lane_.divider().begin(batches_.input());
    for_each_asked([&](std::size_t i) { take_stream(i); }, [&](FrameDatagram& d) { take_datagram(d); });
  }
  worker_.runner->end_frames();
}

// The usual case: all of a stream is one run.
bool FrameStage::take_whole(std::size_t i) {
  const InputArena& input = batches_.input();
  const LaneSegment& segment = batches_.in().segments[i];
  FrameRun run;
  if (!worker_.runner->take_whole_frames(input.offset_of(segment.begin), input.offset_of(segment.end), run))
    return false;
  whole_.push_back({i, run});
  if (auto* const keys = worker_.meter.keys_of(batches_.in()); TD_UNLIKELY(keys != nullptr))
    sample_keys(segment.begin, segment.end, *keys);
  return true;
}

void FrameStage::take_stream(std::size_t i) {
  Intake& in = batches_.in();
  const LaneSegment& segment = in.segments[i];
  if (segment.binary || TD_LIKELY(take_whole(i))) return;
  LaneWait& wait = in.waits[i];
  wait.first_part = in.parts.size();
  lane_.divider().divide(segment.begin, segment.end, in.parts);
  wait.parts = in.parts.size() - wait.first_part;
  wait.stream_end = segment.end;
  auto* const keys = worker_.meter.keys_of(in);
  if (TD_LIKELY(keys == nullptr)) return;
  const char* answered = segment.begin;
  for (const StreamPart& part : std::span(in.parts).subspan(wait.first_part)) {
    sample_keys(answered, part.begin, *keys);
    answered = part.end;
  }
}

void FrameStage::take_datagram(FrameDatagram& datagram) {
  const InputArena& input = batches_.input();
  datagram.output_begin = datagram.output_end = joined_.size();
  FrameRun run;
  if (!worker_.runner->take_frames(input.offset_of(datagram.begin), input.offset_of(datagram.end), run)) return;
  joined_.append(worker_.runner->reply(run), run.reply_bytes);
  datagram.output_end = joined_.size();
  lane_.count(FrameCounts::of(run), nullptr);
  if (auto* const keys = worker_.meter.keys_of(batches_.in()); TD_UNLIKELY(keys != nullptr))
    sample_keys(datagram.begin + udp_frame_bytes, datagram.begin + run.bytes, *keys);
}

// The first key of each line of some answered requests.
void FrameStage::sample_keys(const char* begin, const char* end, std::vector<std::string_view>& keys) {
  while (begin < end) {
    const auto* const space = static_cast<const char*>(std::memchr(begin, ' ', static_cast<std::size_t>(end - begin)));
    if (space == nullptr) return;
    const char* key_end = space + 1;
    while (key_end < end && static_cast<unsigned char>(*key_end) > ' ') ++key_end;
    keys.emplace_back(space + 1, static_cast<std::size_t>(key_end - space - 1));
    const auto* const line_end =
        static_cast<const char*>(std::memchr(key_end, '\n', static_cast<std::size_t>(end - key_end)));
    if (line_end == nullptr) return;
    begin = line_end + 1;
  }
}

void FrameStage::send_whole() {
  Intake& in = batches_.in();
  answered_.clear();
  segments_.clear();
  waits_.clear();
  auto next = whole_.begin();
  for (std::size_t i = 0; i < in.segments.size(); ++i) {
    LaneWait& wait = in.waits[i];
    if (TD_LIKELY(next != whole_.end() && next->segment == i)) {
      send_to(wait, FrameCounts::of(next->run), {worker_.runner->reply(next->run), next->run.reply_bytes});
      worker_.counters.device_streams.add();
      ++next;
      continue;
    }
    const auto parts = std::span(in.parts).subspan(wait.first_part, wait.parts);
    if (parts.empty() || parts[0].begin != parts[0].end) {
      keep_stream(i);
      continue;
    }
    send_to(wait, lane_.divider().finish(parts, {}).answered, lane_.divider().replies(parts[0]));
  }
  std::swap(in.segments, segments_);
  std::swap(in.waits, waits_);
  worker_.meter.record_lane(in, answered_);
  for (const LaneWait& wait : answered_) {
    Connection& c = *wait.connection;
    if (c.is_closed()) continue;
    if (TD_LIKELY(c.kept.size() == 0) || limits_.keep(c, nullptr, nullptr)) connections_.serve_again(c);
  }
}

void FrameStage::send_to(LaneWait& wait, const FrameCounts& answered, std::string_view replies) {
  lane_.count(answered, &wait);
  sender_.send(*wait.connection, replies, unsent_);
  answered_.push_back(wait);
}

// What the device has left of the stream waits for the lane.
void FrameStage::keep_stream(std::size_t i) {
  Intake& in = batches_.in();
  LaneWait& wait = in.waits[i];
  const std::size_t streams_left = in.segments.size() - i;
  if (TD_UNLIKELY(wait.parts != 0 && segments_.size() + wait.parts + streams_left > UINT16_MAX)) {
    // The lane takes no more segments: all behind the first answers is for it.
    StreamPart& first = in.parts[wait.first_part];
    first.end = wait.stream_end;
    wait.parts = 1;
  }
  if (wait.parts == 0) {
    segments_.push_back(in.segments[i]);
    waits_.push_back(wait);
    return;
  }
  const std::size_t first = segments_.size();
  lane_.divider().append_segments(std::span(in.parts).subspan(wait.first_part, wait.parts), segments_);
  waits_.push_back(wait);
  while (waits_.size() < segments_.size()) waits_.push_back({wait.connection, wait.waits_since});
  TD_ASSERT(segments_.size() > first);
}

void FrameStage::end_answer() noexcept {
  batches_.in().parts.clear();
  joined_.clear();
  if (TD_UNLIKELY(joined_.capacity() > output_bytes_kept)) joined_.release();
}

}  // namespace tandem::net
