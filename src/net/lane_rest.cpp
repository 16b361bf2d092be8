// What the lane has left of the segments: commands that are executed alone, large values, and what is kept.
#include <algorithm>
#include <cstring>
#include <span>

#include "net/lane_ranges.hpp"
#include "net/lane_stage.hpp"
#include "net/log.hpp"

namespace tandem::net {

void LaneStage::finish_unusual(std::size_t number) {
  Intake& in = batches_.in();
  LaneSegment& segment = in.segments[number];
  LaneWait& wait = in.waits[number];
  if (TD_UNLIKELY(wait.datagram != nullptr)) {
    if (TD_UNLIKELY(!segment.is_answered())) go_on(number);
    return;
  }
  Connection& c = *wait.connection;
  if (TD_UNLIKELY(c.is_closed())) return;
  if (TD_LIKELY(segment.is_answered() && c.kept.size() == 0 && c.parser.begins_command())) {
    if (TD_UNLIKELY(segment.within_command)) note_input(c);
    return connections_.serve_again(c);
  }
  go_on(number);
  finish_connection(segment, wait);
}

bool LaneStage::goes_on(const LaneSegment& segment, const LaneWait& wait) const noexcept {
  if (segment.incomplete || segment.turn_ended || wait.stop != ParseStop::need_more) return false;
  if (wait.datagram != nullptr) return segment.rest != segment.end && !wait.datagram->is_over;
  const Connection& c = *wait.connection;
  if (c.is_closed() || c.is_blocked() || c.stream != nullptr) return false;
  return segment.rest != segment.end || c.fill != nullptr;
}

// Answers the rest of a segment, as far as it can be answered now: the command there alone, and what the lane takes
// behind it, in turn. Nothing of it is sent before, unless it is much.
void LaneStage::go_on(std::size_t number) {
  Intake& in = batches_.in();
  LaneSegment& segment = in.segments[number];
  LaneWait& wait = in.waits[number];
  if (wait.datagram == nullptr) responder_.messages().restart_time();
  segment.turn_begin = 0;  // the others' time before is not its own
  bool acts = true;
  while (goes_on(segment, wait)) {
    if (acts) {
      if (!act(number)) break;
      acts = false;
    } else {
      run_one(number);
      acts = segment.stopped || segment.left || segment.rest == segment.begin;
    }
    if (wait.datagram != nullptr ||
        responder_.output().size() + static_cast<std::size_t>(responder_.output().external_bytes()) >=
            output_flush_bytes)
      send(segment, wait);
  }
  if (!responder_.output().empty()) send(segment, wait);
}

// The output is the segment's alone.
void LaneStage::send(const LaneSegment& segment, LaneWait& wait) {
  Output& output = responder_.output();
  const Meter::Timed timed(worker_.meter, Task::send);
  if (TD_LIKELY(wait.connection != nullptr)) {
    sender_.send(*wait.connection, {&output, 0, output.size(), 0, output.externals().size()});
    output.clear();
    if (TD_UNLIKELY(worker_.meter.sampled())) wait.sent_at = cycles_now();
    return;
  }
  if (!responder_.messages().empty()) responder_.messages().send();
  if (open_ == &segment && goes_on(segment, wait)) return;
  if (open_ == &segment) drop_open_message();
  output.clear();
}

// The lane, over one segment.
void LaneStage::run_one(std::size_t number) {
  Intake& in = batches_.in();
  LaneSegment& segment = in.segments[number];
  segment.resume();
  if (segment.stopped) return;
  const std::span<LaneSegment> one(&segment, 1);
  const bool is_asked = TD_UNLIKELY(worker_.context->shared.placement.wants_search()) && lane_.ask(one);
  if (TD_UNLIKELY(!lane_.may_run())) {
    segment.stopped = true;
    return;
  }
  asked_ = number;
  const std::size_t done = run_lane(one);
  if (TD_UNLIKELY(is_asked)) lane_.end_asking();
  note_rows(number);
  Ended ended;
  count(segment, in.waits[number], ended);
  add(ended);
  if (UdpDatagram* const datagram = in.waits[number].datagram; datagram != nullptr)
    end_datagram(segment, *datagram, done == 0);
}

// Executes the command at the segment's rest alone. False: the segment does not go on.
bool LaneStage::act(std::size_t number) {
  LaneWait& wait = batches_.in().waits[number];
  return wait.datagram != nullptr ? act_for(*wait.datagram, number) : act_for(*wait.connection, number);
}

bool LaneStage::act_for(Connection& c, std::size_t number) {
  LaneSegment& segment = batches_.in().segments[number];
  if (TD_UNLIKELY(c.fill != nullptr)) return finish_large(c, number);
  const std::uint64_t now = cycles_now(), waited = worker_.context->waited_ticks;
  if (segment.turn_begin == 0) segment.turn_begin = now;
  LaneWait& wait = batches_.in().waits[number];
  // A control command may take as long as a hundred other requests: a few are a turn.
  if (now - segment.turn_begin > limits_.turn_ticks() || wait.controls >= worker_.server.options.requests_per_event) {
    segment.turn_ended = true;
    return false;
  }
  const ParseStop stop = take_and_execute(number);
  segment.turn_begin += worker_.context->waited_ticks - waited;
  if (stop == ParseStop::large_value) return begin_large(c, number);
  return stop == ParseStop::batch_full || stop == ParseStop::need_more;
}

// The same of a datagram: the command's reply is a message.
bool LaneStage::act_for(UdpDatagram& datagram, std::size_t number) {
  LaneSegment& segment = batches_.in().segments[number];
  Messages& messages = responder_.messages();
  Output& output = responder_.output();
  if (open_ != &segment) {
    if (TD_UNLIKELY(!messages.may_begin(datagram))) return false;
    segment.forget_replies(output);
    std::memcpy(output.reserve(udp_frame_bytes), segment.frame, udp_frame_bytes);
    output.commit(udp_frame_bytes);
    segment.output_end = output.size();
  }
  open_ = nullptr;
  const std::uint64_t executed = datagram.executed;
  const ParseStop stop = take_and_execute(number);
  const OutputRange range = range_of(segment, output);
  if (TD_UNLIKELY(is_within_line(segment) && !segment.incomplete)) {
    if (messages.may_grow(datagram, range)) open_ = &segment;
  } else {
    messages.end(datagram, range);
  }
  if (stop == ParseStop::batch_full || (stop == ParseStop::need_more && datagram.executed != executed)) return true;
  datagram.is_over = true;  // what stops its parser ends it
  return false;
}

// Of the command at the segment's rest, or a key of it.
ParseStop LaneStage::take_and_execute(std::size_t number) {
  Intake& in = batches_.in();
  LaneSegment& segment = in.segments[number];
  segment.stopped = segment.left = segment.incomplete = false;
  ParseStop stop;
  {
    const Meter::Timed timed(worker_.meter, Task::parse);
    stop = lane_.take(segment);
  }
  if (lane_.has_taken()) {
    execute(number);
  } else {
    segment.incomplete = stop == ParseStop::need_more;
  }
  if (stop == ParseStop::close || stop == ParseStop::quit) in.waits[number].stop = stop;
  return stop;
}

// What the lane has taken.
void LaneStage::execute(std::size_t number) {
  Intake& in = batches_.in();
  LaneSegment& segment = in.segments[number];
  LaneWait& wait = in.waits[number];
  const Query& query = lane_.taken().query(0);
  Ended ended{.queries = 1, .metas = query.has(option::meta) ? 1u : 0u};
  if (auto* const keys = worker_.meter.keys_of(in); TD_UNLIKELY(keys != nullptr) && query.operation().is_access &&
                                                    query.key >= segment.begin && query.key < segment.end) {
    keys->offer(query.key_view());
    worker_.meter.record_keys();
  }
  if (wait.datagram != nullptr) ++wait.datagram->executed;
  if (TD_UNLIKELY(query.opcode == Opcode::control)) {
    if (worker_.is_verbose(2) && wait.connection != nullptr)
      log().debug("<{} {}", wait.connection->fd, request_text(query));
    responder_.control(wait.connection, query);
    segment.output_end = responder_.output().size();
    in.rows.push_back({static_cast<std::uint32_t>(number), query.opcode, query.mode, query.options, false});
    wait.connection != nullptr ? ++wait.controls : ++wait.datagram->controls;
    lane_.taken().clear();
  } else {
    lane_.execute_taken(segment, responder_.output());
    note_rows(number);
  }
  add(ended);
}

// The parser has stopped at a large value: gets a slot to receive it into, or refuses it.
bool LaneStage::begin_large(Connection& c, std::size_t number) {
  LaneSegment& segment = batches_.in().segments[number];
  Engine& engine = worker_.server.engine;
  const LargeValue& large = c.parser.large();
  const bool granted = limits_.take_filling(large.value_bytes);
  Location location = no_location;
  if (granted) {
    location = engine.begin_fill(*worker_.context, large.key, large.client_flags, large.value_bytes, large.expiry_s,
                                 large.binary_key);
  }
  if (location == no_location) {
    if (granted) worker_.server.filling.give_back(large.value_bytes);
    c.parser.refuse_large(lane_.taken(), 0);
    execute(number);
    return true;
  }
  const auto here = static_cast<std::uint64_t>(segment.end - segment.rest);
  const auto bytes = static_cast<std::size_t>(std::min(here, large.value_bytes));
  char* value = worker_.heap().at(location)->value();
  std::memcpy(value, segment.rest, bytes);
  segment.rest += bytes;
  c.fill = std::make_unique<Fill>(Fill{location, value, large.value_bytes, bytes, large.line_end_bytes});
  c.after_large = true;
  c.state.store(ConnectionState::filling, std::memory_order_relaxed);
  // Until now it may have waited for its turn; from now on it waits for its client.
  connections_.touch(c);
  return finish_large(c, number);
}

// False: the value and its line end have not arrived.
bool LaneStage::finish_large(Connection& c, std::size_t number) {
  LaneSegment& segment = batches_.in().segments[number];
  if (!c.fill->is_whole(static_cast<std::size_t>(segment.end - segment.rest))) {
    segment.incomplete = true;
    return false;
  }
  const Fill fill = *c.fill;
  const bool ok = std::memcmp(segment.rest, "\r\n", fill.line_end_bytes) == 0;
  segment.rest += fill.line_end_bytes;
  segment.stopped = segment.left = segment.incomplete = false;
  lane_.taken().clear();
  c.parser.finish_large(lane_.taken(), 0, fill.location, ok);
  if (!ok) worker_.server.engine.abandon_fill(*worker_.context, fill.location);
  worker_.server.filling.give_back(fill.value_bytes);
  c.fill.reset();
  c.state.store(ConnectionState::reading, std::memory_order_relaxed);
  execute(number);
  return true;
}

// The connection's input is answered: keeps the rest of it.
void LaneStage::finish_connection(const LaneSegment& segment, LaneWait& wait) {
  Connection& c = *wait.connection;
  if (c.is_closed()) return;
  if (TD_UNLIKELY(wait.stop != ParseStop::need_more)) {
    c.kept.assign(nullptr, nullptr);
    static_cast<void>(limits_.charge_kept(c));  // less than before: nothing is refused
    c.closes = true;
    c.close_reason = wait.stop == ParseStop::quit ? CloseReason::normal : CloseReason::error;
    if (!c.is_blocked() && c.stream == nullptr) connections_.close(c, c.close_reason);
    return;
  }
  if (segment.rest != segment.end || c.kept.size() != 0) {
    if (!limits_.keep(c, segment.rest, segment.end)) return;
  }
  if (segment.rest != segment.end && !segment.incomplete) {
    const bool has_stream = c.stream != nullptr;
    if (segment.turn_ended) worker_.counters.conn_yields.add();
    // Latency counts the time that a connection waits for other connections, but not the time that it waits for its own
    // client.
    c.waits_since = has_stream || c.is_blocked() ? 0 : wait.waits_since != 0 ? wait.waits_since : batches_.in().since;
    c.resumes = true;
  }
  note_input(c);
  connections_.serve_again(c);
}

// What `stats conns` says that the connection waits for, where the parser knows.
void LaneStage::note_input(Connection& c) noexcept {
  const ConnectionState now = c.state.load(std::memory_order_relaxed);
  const Parser::Within within = c.parser.within();
  if (TD_LIKELY(now == ConnectionState::reading && within == Parser::Within::command)) return;
  if (now == ConnectionState::reading || now == ConnectionState::keeping || now == ConnectionState::dropping) {
    c.state.store(within == Parser::Within::command ? ConnectionState::reading
                  : within == Parser::Within::value ? ConnectionState::keeping
                                                    : ConnectionState::dropping,
                  std::memory_order_relaxed);
  }
}

}  // namespace tandem::net
