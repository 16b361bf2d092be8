#include "net/lane_stage.hpp"

#include <algorithm>
#include <span>

namespace tandem::net {

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

void LaneStage::run() {
  Intake& in = batches_.in();
  if (in.segments.empty()) return worker_.runner->end_answers();
  Output& output = responder_.output();
  has_run_ = false;
  for (std::size_t first = 0; first < in.segments.size();) {
    const std::span<LaneSegment> left = std::span(in.segments).subspan(first);
    lane_.set_answers(worker_.runner->runs(), worker_.runner->located());
    // The lane may be closed meanwhile: a client may watch since the input was received, or a device has no answers.
    if (TD_UNLIKELY(!may_run())) {
      for (LaneSegment& segment : left) segment.rest = segment.begin;
      break;
    }
    has_run_ = true;
    const std::size_t done =
        lane_.run(left, output, output_flush_bytes, worker_.meter.sampled(), worker_.meter.keys_of(in));
    for (LaneRow row : lane_.rows()) {
      row.segment += static_cast<std::uint32_t>(first);
      in.rows.push_back(row);
    }
    for (std::size_t i = 0; i < left.size(); ++i) end(left[i], in.waits[first + i]);
    output.clear();
    if (TD_LIKELY(done == left.size())) break;
    first = resume_at(first + done, done != 0);
  }
  lane_.set_answers(nullptr, nullptr);
  worker_.runner->end_answers();
  worker_.meter.record_lane(in, in.waits);
  for (std::size_t i = 0; i < in.segments.size(); ++i) parse_rest(in.segments[i], in.waits[i]);
  in.segments.clear();
  in.waits.clear();
  in.rows.clear();
}

// The output was full at this segment. If its connection is blocked now, its stream waits; the rest continue.
// has_ended: the run has ended segments before it. Returns the first segment to offer again.
std::size_t LaneStage::resume_at(std::size_t first, bool has_ended) noexcept {
  const std::span<LaneSegment> all(batches_.in().segments);
  if (!has_ended && all[first].rest == all[first].begin) return all.size();  // the lane is closed now
  for (LaneSegment& segment : all.subspan(first)) segment.resume();
  if (first == all.size()) return first;
  const Connection& c = *batches_.in().waits[first].connection;
  return c.is_blocked() || c.is_closed() ? first + 1 : first;
}

void LaneStage::count(const FrameRun& answered, LaneWait* wait) noexcept {
  worker_.meter.parsed(answered.keys);
  worker_.meter.answered(answered.keys);
  worker_.counters.cmd_meta.add(answered.metas);
  if (wait == nullptr) return;
  wait->commands[static_cast<std::size_t>(LaneCommand::get)] += std::uint32_t{answered.requests} - answered.metas;
  wait->commands[static_cast<std::size_t>(LaneCommand::meta_read)] += answered.metas;
}

// SD of a segment's replies.
void LaneStage::end(const LaneSegment& segment, LaneWait& wait) {
  const Output& output = responder_.output();
  Meter& meter = worker_.meter;
  meter.parsed(segment.queries + segment.rows);
  meter.answered(segment.queries + segment.rows);
  for (std::size_t command = 0; command < lane_command_count; ++command)
    wait.commands[command] += segment.commands[command];
  std::uint32_t metas = segment.row_metas;
  for (const LaneCommand meta : {LaneCommand::meta_read, LaneCommand::meta_read_key, LaneCommand::meta_store})
    metas += segment.commands[static_cast<std::size_t>(meta)];
  worker_.counters.cmd_meta.add(metas);
  if (!segment.has_replies()) return;
  const OutputRange range{&output, segment.output_begin, segment.output_end, segment.externals_begin,
                          segment.externals_end};
  {
    const Meter::Timed timed(meter, Task::send);
    sender_.send(*wait.connection, range);
  }
  if (TD_UNLIKELY(meter.sampled())) wait.sent_at = cycles_now();
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

}  // namespace tandem::net
