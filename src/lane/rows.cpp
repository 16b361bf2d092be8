// Commands without a plain form.
#include <new>

#include "base/bytes_equal.hpp"
#include "base/ticks.hpp"
#include "codec/binary.hpp"
#include "codec/command.hpp"
#include "codec/reply.hpp"
#include "codec/reply_writer.hpp"
#include "lane/state.hpp"
#include "task/alone.hpp"
#include "task/memory.hpp"
#include "task/settled.hpp"

namespace tandem::lane {

bool has_rows(State& state) noexcept {
  try {
    if (TD_UNLIKELY(state.rows == nullptr)) state.rows = std::make_unique<Rows>(Deferring::ring_strips * strip_queries);
  } catch (const std::bad_alloc&) {
    return false;
  }
  state.rows->batch.found.end = state.is_elsewhere ? UINT32_MAX : 0;
  return true;
}

namespace {

// It is executed outside the run: it is not a query of the store, or changes what the client may ask.
bool is_left(const Query& query) noexcept {
  namespace binary = codec::binary;
  if (TD_UNLIKELY(query.opcode == Opcode::control)) return true;
  if (TD_LIKELY(query.opcode != Opcode::nothing)) return false;
  if (!codec::is_binary(query)) return codec::reply_of(query) == codec::ReplyKind::authenticate;
  const binary::Form form = binary::rule_of(binary::read<std::uint8_t>(query.wire + binary::at::opcode)).form;
  return form == binary::Form::sasl_list || form == binary::Form::sasl_auth || form == binary::Form::sasl_step;
}

// The query of a plain read.
Query query_of(const Strip& strip, std::uint32_t i) noexcept {
  namespace binary = codec::binary;
  Query q{};
  const std::uint8_t command = strip.kind(i) & kind::command_mask;
  q.opcode = Opcode::get;
  q.key = strip.key[i];
  q.key_bytes = static_cast<std::uint8_t>(info::key_bytes(strip.info[i]));
  q.wire = strip.line_of(i);
  if ((strip.kind(i) & kind::last_of_line) != 0) q.options = option::last_of_line;
  codec::ReplyKind reply = command == kind::gets ? codec::ReplyKind::gets : codec::ReplyKind::get;
  if (command == kind::binary_read) {
    const binary::Rule& rule = binary::rule_of(binary::read<std::uint8_t>(q.wire + binary::at::opcode));
    if (rule.quiet) q.options |= option::no_reply;
    reply = rule.with_key ? codec::ReplyKind::binary_get_key : codec::ReplyKind::binary_get;
    q.wire_bytes = binary::header_bytes;
  } else if (command == kind::meta_read || command == kind::meta_read_key) {
    q.options = option::meta;
    reply = codec::ReplyKind::meta_get;
    q.wire_flags_at = static_cast<std::uint32_t>(q.key - q.wire) + q.key_bytes;
    q.wire_bytes = q.wire_flags_at + (command == kind::meta_read ? 2u : 4u);
  }
  q.reply = static_cast<std::uint8_t>(reply);
  return q;
}

void count(State& state, LaneSegment& segment, const Query& q) {
  ++segment.rows;
  segment.row_metas += q.has(option::meta) ? 1u : 0u;
  if (!ends_command(q)) return;
  const bool with_cas = codec::reply_of(q) == codec::ReplyKind::gets;
  state.rows_answered.push_back({state.answering, q.opcode, q.mode, q.options, with_cas});
}

// A row may take as long as thousands of other queries: others' segments wait meanwhile.
bool turn_has_ended(const State& state, LaneSegment& segment) noexcept {
  const std::uint64_t now = cycles_now();
  if (TD_LIKELY(segment.turn_begin != 0)) return now - segment.turn_begin > state.turn_ticks;
  segment.turn_begin = now;
  return false;
}

// Before a row of a datagram: a further command begins a message. False: the datagram has had its answers.
bool enter_command(State& state, LaneSegment& segment, const Query& q) {
  const bool begins = q.continues_line == 0 && q.wire != segment.begin;
  segment.output_end = state.out->size();
  if (TD_UNLIKELY(!state.owner->before_row(segment, begins))) return false;
  if (begins) begin_message(state, segment);
  return true;
}

void end_lap(State& state, const Query& q, bool done, Laps& laps) noexcept {
  const Task task = task::settled_by(q);
  if (task != Task::key_compare && done) ++(task == Task::remove ? state.timed_rows.removes : state.timed_rows.inserts);
  laps.lap(task);
}

// Releases what a query holds once its reply is written, or if writing it fails.
class Slots {
 public:
  Slots(Context& context, QueryState& state) noexcept : context_(context), state_(state) {}
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  ~Slots() { task::release_slots(context_, state_); }

 private:
  Context& context_;
  QueryState& state_;
};

void write(State& state, const Query& q, const Result& result, std::uint32_t i, Laps* laps) {
  Context& context = state.context;
  Output& out = *state.out;
  LaneSegment& segment = state.segments[state.answering];
  count(state, segment, q);
  const std::size_t externals = out.externals().size();
  codec::write_reply(q, result, {context.shared.heap, context.shared.clock, state.options, out});
  if (TD_UNLIKELY(state.rows_only) && state.owner != nullptr) state.owner->answered(segment, q, result);
  if (TD_UNLIKELY(out.externals().size() != externals)) {
    segment.take_externals(externals, out.externals().size());
    if (out.size() + out.external_bytes() >= state.output_bytes_max) state.ends_at = i + 1;
  }
  if (TD_UNLIKELY(laps != nullptr)) laps->lap(Task::write_response);
}

// Completes a plain read as task::execute() does, if its candidate is a usual hit (ItemMask). False: it is not.
TD_INLINE bool read_usually(State& state, const Strip& strip, std::uint32_t i, const Query& q, Result& r) noexcept {
  auto* const item = const_cast<Item*>(strip.item[i]);
  const ItemVersion seen = ItemVersion::of(item);
  const ItemCheck& usual = item_checks[q.key_bytes];
  if (TD_UNLIKELY((seen.state & usual.mask.state) != usual.state || (seen.fixed & usual.mask.fixed) != usual.fixed))
    return false;
  if (TD_UNLIKELY(!bytes_equal(item->bytes() + sizeof(Item), q.key, q.key_bytes))) return false;
  if (TD_UNLIKELY(state.was_flushed() && is_flushed(seen, state.flush_cas))) return false;
  r.item = item;
  r.state = seen.state;
  r.value_bytes = static_cast<std::uint32_t>(word::ValueBytes::get(seen.fixed));
  r.status = Status::hit;
  r.outcome = 0;
  r.value_offset = static_cast<std::uint16_t>(sizeof(Item) + q.key_bytes);
  if (TD_LIKELY(!q.has(option::no_bump))) task::mark_access(item, seen.state, state.now_s);
  StoreCounters& counters = state.context.counters;
  counters.cmd_get.add();
  counters.get_hits.add();
  return true;
}

// The query at the place of the strip's query i.
bool execute(State& state, const Strip& strip, std::uint32_t i, std::uint32_t place, Laps* laps) {
  Context& context = state.context;
  Batch& batch = state.rows->batch;
  const Query& q = batch.query(place);
  QueryState one;
  if (TD_UNLIKELY(!execute_row(state, strip, i, batch, place, one, laps))) return false;
  const Slots slots(context, one);
  write(state, q, batch.result(place), i, laps);
  return true;
}

// The same, or by what the strip knows of the candidate.
bool answer(State& state, const Strip& strip, std::uint32_t i, std::uint32_t place, Laps* laps) {
  Batch& batch = state.rows->batch;
  const Query& q = batch.query(place);
  Result& r = batch.result(place);
  if (!q.is_plain_read() || TD_UNLIKELY(state.rows_only) || TD_UNLIKELY(!read_usually(state, strip, i, q, r)))
    return execute(state, strip, i, place, laps);
  if (TD_UNLIKELY(laps != nullptr)) end_lap(state, q, true, *laps);
  write(state, q, r, i, laps);
  return true;
}

}  // namespace

bool execute_row(State& state, const Strip& strip, std::uint32_t i, Batch& batch, std::uint32_t place, QueryState& one,
                 Laps* laps) noexcept {
  Context& context = state.context;
  const Query& q = batch.query(place);
  batch.locations()[place] = q.operation().has_key ? strip.candidate(i, context.shared.heap) : no_location;
  batch.fingerprints()[place] = fingerprint_at(state, strip, i);
  one.query = place;
  one.now_s = state.now_s;
  one.flush_cas = state.flush_cas;
  one.plain_read = q.is_plain_read();
  const task::Settled settled = context.shared.code.execute(context, batch, one);
  state.flush_cas = one.flush_cas;  // a write may have seen a later flush; what follows uses that one
  if (state.flush_cas != 0) state.care |= care::flushed;
  if (TD_UNLIKELY(laps != nullptr)) end_lap(state, q, settled == task::Settled::done, *laps);
  return settled == task::Settled::done;
}

void execute_taken(State& state) {
  Batch& taken = state.rows->taken;
  task::execute_alone(state.context, taken, [&] { write(state, taken.query(0), taken.result(0), 0, nullptr); });
  taken.clear();
}

namespace {
// Whether a device may have answered what follows in the segment, or located its keys.
bool may_be_known(const State& state, const LaneSegment& segment) noexcept {
  if (!has_input(state.source) || segment.binary) return false;
  if (state.source == Source::runs) return state.runs->next(segment.end) != segment.end;
  const char* const line = state.located->next_line();
  return line != nullptr && line < segment.end;
}
}  // namespace

std::uint32_t take_rows(State& state, LaneSegment& segment, std::uint32_t place, std::uint32_t places) noexcept {
  // While devices alone have the index, nothing else searches for a row.
  if (TD_UNLIKELY(state.is_elsewhere) && !has_any_query(state.source)) return 0;
  if (TD_UNLIKELY(!has_rows(state))) {
    segment.left = true;
    return 0;
  }
  Parser& parser = *segment.parser;
  Rows& rows = *state.rows;
  // They come one by one behind a plain command, as the next one may be plain, and where a device may know it. All that
  // follow in a datagram are rows.
  const bool follows_row = state.at == rows.last_end || state.line == within_row;
  const bool many = segment.frame != nullptr || (follows_row && !may_be_known(state, segment));
  state.at += parser.drop(static_cast<std::uint64_t>(segment.end - state.at));
  rows.batch.confine(place, many ? place + places : place + 1);
  std::size_t consumed = 0;
  ParseStop stop{};
  try {
    stop = parser.parse(state.at, segment.end, rows.batch, consumed);
  } catch (const std::bad_alloc&) {
    stop = ParseStop::close;  // there is no memory for what is derived for the last query
  }
  const std::uint32_t end = rows.batch.size();
  const bool is_whole = segment.frame != nullptr && stop != ParseStop::batch_full;
  if (TD_UNLIKELY(is_whole)) {
    // Behind what ends a datagram, or is incomplete, nothing follows.
    consumed = static_cast<std::size_t>(segment.end - state.at);
    parser.rewind_to_command();
  }
  const bool ends =
      !is_whole && (stop == ParseStop::close || stop == ParseStop::quit || stop == ParseStop::large_value);
  if (TD_UNLIKELY(end == place)) {
    segment.left = ends;
    segment.incomplete = !ends;
    if (ends) {
      parser.rewind_to_command();
    } else {
      state.at += consumed;
    }
    return 0;
  }
  // What the lane does not take is met again when it is executed alone, or behind the last one of these queries.
  std::uint32_t taken_end = ends ? end - 1 : end;
  for (std::uint32_t i = place; i < taken_end; ++i) {
    if (TD_UNLIKELY(is_left(rows.batch.query(i)))) taken_end = i;
  }
  if (TD_LIKELY(taken_end == end)) {
    state.at += consumed;
    rows.last_end = state.at;
  } else {
    state.at = parser.rewind(rows.batch.query(taken_end));
    rows.last_end = nullptr;
  }
  state.line = parser.begins_command() && !state.rows_only ? nullptr : within_row;
  segment.left = taken_end == place;
  return taken_end - place;
}

bool answer_row(State& state, const Strip& strip, std::uint32_t i, Laps* laps) {
  if (TD_UNLIKELY(strip.is_cold(i))) return false;
  LaneSegment& segment = state.segments[state.answering];
  const std::uint32_t place = place_of(state, strip) + i;
  if (TD_UNLIKELY(segment.frame != nullptr)) {
    if (TD_UNLIKELY(!enter_command(state, segment, state.rows->batch.query(place)))) return false;
  } else if (TD_UNLIKELY(turn_has_ended(state, segment))) {
    segment.turn_ended = true;
    return false;
  }
  return answer(state, strip, i, place, laps);
}

bool answer_as_row(State& state, const Strip& strip, std::uint32_t i, Laps* laps) {
  if (TD_UNLIKELY(strip.is_cold(i))) return false;
  if (TD_UNLIKELY(!has_rows(state))) return false;
  const std::uint32_t place = place_of(state, strip) + i;
  state.rows->batch.query(place) = query_of(strip, i);
  return answer(state, strip, i, place, laps);
}

}  // namespace tandem::lane
