#include "net/lane_stage.hpp"

#include <algorithm>
#include <span>

#include "net/lane_ranges.hpp"
#include "net/log.hpp"

namespace tandem::net {

LaneStage::LaneStage(WorkerState& worker, Connections& connections, ConnectionLimits& limits, Sender& sender,
                     Responder& responder, Batches& batches)
    : worker_(worker),
      connections_(connections),
      limits_(limits),
      sender_(sender),
      responder_(responder),
      batches_(batches),
      lane_(*worker.context, worker.server.protocol) {
  lane_.set_turn(limits.turn_ticks());
  lane_.set_owner(this);
}

void LaneStage::wait(Connection& c, const char* begin, const char* end, std::uint64_t waits_since) {
  Intake& in = batches_.in();
  const bool fills = TD_UNLIKELY(c.fill != nullptr);
  if (TD_UNLIKELY(!c.parser.has_begun()) && begin != end && !fills) c.parser.begin(*begin);
  const Parser::Speaks speaks = c.parser.speaks();
  LaneSegment& segment = in.segments.emplace_back();
  segment.begin = segment.rest = begin;
  segment.end = end;
  segment.parser = &c.parser;
  segment.binary = speaks == Parser::Speaks::binary;
  segment.stopped = fills || TD_UNLIKELY(speaks == Parser::Speaks::neither);
  segment.within_command = !fills && !c.parser.begins_command(begin, end);
  if (TD_UNLIKELY(waits_since != 0)) {
    in.oldest_receipt = std::min(in.oldest_receipt, waits_since);
  } else if (TD_UNLIKELY(in.sampled)) {
    waits_since = cycles_now();
  }
  LaneWait& wait = in.waits.emplace_back();
  wait.connection = &c;
  wait.waits_since = waits_since;
}

void LaneStage::wait(UdpDatagram& datagram, const char* begin, const char* end) {
  const Parser::Speaks speaks = datagram.parser->speaks();
  Intake& in = batches_.in();
  const UdpDatagram* const before = in.waits.empty() ? nullptr : in.waits.back().datagram;
  LaneSegment& segment = in.segments.emplace_back();
  segment.begin = segment.rest = begin;
  segment.end = end;
  segment.parser = &*datagram.parser;
  // Behind one of which a command is executed alone they are executed in the order of their receipt.
  segment.follows = before != nullptr && before->reply.port == datagram.reply.port;
  segment.binary = speaks == Parser::Speaks::binary;
  segment.stopped = TD_UNLIKELY(speaks == Parser::Speaks::neither);
  segment.frame = begin - udp_frame_bytes;
  LaneWait& wait = in.waits.emplace_back();
  wait.datagram = &datagram;
  if (TD_UNLIKELY(in.sampled)) wait.waits_since = cycles_now();
}

// Its last message is whole, unless keys of its command are left.
void LaneStage::end_datagram(const LaneSegment& segment, UdpDatagram& datagram, bool is_cut) {
  Messages& messages = responder_.messages();
  datagram.executed += segment.queries;
  if (TD_UNLIKELY(!segment.has_replies() || datagram.is_over)) return;
  const OutputRange range = range_of(segment, responder_.output());
  if (TD_LIKELY(!is_within_line(segment))) {
    messages.end(datagram, range);
  } else if (is_cut) {
    if (messages.may_grow(datagram, range)) open_ = &segment;
  } else {
    messages.drop(datagram, range);  // there is no memory for a row
  }
}

// Counts what the run has answered of the segment, and sends its replies. is_cut: the run has ended in it.
TD_INLINE void LaneStage::end(const LaneSegment& segment, LaneWait& wait, bool is_cut, Ended& ended) {
  count(segment, wait, ended);
  if (TD_UNLIKELY(wait.datagram != nullptr)) return end_datagram(segment, *wait.datagram, is_cut);
  if (!segment.has_replies()) return;
  {
    const Meter::Timed timed(worker_.meter, Task::send);
    sender_.send(*wait.connection, range_of(segment, responder_.output()));
  }
  if (TD_UNLIKELY(worker_.meter.sampled())) wait.sent_at = cycles_now();
}

// The rows of the last run, which began with segment `first`.
void LaneStage::note_rows(std::size_t first) {
  for (LaneRow row : lane_.rows()) {
    row.segment += static_cast<std::uint32_t>(first);
    batches_.in().rows.push_back(row);
  }
}

// Has the lane run over the segments from this one on, and sends their replies. Returns how many are done.
TD_INLINE std::size_t LaneStage::run_from(std::size_t first) {
  Intake& in = batches_.in();
  const std::span<LaneSegment> left = std::span(in.segments).subspan(first);
  const std::size_t done = run_lane(left);
  if (TD_UNLIKELY(!lane_.rows().empty())) note_rows(first);
  Ended ended;
  for (std::size_t i = 0; i < left.size(); ++i) end(left[i], in.waits[first + i], i == done, ended);
  add(ended);
  if (TD_UNLIKELY(!responder_.messages().empty())) {
    const Meter::Timed timed(worker_.meter, Task::send);
    responder_.messages().send();
  }
  if (TD_LIKELY(open_ == nullptr)) responder_.output().clear();
  return done;
}

// What a device has told of the intake, as long as the epoch lasts that protects it.
TD_NOINLINE void LaneStage::take_answers() noexcept {
  Batch& batch = *batches_.in().batch;
  if (TD_UNLIKELY(batch.size() != 0)) return lane_.set_found(&batch);
  if (TD_UNLIKELY(tells_of_requests())) return lane_.set_answers(nullptr, nullptr);
  lane_.set_answers(worker_.runner->runs(), worker_.runner->located());
}

// Has the lane run over all segments.
TD_INLINE void LaneStage::run_all() {
  const std::size_t count = batches_.in().segments.size();
  asked_ = 0;
  for (std::size_t first = 0; first < count;) {
    if (TD_UNLIKELY(worker_.runner->has_devices())) {
      take_answers();
      if (!lane_.may_run()) return;  // or the device has no answers any more
    }
    const std::size_t done = run_from(first);
    if (TD_LIKELY(done == count - first)) return;
    first = resume_at(first + done, done != 0);
  }
}

void LaneStage::run() {
  Intake& in = batches_.in();
  if (in.empty()) return worker_.runner->end_answers();
  open_ = nullptr;
  lane_.set_rows_only(tells_of_requests());
  run_all();
  if (TD_UNLIKELY(worker_.runner->has_devices())) end_answers();
  if (TD_UNLIKELY(worker_.context->shared.placement.wants_search())) run_asked();
  if (TD_UNLIKELY(open_ != nullptr)) drop_open_message();
  for (std::size_t i = 0; i < in.segments.size(); ++i) finish(i);
  worker_.meter.record_lane(in, in.waits);
  in.segments.clear();
  in.waits.clear();
  in.rows.clear();
  if (TD_UNLIKELY(in.batch->size() != 0)) in.batch->clear();
}

void LaneStage::end_answers() noexcept {
  lane_.set_answers(nullptr, nullptr);
  worker_.runner->end_answers();
  worker_.runner->relieve();
}

// The next runs do nothing for it.
void LaneStage::pass_over(LaneSegment& segment) noexcept {
  segment.begin = segment.rest;
  segment.stopped = segment.rest != segment.end || segment.stopped;
  segment.forget_replies(responder_.output());
  segment.queries = segment.rows = segment.row_metas = 0;
  segment.commands = {};
}

// Whether nothing but the place of its next key is missing: also of what a run over located keys has passed over.
bool LaneStage::waits_for_search(std::size_t number) const noexcept {
  const LaneSegment& segment = batches_.in().segments[number];
  const LaneWait& wait = batches_.in().waits[number];
  if (segment.left || (wait.connection != nullptr && wait.connection->fill != nullptr)) return false;
  if (segment.parser->speaks() == Parser::Speaks::neither) return false;
  const bool is_passed = (segment.binary || segment.frame != nullptr) && segment.rest == segment.begin;
  return (!segment.stopped || is_passed) && goes_on(segment, wait);
}

// Devices alone have the index: they are asked for what they have not been told of, and waited for, piece by piece.
void LaneStage::run_asked() {
  Intake& in = batches_.in();
  for (;;) {
    bool any = false;
    for (std::size_t i = 0; i < in.segments.size(); ++i) {
      LaneSegment& segment = in.segments[i];
      if (waits_for_search(i)) {
        segment.resume();
        any = true;
      } else {
        pass_over(segment);
      }
    }
    if (!any || !lane_.ask(in.segments)) return;
    asked_ = 0;
    const auto before = executed();
    std::size_t first = 0;
    while (first < in.segments.size() && lane_.may_run()) {
      const std::size_t done = run_from(first);
      if (done == in.segments.size() - first) break;
      first = resume_at(first + done, done != 0);
    }
    lane_.end_asking();
    if (executed() == before) return;
  }
}

// The output was full at this segment. If its connection is blocked now, its stream waits; the rest continue.
// has_ended: the run has ended segments before it. Returns the first segment to offer again.
std::size_t LaneStage::resume_at(std::size_t first, bool has_ended) noexcept {
  const std::span<LaneSegment> all(batches_.in().segments);
  if (!has_ended && all[first].rest == all[first].begin) return all.size();  // the lane is closed now
  for (LaneSegment& segment : all.subspan(first)) {
    if (TD_UNLIKELY(segment.stopped) && segment.rest == segment.begin) {
      pass_over(segment);
    } else {
      segment.resume();
    }
  }
  if (first == all.size()) return first;
  const LaneWait& wait = batches_.in().waits[first];
  if (TD_UNLIKELY(wait.datagram != nullptr)) {
    if (open_ != nullptr) return first;
    return pass_followers(responder_.messages().may_begin(*wait.datagram) ? first : first + 1);
  }
  return wait.connection->is_blocked() || wait.connection->is_closed() ? first + 1 : first;
}

// The first one from `first` on that is not behind a datagram that has a rest.
std::size_t LaneStage::pass_followers(std::size_t first) const noexcept {
  const Intake& in = batches_.in();
  const auto has_rest = [&](std::size_t i) { return !in.segments[i].is_answered() && !in.waits[i].datagram->is_over; };
  while (first < in.segments.size() && in.segments[first].follows && has_rest(first - 1)) ++first;
  return first;
}

void LaneStage::count(const FrameRun& answered, LaneWait& wait) noexcept {
  worker_.meter.parsed(answered.keys);
  worker_.meter.answered(answered.keys);
  worker_.counters.cmd_meta.add(answered.metas);
  wait.commands[static_cast<std::size_t>(LaneCommand::get)] += std::uint32_t{answered.requests} - answered.metas;
  wait.commands[static_cast<std::size_t>(LaneCommand::meta_read)] += answered.metas;
}

// The lane is closed before it was whole.
void LaneStage::drop_open_message() {
  Intake& in = batches_.in();
  Output& output = responder_.output();
  UdpDatagram& datagram = *in.waits[static_cast<std::size_t>(open_ - in.segments.data())].datagram;
  responder_.messages().drop(datagram, range_of(*open_, output));
  output.clear();
  open_ = nullptr;
}

bool LaneStage::before_row(LaneSegment& segment, bool begins) {
  Messages& messages = responder_.messages();
  const std::span<const LaneSegment> all(batches_.in().segments);
  const auto number = static_cast<std::size_t>(&segment - all.data());
  for (; TD_UNLIKELY(asked_ != number); ++asked_) {
    if (all[asked_].frame == nullptr) messages.restart_time();
  }
  UdpDatagram& datagram = *batches_.in().waits[number].datagram;
  const OutputRange range = range_of(segment, responder_.output());
  bool goes_on = true;
  if (begins) {
    messages.end(datagram, range);
    goes_on = messages.may_begin(datagram);
  } else {
    goes_on = messages.may_grow(datagram, range);
  }
  ++datagram.executed;
  if (TD_UNLIKELY(!goes_on)) segment.forget_replies(responder_.output());
  return goes_on;
}

void LaneStage::answered(const LaneSegment& segment, const Query& query, const Result& result) {
  const Intake& in = batches_.in();
  const LaneWait& wait = in.waits[static_cast<std::size_t>(&segment - in.segments.data())];
  const int fd = wait.connection != nullptr ? wait.connection->fd : wait.datagram->reply.port->fd();
  if (worker_.recorder.flags() != 0) worker_.recorder.answered(query, result, fd);
  if (worker_.is_verbose(2) && wait.connection != nullptr && query.continues_line == 0 && !query.has(option::prefilled))
    log().debug("<{} {}", fd, request_text(query));
}

}  // namespace tandem::net
