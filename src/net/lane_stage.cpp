#include "net/lane_stage.hpp"

#include <algorithm>
#include <span>

namespace tandem::net {
namespace {

OutputRange range_of(const LaneSegment& segment, const Output& output) noexcept {
  return {&output, segment.output_begin, segment.output_end, segment.externals_begin, segment.externals_end};
}

// Keys of the line are left.
bool is_within_line(const LaneSegment& segment) noexcept {
  return segment.rest != segment.end && !segment.binary && !segment.parser->begins_command() &&
         segment.rest[-1] != '\n';
}

}  // namespace

LaneStage::LaneStage(WorkerState& worker, Connections& connections, const ConnectionLimits& limits, Sender& sender,
                     Responder& responder, Batches& batches, RequestParser& parser)
    : worker_(worker),
      connections_(connections),
      sender_(sender),
      responder_(responder),
      batches_(batches),
      parser_(parser),
      lane_(*worker.context, worker.server.protocol) {
  lane_.set_turn(limits.turn_ticks());
  lane_.set_messages(this);
}

// Clients that watch, and the log, are told of single requests, which only the general path does.
bool LaneStage::may_wait() const noexcept {
  return is_allowed_ && worker_.recorder.flags() == 0 && !worker_.is_verbose(2);
}

bool LaneStage::wait(Connection& c, const char* begin, const char* end, std::uint64_t waits_since) {
  if (!is_open_ || c.fill != nullptr || c.large_waits) return false;
  Intake& in = batches_.in();
  const Parser::Speaks speaks = c.parser.speaks();
  if (speaks == Parser::Speaks::neither || in.segments.size() == UINT16_MAX) return false;
  if (speaks == Parser::Speaks::binary && TD_UNLIKELY(!lane_.may_run())) return false;  // no device takes packets
  TD_ASSERT(batches_.input().has_behind(end, lane_padding_bytes));
  LaneSegment& segment = in.segments.emplace_back();
  segment.begin = begin;
  segment.end = end;
  segment.parser = &c.parser;
  segment.binary = speaks == Parser::Speaks::binary;
  segment.within_command = !c.parser.begins_command(begin, end);
  if (TD_UNLIKELY(waits_since != 0)) {
    in.oldest_receipt = std::min(in.oldest_receipt, waits_since);
  } else if (TD_UNLIKELY(in.sampled)) {
    waits_since = cycles_now();
  }
  LaneWait& wait = in.waits.emplace_back();
  wait.connection = &c;
  wait.waits_since = waits_since;
  return true;
}

bool LaneStage::wait(UdpDatagram& datagram, const char* begin, const char* end) {
  const Parser::Speaks speaks = datagram.parser->speaks();
  Intake& in = batches_.in();
  if (TD_UNLIKELY(!takes_datagrams_ || speaks == Parser::Speaks::neither || in.segments.size() == UINT16_MAX))
    return false;
  const UdpDatagram* const before = in.waits.empty() ? nullptr : in.waits.back().datagram;
  LaneSegment& segment = in.segments.emplace_back();
  segment.begin = begin;
  segment.end = end;
  segment.parser = &*datagram.parser;
  // Behind one that the parser goes on with they are executed in the order of their receipt.
  segment.follows = before != nullptr && before->reply.port == datagram.reply.port;
  segment.binary = speaks == Parser::Speaks::binary;
  segment.frame = begin - udp_frame_bytes;
  LaneWait& wait = in.waits.emplace_back();
  wait.datagram = &datagram;
  if (TD_UNLIKELY(in.sampled)) wait.waits_since = cycles_now();
  return true;
}

void LaneStage::run() {
  Intake& in = batches_.in();
  if (in.segments.empty()) return worker_.runner->end_answers();
  has_run_ = false;
  open_ = nullptr;
  asked_ = 0;
  for (std::size_t first = 0; first < in.segments.size();) {
    const std::span<LaneSegment> left = std::span(in.segments).subspan(first);
    lane_.set_answers(worker_.runner->runs(), worker_.runner->located());
    // The lane may be closed meanwhile: a client may watch since the input was received, or a device has no answers.
    if (TD_UNLIKELY(!may_run())) {
      for (LaneSegment& segment : left) segment.rest = segment.begin;
      break;
    }
    has_run_ = true;
    const std::size_t done = run_from(first);
    if (TD_LIKELY(done == left.size())) break;
    first = resume_at(first + done, done != 0);
  }
  if (TD_UNLIKELY(open_ != nullptr)) drop_open_message();
  lane_.set_answers(nullptr, nullptr);
  worker_.runner->end_answers();
  worker_.meter.record_lane(in, in.waits);
  for (std::size_t i = 0; i < in.segments.size(); ++i) {
    if (in.waits[i].datagram == nullptr) {
      parse_rest(in.segments[i], in.waits[i]);
    } else if (TD_UNLIKELY(in.segments[i].rest != in.segments[i].end)) {
      parse_rest_of(in.segments[i], *in.waits[i].datagram);
    }
  }
  in.segments.clear();
  in.waits.clear();
  in.rows.clear();
}

// Its last message is whole, unless keys of its command are left.
TD_INLINE void LaneStage::end_datagram(const LaneSegment& segment, UdpDatagram& datagram, bool is_cut) {
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
  ended.queries += segment.queries + segment.rows;
  ended.metas += segment.row_metas;
  for (const LaneCommand meta : {LaneCommand::meta_read, LaneCommand::meta_read_key, LaneCommand::meta_store})
    ended.metas += segment.commands[static_cast<std::size_t>(meta)];
  for (std::size_t command = 0; command < lane_command_count; ++command)
    wait.commands[command] += segment.commands[command];
  if (TD_UNLIKELY(wait.datagram != nullptr)) return end_datagram(segment, *wait.datagram, is_cut);
  if (!segment.has_replies()) return;
  {
    const Meter::Timed timed(worker_.meter, Task::send);
    sender_.send(*wait.connection, range_of(segment, responder_.output()));
  }
  if (TD_UNLIKELY(worker_.meter.sampled())) wait.sent_at = cycles_now();
}

// Has the lane run over the segments from this one on, and sends their replies. Returns how many are done.
std::size_t LaneStage::run_from(std::size_t first) {
  Intake& in = batches_.in();
  Output& output = responder_.output();
  const std::span<LaneSegment> left = std::span(in.segments).subspan(first);
  // A message that is not whole stays until it is.
  const std::size_t full_bytes = output.size() + static_cast<std::size_t>(output.external_bytes()) + output_flush_bytes;
  open_ = nullptr;
  const std::size_t done = lane_.run(left, output, full_bytes, worker_.meter.sampled(), worker_.meter.keys_of(in));
  for (LaneRow row : lane_.rows()) {
    row.segment += static_cast<std::uint32_t>(first);
    in.rows.push_back(row);
  }
  Ended ended;
  for (std::size_t i = 0; i < left.size(); ++i) end(left[i], in.waits[first + i], i == done, ended);
  worker_.meter.parsed(ended.queries);
  worker_.meter.answered(ended.queries);
  worker_.counters.cmd_meta.add(ended.metas);
  if (TD_UNLIKELY(!responder_.messages().empty())) {
    const Meter::Timed timed(worker_.meter, Task::send);
    responder_.messages().send();
  }
  if (TD_LIKELY(open_ == nullptr)) output.clear();
  return done;
}

// The output was full at this segment. If its connection is blocked now, its stream waits; the rest continue.
// has_ended: the run has ended segments before it. Returns the first segment to offer again.
std::size_t LaneStage::resume_at(std::size_t first, bool has_ended) noexcept {
  const std::span<LaneSegment> all(batches_.in().segments);
  if (!has_ended && all[first].rest == all[first].begin) return all.size();  // the lane is closed now
  for (LaneSegment& segment : all.subspan(first)) segment.resume();
  if (first == all.size()) return first;
  const LaneWait& wait = batches_.in().waits[first];
  if (TD_UNLIKELY(wait.datagram != nullptr)) {
    if (open_ != nullptr) return first;
    return pass_followers(responder_.messages().may_begin(*wait.datagram) ? first : first + 1);
  }
  return wait.connection->is_blocked() || wait.connection->is_closed() ? first + 1 : first;
}

// The first one from `first` on that is not behind a datagram of which the general path has a rest.
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

// What the lane has not answered is parsed.
void LaneStage::parse_rest(const LaneSegment& segment, const LaneWait& wait) {
  Connection& c = *wait.connection;
  if (c.is_closed()) return;
  if (TD_LIKELY(segment.rest == segment.end && c.kept.size() == 0 && c.parser.begins_command())) {
    if (TD_UNLIKELY(segment.within_command)) Batches::note_input(c);
    return connections_.serve_again(c);
  }
  Intake& in = batches_.in();
  Entry& entry = batches_.add_entry(&c, segment.rest, segment.end);
  in.stays_here = in.stays_here || has_run_;
  if (TD_UNLIKELY(wait.waits_since != 0)) in.note_earlier(entry, wait.waits_since);
  if (TD_UNLIKELY(segment.turn_ended)) worker_.counters.conn_yields.add();
  if (TD_UNLIKELY(c.is_blocked() || segment.turn_ended)) {
    entry.stop = Stop::yield;
    return;
  }
  parser_.parse(c, [this] { batches_.run(true); });
}

// What is left of a datagram is not complete, or the general path's.
void LaneStage::parse_rest_of(const LaneSegment& segment, UdpDatagram& datagram) {
  if (TD_UNLIKELY(datagram.is_over)) return;
  parser_.parse(datagram, segment.rest, segment.end, [this] { batches_.run(false); });
}

}  // namespace tandem::net
