#include "net/frame_stage.hpp"

#include <algorithm>
#include <cstring>

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
        if (s.binary || s.within_command) return;
        static_cast<void>(frames.add_stream(input.offset_of(s.begin), static_cast<std::uint64_t>(s.end - s.begin)));
      },
      [&](const FrameDatagram& d) {
        static_cast<void>(frames.add_datagram(input.offset_of(d.begin), static_cast<std::uint64_t>(d.end - d.begin)));
      });
  return !frames.empty();
}

void FrameStage::take_replies() {
  Runner& runner = *worker_.runner;
  replies_.clear();
  if (runner.begin_located()) return;
  if (!runner.begin_frames()) return runner.end_answers();
  send_whole_streams();
  std::vector<FrameDatagram>& datagrams = batches_.in().datagrams;
  if (FrameRuns* const runs = runner.runs(); runs != nullptr && !datagrams.empty()) runs->go_to(datagrams[0].begin);
  for (FrameDatagram& datagram : datagrams) take_datagram(datagram);
}

void FrameStage::send_whole_streams() {
  Intake& in = batches_.in();
  answered_.clear();
  std::size_t left = 0;
  for (std::size_t i = 0; i < in.segments.size(); ++i) {
    if (TD_LIKELY(send_whole(in.segments[i], in.waits[i]))) continue;
    in.segments[left] = in.segments[i];
    in.waits[left++] = in.waits[i];
  }
  in.segments.resize(left);
  in.waits.resize(left);
  worker_.meter.record_lane(in, answered_);
  for (const LaneWait& wait : answered_) {
    Connection& c = *wait.connection;
    if (c.is_closed()) continue;
    if (TD_LIKELY(c.kept.size() == 0) || limits_.keep(c, nullptr, nullptr)) connections_.serve_again(c);
  }
}

// The usual case: all of a stream is one run.
bool FrameStage::send_whole(const LaneSegment& segment, LaneWait& wait) {
  const InputArena& input = batches_.input();
  FrameRun run;
  if (segment.binary ||
      !worker_.runner->take_whole_frames(input.offset_of(segment.begin), input.offset_of(segment.end), run))
    return false;
  if (auto* const keys = worker_.meter.keys_of(batches_.in()); TD_UNLIKELY(keys != nullptr))
    append_first_keys(segment.begin, segment.end, *keys);
  lane_.count(run, &wait);
  worker_.counters.device_streams.add();
  sender_.send(*wait.connection, {worker_.runner->reply(run), run.reply_bytes});
  answered_.push_back(wait);
  return true;
}

void FrameStage::take_datagram(FrameDatagram& datagram) {
  const InputArena& input = batches_.input();
  datagram.output_begin = datagram.output_end = replies_.size();
  FrameRun run;
  if (!worker_.runner->take_frames(input.offset_of(datagram.begin), input.offset_of(datagram.end), run)) return;
  replies_.append(worker_.runner->reply(run), run.reply_bytes);
  datagram.output_end = replies_.size();
  lane_.count(run, nullptr);
  if (auto* const keys = worker_.meter.keys_of(batches_.in()); TD_UNLIKELY(keys != nullptr))
    append_first_keys(datagram.begin + udp_frame_bytes, datagram.begin + run.bytes, *keys);
}

void FrameStage::end_answer() noexcept {
  replies_.clear();
  if (TD_UNLIKELY(replies_.capacity() > output_bytes_kept)) replies_.release();
}

}  // namespace tandem::net
