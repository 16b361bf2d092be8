// What answers an input: the host, or a device before it. The only place that asks the planner about input.
#include <algorithm>
#include <utility>

#include "base/platform.hpp"
#include "codec/ethernet.hpp"
#include "codec/scan.hpp"
#include "codec/udp.hpp"
#include "work/work.hpp"

namespace tandem {

void Work::choose_for_pass() noexcept {
  asks_with_input_ = takes_datagrams_ = asks_with_keys_ = false;
  if (planner_.is_steered()) planner_.begin(cycles_now());
  const Plan& plan = planner_.plan_for(UINT32_MAX);
  asks_with_input_ = begins_with_input(plan) && !rows_only_ && runner_->frames_to_fill(plan) != nullptr;
  takes_datagrams_ = asks_with_input_ && plan == plan_frames;
  asks_with_keys_ = runner_->can_begin(plan) && (!begins_with_input(plan) || plan == plan_located_index ||
                                                 runner_->frames_to_fill(plan) == nullptr);
}

void Work::end_beside_device() {
  sink_.begin_run(cycles_now());
  if (TD_UNLIKELY(context_.shared.placement.hot() != nullptr)) answer_hot();
  if (!ask()) {
    if (options_.in_order) finish();
    answer_here();
  }
  if (!planner_.is_steered()) return;
  planner_.end(cycles_now(), Planner::work_of(context_.counters, bytes()), runner_->in_flight() != 0);
}

// Submits what waits, if devices begin with its plan.
bool Work::ask() {
  if (in_.empty()) return false;
  // No device begins with packets; where devices alone have the index, it is asked for the keys of all then.
  const bool has_others = asks_with_keys_ && std::ranges::any_of(in_.segments, [](const LaneSegment& s) {
                            return s.binary || s.frame != nullptr;
                          });
  if (asks_with_input_ && !has_others) return ask_with_input();
  return asks_with_keys_ && ask_with_keys();
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
const Plan& Work::plan_of_waiting() const noexcept {
  constexpr std::ptrdiff_t counted_bytes = 255 * 8;
  std::uint64_t most = 0, datagrams = 0;
  for (const LaneSegment& s : in_.segments) {
    if (TD_UNLIKELY(s.frame != nullptr)) {
      datagrams += takes_datagrams_ && !s.binary ? 1 : 0;
    } else if (!s.binary) {
      most += static_cast<std::uint64_t>(s.end - s.begin) / frame_line_bytes_min + 1;
    }
  }
  most += datagrams;
  const auto plan_for = [&](std::uint64_t requests) -> const Plan& {
    return planner_.plan_for(static_cast<std::uint32_t>(std::min<std::uint64_t>(requests, UINT32_MAX)));
  };
  if (most == 0 || !begins_with_input(plan_for(most))) return plan_cpu;
  std::uint64_t lines = std::max<std::uint64_t>(datagrams, 1);
  for (const LaneSegment& s : in_.segments) {
    for (const char* p = s.begin; !s.binary && s.frame == nullptr && p != s.end;) {
      if (const Plan& plan = plan_for(lines); begins_with_input(plan)) return plan;
      const char* const end = s.end - p > counted_bytes ? p + counted_bytes : s.end;
      lines += count_line_ends(p, end);
      p = end;
    }
  }
  return plan_for(lines);
}

// Puts what waits into the device's columns. False: there is nothing for the device.
bool Work::fill(FrameColumns& frames) const {
  const InputArena& input = in_.batch->input();
  frames.clear();
  for (std::size_t i = 0; i < in_.segments.size(); ++i) {
    const LaneSegment& s = in_.segments[i];
    if (s.binary || s.within_command || s.stopped) continue;
    const auto place = [&](const char* from) {
      return std::pair(input.offset_of(from), static_cast<std::uint64_t>(s.end - from));
    };
    if (TD_LIKELY(s.frame == nullptr)) {
      const auto [at, bytes] = place(s.begin);
      static_cast<void>(frames.add_stream(at, bytes));
    } else if (takes_datagrams_) {
      const auto [at, bytes] = place(input_of(s, in_.askers[i]));
      static_cast<void>(in_.askers[i].is_raw ? frames.add_frame(at, bytes) : frames.add_datagram(at, bytes));
    }
  }
  return !frames.empty();
}

// Sends replies to datagrams, and to streams that one run answers, from where they lie: the usual case. The rest waits
// for the lane, which has the device's answers to streams.
void Work::send_whole_answers() {
  Ended ended;
  std::size_t left = 0;
  for (std::size_t i = 0; i < in_.segments.size(); ++i) {
    const LaneSegment& s = in_.segments[i];
    Asker& asker = in_.askers[i];
    FrameRun run;
    if (!take_whole(s, asker, run)) {
      in_.segments[left] = s;
      in_.askers[left++] = asker;
      continue;
    }
    const char* const begin = input_of(s, asker);
    if (auto* const keys = meter_.keys_of(in_); TD_UNLIKELY(keys != nullptr))
      offer_first_keys(s.begin, s.frame == nullptr ? s.end : begin + run.bytes, *keys);
    ended.queries += run.keys;
    ended.metas += run.metas;
    asker.commands[static_cast<std::size_t>(LaneCommand::get)] += std::uint32_t{run.requests} - run.metas;
    asker.commands[static_cast<std::size_t>(LaneCommand::meta_read)] += run.metas;
    in_.whole.push_back(asker);
    // One run answers neighbouring raw frames.
    if (TD_UNLIKELY(asker.is_raw)) {
      while (i + 1 < in_.segments.size() && in_.segments[i + 1].begin < begin + run.bytes) ++i;
    }
    const Meter::Timed timed(meter_, Task::send);
    has_messages_ = has_messages_ || asker.frame != nullptr;
    sink_.send_whole(in_.whole.back(), {runner_->reply(run), run.reply_bytes});
  }
  const std::uint64_t sent_at = cycles_now();
  for (Asker& asker : in_.whole) asker.sent_at = sent_at;
  in_.segments.resize(left);
  in_.askers.resize(left);
  meter_.record_keys();  // all of them are in the arena
  add(ended);
  if (has_messages_) flush();
  output_.clear();
}

bool Work::take_whole(const LaneSegment& s, const Asker& asker, FrameRun& run) {
  const InputArena& input = in_.batch->input();
  if (TD_UNLIKELY(s.binary || s.stopped)) return false;
  const std::uint64_t begin = input.offset_of(input_of(s, asker)), end = input.offset_of(s.end);
  return TD_LIKELY(s.frame == nullptr) ? runner_->take_whole_frames(begin, end, run)
                                       : runner_->take_frames(begin, end, run);
}

}  // namespace tandem
