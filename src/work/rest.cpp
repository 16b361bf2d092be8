// What the lane has left of the segments: commands that are executed alone, and large values.
#include <cstring>
#include <span>
#include <utility>

#include "codec/udp.hpp"
#include "work/work.hpp"

namespace tandem {

void Work::finish_segment(std::size_t number) {
  LaneSegment& segment = in_.segments[number];
  Asker& asker = in_.askers[number];
  if (TD_UNLIKELY(asker.frame != nullptr)) {
    if (TD_UNLIKELY(!segment.is_answered())) go_on(number);
    return;
  }
  if (TD_UNLIKELY(!segment.is_answered() || asker.fills)) go_on(number);
  sink_.ended(asker, segment, in_.since);
}

bool Work::goes_on(const LaneSegment& segment, const Asker& asker) const noexcept {
  if (segment.incomplete || segment.turn_ended || asker.stop != ParseStop::need_more) return false;
  if (asker.frame != nullptr) return segment.rest != segment.end && !asker.is_over;
  return (segment.rest != segment.end || asker.fills) && sink_.is_open(asker);
}

// Answers the rest of a segment, as far as it can be answered now: the command there alone, and what the lane takes
// behind it, in turn. Nothing of it is sent before, unless it is much.
void Work::go_on(std::size_t number) {
  LaneSegment& segment = in_.segments[number];
  Asker& asker = in_.askers[number];
  if (asker.frame == nullptr) sink_.restart_time();
  segment.turn_begin = 0;  // the others' time before is not its own
  bool acts = true;
  while (goes_on(segment, asker)) {
    if (acts) {
      if (!act(number)) break;
      acts = false;
    } else {
      run_one(number);
      acts = segment.stopped || segment.left || segment.rest == segment.begin;
    }
    if (asker.frame != nullptr ||
        output_.size() + static_cast<std::size_t>(output_.external_bytes()) >= output_flush_bytes)
      send_rest(segment, asker);
  }
  if (!output_.empty()) send_rest(segment, asker);
}

// The output is the segment's alone.
void Work::send_rest(const LaneSegment& segment, Asker& asker) {
  const Meter::Timed timed(meter_, Task::send);
  if (TD_LIKELY(asker.frame == nullptr)) {
    sink_.send(asker, {&output_, 0, output_.size(), 0, output_.externals().size()}, false);
    output_.clear();
    if (TD_UNLIKELY(meter_.sampled())) asker.sent_at = cycles_now();
    return;
  }
  if (std::exchange(has_messages_, false)) sink_.flush();
  if (open_ == &segment && goes_on(segment, asker)) return;
  if (open_ == &segment) drop_open_message();
  output_.clear();
}

// The lane, over one segment.
void Work::run_one(std::size_t number) {
  LaneSegment& segment = in_.segments[number];
  segment.resume();
  if (segment.stopped) return;
  const std::span<LaneSegment> one(&segment, 1);
  const bool is_asked = TD_UNLIKELY(context_.shared.placement.wants_search()) && lane_.ask(one);
  if (TD_UNLIKELY(!lane_.may_run())) {
    segment.stopped = true;
    return;
  }
  asked_ = number;
  const std::size_t done = run_lane(one);
  if (TD_UNLIKELY(is_asked)) lane_.end_asking();
  note_rows(number);
  Ended ended;
  Asker& asker = in_.askers[number];
  count(segment, asker, ended);
  add(ended);
  if (asker.frame != nullptr) end_datagram(segment, asker, done == 0);
}

// Executes the command at the segment's rest alone. False: the segment does not go on.
bool Work::act(std::size_t number) {
  return in_.askers[number].frame != nullptr ? act_for_datagram(number) : act_for_stream(number);
}

bool Work::act_for_stream(std::size_t number) {
  LaneSegment& segment = in_.segments[number];
  Asker& asker = in_.askers[number];
  if (TD_UNLIKELY(asker.fills)) return finish_large(number);
  const std::uint64_t now = cycles_now(), waited = context_.waited_ticks;
  if (segment.turn_begin == 0) segment.turn_begin = now;
  // A control command may take as long as a hundred other requests: a few are a turn.
  if (now - segment.turn_begin > options_.turn_ticks || asker.controls >= options_.controls_per_turn) {
    segment.turn_ended = true;
    return false;
  }
  const ParseStop stop = take_and_execute(number);
  segment.turn_begin += context_.waited_ticks - waited;
  if (TD_UNLIKELY(stop == ParseStop::large_value)) {
    if (sink_.begin_large(asker, segment)) return finish_large(number);
    segment.parser->refuse_large(lane_.taken());
    execute(number);
    return true;
  }
  return stop == ParseStop::batch_full || stop == ParseStop::need_more;
}

// The same of a datagram: the command's reply is a message.
bool Work::act_for_datagram(std::size_t number) {
  LaneSegment& segment = in_.segments[number];
  Asker& asker = in_.askers[number];
  if (open_ != &segment) {
    if (TD_UNLIKELY(!sink_.may_begin(asker))) return false;
    segment.forget_replies(output_);
    std::memcpy(output_.reserve(udp_frame_bytes), segment.frame, udp_frame_bytes);
    output_.commit(udp_frame_bytes);
    segment.output_end = output_.size();
  }
  open_ = nullptr;
  const std::uint32_t executed = asker.executed;
  const ParseStop stop = take_and_execute(number);
  const OutputRange range = range_of(segment, output_);
  if (TD_UNLIKELY(is_within_line(segment) && !segment.incomplete)) {
    if (sink_.may_grow(asker, range)) open_ = &segment;
  } else {
    send_message(asker, range);
  }
  if (stop == ParseStop::batch_full || (stop == ParseStop::need_more && asker.executed != executed)) return true;
  asker.is_over = true;  // what stops its parser ends it
  return false;
}

// Of the command at the segment's rest, or a key of it.
ParseStop Work::take_and_execute(std::size_t number) {
  LaneSegment& segment = in_.segments[number];
  segment.stopped = segment.left = segment.incomplete = false;
  ParseStop stop;
  {
    const Meter::Timed timed(meter_, Task::parse);
    stop = lane_.take(segment);
  }
  if (lane_.has_taken()) {
    execute(number);
  } else {
    segment.incomplete = stop == ParseStop::need_more;
  }
  if (stop == ParseStop::close || stop == ParseStop::quit) in_.askers[number].stop = stop;
  return stop;
}

// What the lane has taken.
void Work::execute(std::size_t number) {
  LaneSegment& segment = in_.segments[number];
  Asker& asker = in_.askers[number];
  const Query& query = lane_.taken().query(0);
  const std::uint64_t metas = query.has(option::meta) ? 1 : 0;
  if (auto* const keys = meter_.keys_of(in_); TD_UNLIKELY(keys != nullptr) && query.operation().is_access &&
                                              query.key >= segment.begin && query.key < segment.end) {
    keys->offer(query.key_view());
    meter_.record_keys();
  }
  ++asker.executed;
  if (TD_UNLIKELY(query.opcode == Opcode::control)) {
    sink_.control(asker, query);
    segment.output_end = output_.size();
    in_.rows.push_back({static_cast<std::uint32_t>(number), query.opcode, query.mode, query.options, false});
    ++asker.controls;
    lane_.taken().clear();
  } else {
    lane_.execute_taken(segment, output_);
    note_rows(number);
  }
  add({.queries = 1, .metas = metas});
}

// False: the value and its line end have not arrived.
bool Work::finish_large(std::size_t number) {
  LaneSegment& segment = in_.segments[number];
  const std::optional<Sink::Filled> filled = sink_.finish_large(in_.askers[number], segment);
  if (!filled) {
    segment.incomplete = true;
    return false;
  }
  segment.stopped = segment.left = segment.incomplete = false;
  lane_.taken().clear();
  segment.parser->finish_large(lane_.taken(), filled->location, filled->ok);
  execute(number);
  return true;
}

}  // namespace tandem
