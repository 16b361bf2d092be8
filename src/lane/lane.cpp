#include "lane/lane.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "base/hash.hpp"
#include "codec/binary.hpp"
#include "codec/digits.hpp"
#include "codec/reply.hpp"
#include "codec/reply_writer.hpp"
#include "index/wanted_lanes.hpp"
#include "lane/collect.hpp"
#include "lane/run.hpp"
#include "task/key_compare.hpp"
#include "task/memory.hpp"

namespace tandem {
namespace lane {
namespace {

#if defined(__x86_64__)
constexpr const Ops* built[] = {&scalar_ops, &avx2_ops, &avx512_ops, &avx512_vaes_ops};
#elif defined(__aarch64__)
constexpr const Ops* built[] = {&scalar_ops, &neon_ops};
#else
constexpr const Ops* built[] = {&scalar_ops};
#endif

// ThreadSanitizer sees every access of the scalar kernel only.
constexpr bool only_scalar = TD_THREAD_SANITIZER != 0;

bool is_quiet(const char* request) noexcept {
  return codec::binary::rule_of(codec::binary::read<std::uint8_t>(request + codec::binary::at::opcode)).quiet;
}
bool is_with_key(const char* request) noexcept {
  return codec::binary::rule_of(codec::binary::read<std::uint8_t>(request + codec::binary::at::opcode)).with_key;
}

}  // namespace

std::span<const Ops* const> ops_built() noexcept { return std::span(built).first(only_scalar ? 1 : std::size(built)); }

const Ops& ops_for(const Index& index, std::string_view instructions) {
  if (!instructions.empty()) {
    if (const Ops* const named = ops_named(instructions)) return *named;
    throw std::invalid_argument("no lane of '" + std::string(instructions) + "'");
  }
  const Ops* best = &scalar_ops;
  const std::string_view wanted = wanted_lanes();
  for (const Ops* ops : ops_built()) {
    if (!ops->name.starts_with(index.lanes()) || !ops->supported()) continue;
    best = ops;
    if (ops->name == wanted) break;
  }
  return *best;
}

const Ops* ops_named(std::string_view name) noexcept {
  for (const Ops* ops : ops_built()) {
    if (ops->name == name && ops->supported()) return ops;
  }
  return nullptr;
}

namespace {
// Whether the item answers a get of which the caller compares the key: the hit would not write to it.
bool answers_any_key(const State& state, const ItemVersion& seen) noexcept {
  return seen.is_live() && (seen.state & (word::Stale::mask | word::Win::mask)) == 0 &&
         word::Huge::get(seen.fixed) == 0 && !is_over(seen, state.now_s, state.flush_cas) &&
         !task::needs_mark(seen.state, state.now_s);
}
}  // namespace

Found look_closely(State& state, const Strip& strip, std::uint32_t i, Hit& hit) noexcept {
  if (TD_UNLIKELY(strip.is_cold(i))) return Found::other;
  Context& context = state.context;
  const Location candidate = strip.candidate(i, context.shared.heap);
  const std::uint8_t command = strip.kind(i) & kind::command_mask;
  const bool is_meta = command == kind::meta_read || command == kind::meta_read_key;
  const std::string_view key = strip.key_of(i);
  Item* item = candidate != no_location ? context.shared.heap.at(candidate) : nullptr;
  ItemVersion seen;
  if (item != nullptr) seen = ItemVersion::of(item);
  if ((strip.kind(i) & kind::any_key) != 0 && item != nullptr && answers_any_key(state, seen)) {
    hit = {item, seen.state, seen.fixed};
    return Found::hit;
  }
  if (item == nullptr || !seen.is_live() || !item->has_key(key)) {
    // Elsewhere the candidate is all that the table has; another thread may be rewriting it.
    item = context.shared.index.find(fingerprint_at(state, strip, i), key, seen,
                                     state.is_elsewhere ? candidate : no_location);
    if (state.cells_in != CellsIn::other && (item != hit.item || candidate == no_location))
      context.counters.index_retries.add(item != nullptr ? 1 : 0);
    if (item == nullptr) return Found::miss;
  }
  const std::uint64_t word = seen.state;
  hit = {item, word, seen.fixed};
  // Left to the general path: an item to reclaim, a stale one of which a meta get takes the token, a key shown in
  // base64, a pinned value.
  if (is_expired(word, state.now_s) || is_flushed(seen, state.flush_cas)) return Found::other;
  if (is_meta && (word & (word::Stale::mask | word::Win::mask)) != 0) return Found::other;
  if (word::Huge::get(hit.fixed) != 0 || (command == kind::meta_read_key && item->binary_key())) return Found::other;
  task::mark_access(item, word, state.now_s);
  return Found::hit;
}

void write_miss(State& state, const Strip& strip, std::uint32_t i) {
  namespace binary = codec::binary;
  Output& out = *state.out;
  const std::string_view key = strip.key_of(i);
  switch (strip.kind(i) & kind::command_mask) {
    case kind::get:
    case kind::gets:
      if ((strip.kind(i) & kind::last_of_line) != 0) out.append(codec::line::end);
      return;
    case kind::meta_read:
      return out.append("EN\r\n");
    case kind::meta_read_key:
      out.append("EN k");
      out.append(key);
      return out.append("\r\n");
    default: {
      const char* const request = strip.line_of(i);
      if (is_quiet(request)) return;
      const std::string_view body = is_with_key(request) ? key : binary::text::not_found;
      char* const p = out.reserve(binary::header_bytes);
      std::memset(p, 0, binary::header_bytes);
      p[binary::at::magic] = static_cast<char>(binary::response_magic);
      p[binary::at::opcode] = request[binary::at::opcode];
      if (is_with_key(request)) binary::write(p + binary::at::key_bytes, static_cast<std::uint16_t>(key.size()));
      binary::write(p + binary::at::status, static_cast<std::uint16_t>(binary::Status::not_found));
      binary::write(p + binary::at::body_bytes, static_cast<std::uint32_t>(body.size()));
      std::memcpy(p + binary::at::opaque, request + binary::at::opaque, sizeof(std::uint32_t));
      out.commit(binary::header_bytes);
      return out.append(body);
    }
  }
}

void write_long(State& state, const Strip& strip, std::uint32_t i, const Hit& hit) {
  namespace binary = codec::binary;
  using namespace codec;  // NOLINT(google-build-using-namespace): the reply writers
  const std::uint8_t kind = strip.kind(i), command = kind & kind::command_mask;
  const Item& item = *hit.item;
  const std::string_view key = strip.key_of(i);
  const auto bytes = static_cast<std::uint32_t>(word::ValueBytes::get(hit.fixed));
  const bool use_cas = state.options.cas;
  constexpr std::size_t around_bytes = binary::header_bytes + key_bytes_max + 4 * (digits_max + 2) + 16;
  char* const begin = state.out->reserve(around_bytes + bytes);
  char* p = begin;
  copy_validated(hit.item, hit.state, [&](const ItemVersion& seen) noexcept {
    const std::uint64_t cas = use_cas ? seen.cas() : 0;
    p = begin;
    if (command == kind::binary_read) {
      const char* const request = strip.line_of(i);
      const bool with_key = is_with_key(request);
      std::memset(p, 0, binary::header_bytes);
      p[binary::at::magic] = static_cast<char>(binary::response_magic);
      p[binary::at::opcode] = request[binary::at::opcode];
      p[binary::at::extras_bytes] = binary::flags_bytes;
      if (with_key) binary::write(p + binary::at::key_bytes, static_cast<std::uint16_t>(key.size()));
      binary::write(p + binary::at::body_bytes, static_cast<std::uint32_t>(binary::flags_bytes) +
                                                    (with_key ? static_cast<std::uint32_t>(key.size()) : 0) + bytes);
      std::memcpy(p + binary::at::opaque, request + binary::at::opaque, sizeof(std::uint32_t));
      binary::write(p + binary::at::cas, cas);
      binary::write(p + binary::header_bytes, item.client_flags());
      p += binary::header_bytes + binary::flags_bytes;
      if (with_key) p = copy_short(p, key.data(), key.size());
      p = copy_value(p, item.value(), bytes);
    } else if (command == kind::get || command == kind::gets) {
      p = copy_short(write_text(p, "VALUE "), key.data(), key.size());
      *p++ = ' ';
      p = write_digits(p, item.client_flags());
      *p++ = ' ';
      p = write_digits(p, bytes);
      if (command == kind::gets) {
        *p++ = ' ';
        p = write_digits(p, cas);
      }
      p = write_line_end(copy_value(write_line_end(p), item.value(), bytes));
      if ((kind & kind::last_of_line) != 0) p = write_text(p, line::end);
    } else {
      p = write_digits(write_text(p, "VA "), bytes);
      if (command == kind::meta_read_key) p = copy_short(write_text(p, " k"), key.data(), key.size());
      p = write_line_end(copy_value(write_line_end(p), item.value(), bytes));
    }
  });
  state.out->commit(static_cast<std::size_t>(p - begin));
}

void expect_kind(State& state, const Strip& strip, std::uint32_t gets) noexcept {
  if (gets == 0) return;
  const std::uint8_t last = strip.kind(31 - static_cast<std::uint32_t>(std::countl_zero(gets)));
  if ((last & kind::run) == 0) state.usual_kind = last;
}

namespace {
// The caller looks at the keys when the run has ended: then those that were decoded are gone.
bool is_sampled(const LaneSegment& segment, const Query& row) noexcept {
  return row.operation().is_access && row.key_bytes != 0 && row.key >= segment.begin && row.key < segment.end;
}
}  // namespace

void sample_keys(State& state, const Strip& strip) {
  KeySample& keys = *state.keys;
  for (std::uint32_t i = 0; i < strip.count; ++i) {
    if (strip.is_run(i)) {
      offer_first_keys(strip.line[i], strip.line[i] + strip.run[i].bytes, keys);
    } else if (!strip.is_row(i) ||
               is_sampled(state.segments[strip.segment(i)], state.rows->batch.query(place_of(state, strip) + i))) {
      keys.offer(strip.key_of(i));
    }
  }
}

void answer_run(State& state, const Strip& strip, std::uint32_t i) {
  constexpr std::uint32_t borrowed_bytes_min = 1024;
  const FrameRun& run = strip.run[i];
  LaneSegment& segment = state.segments[state.answering];
  Output& out = *state.out;
  if (run.reply_bytes < borrowed_bytes_min) {
    out.append(state.runs->reply(run), run.reply_bytes);
  } else {
    const std::size_t externals = out.externals().size();
    out.append_borrowed(state.runs->reply(run), run.reply_bytes);
    segment.take_externals(externals, out.externals().size());
  }
  segment.commands[kind::get] += std::uint32_t{run.requests} - run.metas;
  segment.commands[kind::meta_read] += run.metas;
  segment.queries += run.keys;
  state.device_keys += run.keys;
  state.runs->count(run);
  // Not before: until then they are not read.
  if (const auto reads = state.runs->reads(strip.tile[i], run); TD_UNLIKELY(!reads.empty()))
    task::mark_reads(state.context.shared, reads);
}

QueryBegin begin_of(const State& state, const Strip& strip, std::uint32_t i) noexcept {
  if (strip.is_row(i)) return {.query = state.rows->batch.query(place_of(state, strip) + i)};
  if (TD_LIKELY((strip.kind(i) & kind::continues) == 0)) return {.command = strip.line_of(i)};
  const std::string_view key = strip.key_of(i);
  const char* line_end = key.data() + key.size();
  while (*line_end != '\r') ++line_end;
  QueryBegin begin;
  Query& query = begin.query;
  query.key = query.wire = key.data();
  query.key_bytes = static_cast<std::uint8_t>(key.size());
  query.wire_bytes = static_cast<std::uint32_t>(line_end - key.data());
  query.continues_line = 1;
  const bool is_gets = (strip.kind(i) & kind::command_mask) == kind::gets;
  query.reply = static_cast<std::uint8_t>(is_gets ? codec::ReplyKind::gets : codec::ReplyKind::get);
  return begin;
}

const char* rewind(State& state, const Strip& strip, std::uint32_t i) noexcept {
  LaneSegment& segment = state.segments[strip.segment(i)];
  segment.left = segment.incomplete = false;
  return begin_of(state, strip, i).rewind(*segment.parser);
}

void stop(State& state, const Strip& strip, std::uint32_t i) noexcept {
  LaneSegment& segment = state.segments[strip.segment(i)];
  segment.rest = rewind(state, strip, i);
  segment.stopped = true;
  leave_segment(state);
}

void Laps::end(const Queries& queries, bool tasks) noexcept {
  const auto record = [&](Task task, std::uint64_t on) {
    const auto t = static_cast<std::size_t>(task);
    counters_.cycles[t].add(spent_[t]);
    counters_.queries[t].add(on);
    counters_.record(task, spent_[t], on);
  };
  const std::uint64_t on_host = queries.all - std::min(queries.located, queries.all);
  // The caller of run() writes the histogram of PP, together with those of RV and SD.
  if (parse_) {
    counters_.cycles[index_of(Task::parse)].add(spent_[index_of(Task::parse)]);
    counters_.queries[index_of(Task::parse)].add(queries.all - std::min(queries.parsed, queries.all));
  }
  if (!tasks) return;
  counters_.batches_sampled.add();
  // The time of MM is part of Insert's here, and that of RD is part of WR's.
  for (const Task task : {Task::memory, Task::read_value, Task::write_response}) record(task, queries.all);
  record(Task::search, on_host);
  record(Task::key_compare, queries.all - queries.inserts - queries.removes);
  record(Task::insert, queries.inserts);
  record(Task::remove, queries.removes);
}

bool choose_source(State& s) noexcept {
  s.is_elsewhere = s.context.shared.placement.wants_search();
  if (!s.is_elsewhere) {
    s.source = Source::text;  // while the context waited for the index, its flights were let go
    return true;
  }
  if (has_any_query(s.source)) return true;
  // No device locates keys in packets or datagrams.
  for (LaneSegment& segment : s.segments)
    segment.stopped = segment.stopped || segment.binary || segment.frame != nullptr;
  return s.source == Source::located;
}

void look_at_other_index(State& s) noexcept {
  const Shared& shared = s.context.shared;
  if (s.cells_in == CellsIn::leaf) {
    s.tree = &shared.index_as<HashTreeIndex>().tree();
  } else if (s.cells_in == CellsIn::slab) {
    s.slabs_view = shared.index_as<SlabListIndex>().view();
  } else if (s.cells_in == CellsIn::set) {
    const auto& sets = shared.index_as<SetAssociativeIndex>();
    s.sets_view = sets.view();
    s.stamp = sets.stamp_now();
  }
}

// So that the index grows under a client with all its sets in the lane.
void check_growth(State& state) noexcept {
  Shared& shared = state.context.shared;
  state.stored_at_check = state.context.counters.total_items.get();
  if (shared.index.wants_growth()) shared.maintenance.notify();
}

}  // namespace lane

namespace lane {

namespace {

// Inline: of a short run it is a part that shows.
TD_INLINE void begin_with_first(State& s) noexcept {
  s.parsing = 0;
  s.at = s.segments.empty() ? nullptr : s.segments[0].begin;
  s.line = s.segments.empty() ? nullptr : line_at(s, s.segments[0]);
  s.answering = State::none;
  s.located_queries = s.hot_queries = s.device_keys = 0;
  s.timed_rows = {};
  s.ends_at = strip_queries;
  s.found_segment = State::none;
  s.rows_answered.clear();
  if (TD_UNLIKELY(has_input(s.source)) && !s.segments.empty())
    s.runs != nullptr ? s.runs->go_to(s.segments[0].begin) : s.located->go_to(s.segments[0].begin);
  for (LaneSegment& segment : s.segments) {
    segment.rest = segment.begin;
    // So that a segment without padding fails with any instructions: the widest ones do not always read it.
    if constexpr (TD_ADDRESS_SANITIZER != 0) static_cast<void>(opaque(segment.end[lane_padding_bytes - 1]));
  }
}

}  // namespace

void go_to_begin(State& s) noexcept { begin_with_first(s); }

}  // namespace lane

Lane::Lane(Context& context, const ProtocolOptions& options, std::string_view instructions)
    : context_(context),
      ops_(lane::ops_for(context.shared.index, instructions)),
      state_(std::make_unique<lane::State>(context, options)) {}

Lane::~Lane() = default;

std::string_view Lane::instructions() const noexcept { return ops_.name; }

std::span<const LaneRow> Lane::rows() const noexcept { return state_->rows_answered; }

void Lane::set_answers(FrameRuns* runs, LocatedKeys* located) noexcept {
  TD_DEBUG_ASSERT(located == nullptr || (runs == nullptr && state_->cells_in == CellsIn::table));
  state_->runs = runs;
  state_->located = located;
  state_->found = nullptr;
  state_->source = runs != nullptr      ? lane::Source::runs
                   : located != nullptr ? lane::Source::located
                                        : lane::Source::text;
}

void Lane::set_turn(std::uint64_t ticks) noexcept { state_->turn_ticks = ticks; }

void Lane::set_found(const Batch* found) noexcept {
  TD_DEBUG_ASSERT(found == nullptr || state_->cells_in == CellsIn::table);
  state_->runs = nullptr;
  state_->located = nullptr;
  state_->found = found;
  state_->source = found != nullptr ? lane::Source::found : lane::Source::text;
}

bool Lane::set_hot() noexcept {
  set_answers(nullptr, nullptr);
  state_->hot = state_->cells_in == CellsIn::table ? context_.shared.placement.hot() : nullptr;
  if (state_->hot == nullptr || state_->hot->keys() == 0) return false;
  state_->source = lane::Source::hot;
  return true;
}

void Lane::set_owner(LaneOwner* owner) noexcept { state_->owner = owner; }

void Lane::set_rows_only(bool rows_only) noexcept { state_->rows_only = rows_only; }

void Lane::always_defer() noexcept { state_->always_defers = true; }

bool Lane::may_run() const noexcept {
  return state_->source == lane::Source::located || lane::has_any_query(state_->source) ||
         !context_.shared.placement.wants_search();
}

std::size_t Lane::run(std::span<LaneSegment> segments, Output& out, std::size_t output_bytes_max, bool time_parse,
                      KeySample* keys) {
  TD_DEBUG_ASSERT(may_run() && segments.size() <= UINT16_MAX);
  lane::State& s = *state_;
  TaskCounters& tasks = context_.tasks;
  const bool sampled = tasks.sampler.next();
  lane::Laps laps(tasks, time_parse);
  s.segments = segments;
  s.out = &out;
  s.output_bytes_max = output_bytes_max;
  s.item_bytes_max = state_->options.item_bytes_max;
  s.keys = keys;
  s.laps = &laps;
  // A deferred set must be executed, also where the device's table has no room for its key.
  s.is_elsewhere = context_.shared.placement.wants_search();
  s.defers = !s.is_elsewhere && lane::may_defer(s);
  lane::set_ring(s);
  lane::begin_with_first(s);
  std::size_t done = 0;
  lane::run_in_epoch(s, [&] {
    lane::look_for_usual_sets(s);
    if (TD_UNLIKELY(sampled || time_parse)) {
      laps.begin();
      ops_.run_timed(s);
    } else {
      ops_.run(s);
    }
    lane::leave_segment(s);
    done = s.parsing;
  });
  if (TD_UNLIKELY(s.is_elsewhere)) context_.shared.placement.reclaim_changes(context_.cache);
  std::uint64_t queries = 0, rows = 0;
  for (const LaneSegment& segment : segments) {
    queries += segment.queries;
    rows += segment.rows;
  }
  queries -= s.device_keys;
  s.last_queries = queries;
  lane::count_run(s, queries, rows);
  if (TD_UNLIKELY(s.hot_queries != 0)) context_.counters.hot_queries.add(s.hot_queries);
  if (TD_UNLIKELY(s.located_queries != 0)) {
    tasks.on_device[index_of(Task::search)].add(s.located_queries);
    if (s.source == lane::Source::located) tasks.on_device[index_of(Task::parse)].add(s.located_queries);
  }
  if (TD_UNLIKELY(sampled || time_parse)) {
    const lane::Laps::Queries& timed = s.timed_rows;
    laps.end({queries + rows, s.sets + timed.inserts, timed.removes, s.located_queries,
              s.source == lane::Source::located ? s.located_queries : 0},
             sampled);
  }
  if (TD_UNLIKELY(s.rows != nullptr)) s.rows->end_run();
  return done;
}

}  // namespace tandem
