#include "net/frame_stage.hpp"

#include <algorithm>

#include "base/platform.hpp"
#include "codec/scan.hpp"
#include "codec/udp.hpp"

namespace tandem::net {

void FrameStage::begin_pass() noexcept {
  is_open_ = takes_datagrams_ = takes_keys_ = false;
  if (TD_LIKELY(!worker_.runner->has_devices())) return;
  if (worker_.planner.is_steered()) worker_.planner.begin(cycles_now());
  const Plan& plan = worker_.planner.plan_for(UINT32_MAX);
  is_open_ = begins_with_input(plan) && !lane_.tells_of_requests() && worker_.runner->frames_to_fill(plan) != nullptr;
  takes_datagrams_ = is_open_ && plan == plan_frames;
  takes_keys_ = worker_.runner->can_begin(plan) && (!begins_with_input(plan) || plan == plan_located_index ||
                                                    worker_.runner->frames_to_fill(plan) == nullptr);
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
  std::uint64_t most = 0, datagrams = 0;
  for (const LaneSegment& s : in.segments) {
    if (TD_UNLIKELY(s.frame != nullptr)) {
      datagrams += takes_datagrams_ && !s.binary ? 1 : 0;
    } else if (!s.binary) {
      most += static_cast<std::uint64_t>(s.end - s.begin) / frame_line_bytes_min + 1;
    }
  }
  most += datagrams;
  const auto plan_for = [&](std::uint64_t requests) -> const Plan& {
    return worker_.planner.plan_for(static_cast<std::uint32_t>(std::min<std::uint64_t>(requests, UINT32_MAX)));
  };
  if (most == 0 || !begins_with_input(plan_for(most))) return plan_cpu;
  std::uint64_t lines = std::max<std::uint64_t>(datagrams, 1);
  for (const LaneSegment& s : in.segments) {
    for (const char* p = s.begin; !s.binary && s.frame == nullptr && p != s.end;) {
      if (const Plan& plan = plan_for(lines); begins_with_input(plan)) return plan;
      const char* const end = s.end - p > counted_bytes ? p + counted_bytes : s.end;
      lines += count_line_ends(p, end);
      p = end;
    }
  }
  return plan_for(lines);
}

bool FrameStage::fill(FrameColumns& frames) {
  const InputArena& input = batches_.input();
  frames.clear();
  for (const LaneSegment& s : batches_.in().segments) {
    if (s.binary || s.within_command || s.stopped) continue;
    if (TD_LIKELY(s.frame == nullptr)) {
      static_cast<void>(frames.add_stream(input.offset_of(s.begin), static_cast<std::uint64_t>(s.end - s.begin)));
    } else if (takes_datagrams_) {
      static_cast<void>(frames.add_datagram(input.offset_of(s.frame), static_cast<std::uint64_t>(s.end - s.frame)));
    }
  }
  return !frames.empty();
}

void FrameStage::take_replies() {
  Runner& runner = *worker_.runner;
  if (runner.begin_located()) return;
  if (!runner.begin_frames()) return runner.end_answers();
  send_all_whole();
}

void FrameStage::send_all_whole() {
  Intake& in = batches_.in();
  answered_.clear();
  std::size_t left = 0;
  for (std::size_t i = 0; i < in.segments.size(); ++i) {
    const bool is_stream = TD_LIKELY(in.segments[i].frame == nullptr);
    if (is_stream ? send_whole(in.segments[i], in.waits[i]) : send_datagram(in.segments[i], in.waits[i])) continue;
    in.segments[left] = in.segments[i];
    in.waits[left++] = in.waits[i];
  }
  worker_.meter.record_keys();  // all of them are in the arena
  in.segments.resize(left);
  in.waits.resize(left);
  if (!responder_.messages().empty()) {
    const Meter::Timed timed(worker_.meter, Task::send);
    responder_.messages().send();
  }
  responder_.output().clear();
  worker_.meter.record_lane(in, answered_);
  for (const LaneWait& wait : answered_) {
    if (TD_UNLIKELY(wait.connection == nullptr)) continue;
    Connection& c = *wait.connection;
    if (c.is_closed()) continue;
    if (TD_LIKELY(c.kept.size() == 0) || limits_.keep(c, nullptr, nullptr)) connections_.serve_again(c);
  }
}

// The usual case: all of a stream is one run.
bool FrameStage::send_whole(const LaneSegment& segment, LaneWait& wait) {
  const InputArena& input = batches_.input();
  FrameRun run;
  if (segment.binary || segment.stopped ||
      !worker_.runner->take_whole_frames(input.offset_of(segment.begin), input.offset_of(segment.end), run))
    return false;
  sample_keys(segment.begin, segment.end);
  lane_.count(run, wait);
  worker_.counters.device_streams.add();
  sender_.send(*wait.connection, {worker_.runner->reply(run), run.reply_bytes});
  answered_.push_back(wait);
  return true;
}

bool FrameStage::send_datagram(const LaneSegment& segment, LaneWait& wait) {
  const InputArena& input = batches_.input();
  FrameRun run;
  if (segment.binary || !worker_.runner->take_frames(input.offset_of(segment.frame), input.offset_of(segment.end), run))
    return false;
  responder_.messages().add(wait.datagram->reply, {worker_.runner->reply(run), run.reply_bytes});
  lane_.count(run, wait);
  sample_keys(segment.begin, segment.frame + run.bytes);
  answered_.push_back(wait);
  return true;
}

void FrameStage::sample_keys(const char* begin, const char* end) {
  if (auto* const keys = worker_.meter.keys_of(batches_.in()); TD_UNLIKELY(keys != nullptr))
    offer_first_keys(begin, end, *keys);
}

}  // namespace tandem::net
