// Answers what waits in an intake by the lane, with what a device has told of it.
#include <algorithm>
#include <span>

#include "base/platform.hpp"
#include "codec/ethernet.hpp"
#include "codec/udp.hpp"
#include "work/work.hpp"

namespace tandem {

// Has the lane run, and records sampled keys while their bytes are there. Returns how many segments are done.
TD_INLINE std::size_t Work::run_lane(std::span<LaneSegment> segments) {
  // A message that is not whole stays until it is.
  const std::size_t full_bytes =
      output_.size() + static_cast<std::size_t>(output_.external_bytes()) + output_flush_bytes;
  open_ = nullptr;
  const std::size_t done = lane_.run(segments, output_, full_bytes, meter_.sampled(), meter_.keys_of(in_));
  meter_.record_keys();
  return done;
}

TD_INLINE void Work::count(const LaneSegment& segment, Asker& asker, Ended& ended) noexcept {
  ended.queries += segment.queries + segment.rows;
  ended.metas += segment.row_metas;
  for (const LaneCommand meta : {LaneCommand::meta_read, LaneCommand::meta_read_key, LaneCommand::meta_store})
    ended.metas += segment.commands[static_cast<std::size_t>(meta)];
  for (std::size_t command = 0; command < lane_command_count; ++command)
    asker.commands[command] += segment.commands[command];
}

// Its last message is whole, unless keys of its command are left.
void Work::end_datagram(const LaneSegment& segment, Asker& asker, bool is_cut) {
  asker.executed += segment.queries;
  if (TD_UNLIKELY(!segment.has_replies() || asker.is_over)) return;
  const OutputRange range = range_of(segment, output_);
  if (TD_LIKELY(!is_within_line(segment))) {
    send_message(asker, range);
  } else if (is_cut) {
    if (sink_.may_grow(asker, range)) open_ = &segment;
  } else {
    sink_.drop_message(asker, range);  // there is no memory for a row
  }
}

// Counts what the run has answered of the segment, and sends its replies. is_cut: the run has ended in it; is_done:
// behind it.
TD_INLINE void Work::end_segment(const LaneSegment& segment, Asker& asker, bool is_cut, bool is_done, Ended& ended) {
  count(segment, asker, ended);
  if (TD_UNLIKELY(asker.frame != nullptr)) return end_datagram(segment, asker, is_cut);
  const bool ends = TD_LIKELY(is_done) && !asker.is_over && segment.is_answered() && !segment.within_command &&
                    segment.parser->begins_command();
  if (!ends && !segment.has_replies()) return;
  asker.is_over = asker.is_over || ends;
  const Meter::Timed timed(meter_, Task::send);
  sink_.send(asker, range_of(segment, output_), ends);
  if (TD_UNLIKELY(meter_.sampled())) asker.sent_at = cycles_now();
}

// The rows of the last run, which began with segment `first`.
void Work::note_rows(std::size_t first) {
  for (LaneRow row : lane_.rows()) {
    row.segment += static_cast<std::uint32_t>(first);
    in_.rows.push_back(row);
  }
}

// Has the lane run over the segments from this one on, and sends their replies. Returns how many are done.
TD_INLINE std::size_t Work::run_from(std::size_t first) {
  const std::span<LaneSegment> left = std::span(in_.segments).subspan(first);
  const std::size_t done = run_lane(left);
  if (TD_UNLIKELY(!lane_.rows().empty())) note_rows(first);
  Ended ended;
  for (std::size_t i = 0; i < left.size(); ++i) end_segment(left[i], in_.askers[first + i], i == done, i < done, ended);
  add(ended);
  if (TD_UNLIKELY(has_messages_)) flush();
  if (TD_LIKELY(open_ == nullptr)) output_.clear();
  return done;
}

// What a device has told of the intake, as long as the epoch lasts that protects it.
TD_NOINLINE void Work::take_answers() noexcept {
  const Batch& batch = *in_.batch;
  if (TD_UNLIKELY(batch.size() != 0)) return lane_.set_found(&batch);
  if (TD_UNLIKELY(rows_only_)) return lane_.set_answers(nullptr, nullptr);
  lane_.set_answers(runner_->runs(), runner_->located());
}

// Has the lane run over all segments, as long as may_run() says so.
template <class MayRun>
TD_INLINE void Work::run_while(MayRun may_run) {
  const std::size_t count = in_.segments.size();
  asked_ = 0;
  for (std::size_t first = 0; first < count && may_run();) {
    const std::size_t done = run_from(first);
    if (TD_LIKELY(done == count - first)) return;
    first = resume_at(first + done, done != 0);
  }
}

void Work::run_while_it_may() {
  run_while([this] { return lane_.may_run(); });
}

TD_INLINE void Work::run_all() {
  run_while([this] {
    if (TD_LIKELY(!runner_->has_devices())) return true;
    take_answers();
    return lane_.may_run();  // or the device has no answers any more
  });
}

void Work::answer() {
  if (TD_LIKELY(!in_.empty())) {
    open_ = nullptr;
    if (TD_UNLIKELY(in_.has_raw)) open_raw();
    lane_.set_rows_only(rows_only_);
    run_all();
    if (TD_UNLIKELY(runner_->has_devices())) end_answers();
    if (TD_UNLIKELY(context_.shared.placement.wants_search())) run_asked();
    if (TD_UNLIKELY(open_ != nullptr)) drop_open_message();
    for (std::size_t i = 0; i < in_.segments.size(); ++i) {
      if (TD_UNLIKELY(!in_.askers[i].is_over)) finish_segment(i);
    }
  } else {
    runner_->end_answers();
    if (in_.whole.empty()) return;
  }
  sink_.answered_all(in_);
  in_.clear();
  if (TD_UNLIKELY(in_.batch->size() != 0)) in_.batch->clear();
}

void Work::end_answers() noexcept {
  lane_.set_answers(nullptr, nullptr);
  runner_->end_answers();
  runner_->relieve();
}

// Verifies the headers of raw frames, as the kernel does for a socket. One with a fault gets no answer.
TD_NOINLINE void Work::open_raw() noexcept {
  in_.has_raw = false;
  for (std::size_t i = 0; i < in_.segments.size(); ++i) {
    if (!in_.askers[i].is_raw) continue;
    LaneSegment& s = in_.segments[i];
    const char* const begin = s.frame - ethernet::header_bytes;
    const ethernet::Udp udp = ethernet::read_frame(begin, static_cast<std::uint32_t>(s.end - begin));
    UdpFrame frame{};
    const bool is_good = udp.fault == ethernet::Fault::none && read_udp_frame(s.frame, udp.payload_bytes, frame);
    s.end = is_good ? s.frame + udp.payload_bytes : s.begin;
    in_.askers[i].is_over = !is_good;
  }
}

// The next runs do nothing for it.
void Work::pass_over(LaneSegment& segment) noexcept {
  segment.begin = segment.rest;
  segment.stopped = segment.rest != segment.end || segment.stopped;
  segment.forget_replies(output_);
  segment.queries = segment.rows = segment.row_metas = 0;
  segment.commands = {};
}

// Whether nothing but the place of its next key is missing: also of what a run over located keys has passed over.
bool Work::waits_for_search(std::size_t number) const noexcept {
  const LaneSegment& segment = in_.segments[number];
  const Asker& asker = in_.askers[number];
  if (segment.left || asker.fills || segment.parser->speaks() == Parser::Speaks::neither) return false;
  const bool is_passed = (segment.binary || segment.frame != nullptr) && segment.rest == segment.begin;
  return (!segment.stopped || is_passed) && goes_on(segment, asker);
}

// Devices alone have the index: they are asked for what they have not been told of, and waited for, piece by piece.
void Work::run_asked() {
  for (;;) {
    bool any = false;
    for (std::size_t i = 0; i < in_.segments.size(); ++i) {
      LaneSegment& segment = in_.segments[i];
      if (waits_for_search(i)) {
        segment.resume();
        any = true;
      } else {
        pass_over(segment);
      }
    }
    if (!any || !lane_.ask(in_.segments)) return;
    const auto before = executed();
    run_while_it_may();
    lane_.end_asking();
    if (executed() == before) return;
  }
}

// The output was full at this segment. If its owner takes no replies now, its stream waits; the rest continue.
// has_ended: the run has ended segments before it. Returns the first segment to offer again.
std::size_t Work::resume_at(std::size_t first, bool has_ended) {
  const std::span<LaneSegment> all(in_.segments);
  if (!has_ended && all[first].rest == all[first].begin) return all.size();  // the lane is closed now
  for (LaneSegment& segment : all.subspan(first)) {
    if (TD_UNLIKELY(segment.stopped) && segment.rest == segment.begin) {
      pass_over(segment);
    } else {
      segment.resume();
    }
  }
  if (first == all.size()) return first;
  Asker& asker = in_.askers[first];
  if (TD_UNLIKELY(asker.frame != nullptr)) {
    if (open_ != nullptr) return first;
    return pass_followers(sink_.may_begin(asker) ? first : first + 1);
  }
  return sink_.is_open(asker) ? first : first + 1;
}

// The first one from `first` on that is not behind a datagram that has a rest.
std::size_t Work::pass_followers(std::size_t first) const noexcept {
  const auto has_rest = [&](std::size_t i) { return !in_.segments[i].is_answered() && !in_.askers[i].is_over; };
  while (first < in_.segments.size() && in_.segments[first].follows && has_rest(first - 1)) ++first;
  return first;
}

// The lane is closed before it was whole.
void Work::drop_open_message() {
  sink_.drop_message(in_.askers[static_cast<std::size_t>(open_ - in_.segments.data())], range_of(*open_, output_));
  output_.clear();
  open_ = nullptr;
}

bool Work::before_row(LaneSegment& segment, bool begins) {
  const std::span<const LaneSegment> all(in_.segments);
  const auto number = static_cast<std::size_t>(&segment - all.data());
  for (; TD_UNLIKELY(asked_ != number); ++asked_) {
    if (all[asked_].frame == nullptr) sink_.restart_time();
  }
  Asker& asker = in_.askers[number];
  const OutputRange range = range_of(segment, output_);
  bool goes_on = true;
  if (begins) {
    send_message(asker, range);
    goes_on = sink_.may_begin(asker);
  } else {
    goes_on = sink_.may_grow(asker, range);
  }
  ++asker.executed;
  if (TD_UNLIKELY(!goes_on)) segment.forget_replies(output_);
  return goes_on;
}

void Work::answered(const LaneSegment& segment, const Query& query, const Result& result) {
  sink_.answered(in_.askers[static_cast<std::size_t>(&segment - in_.segments.data())], query, result);
}

}  // namespace tandem
