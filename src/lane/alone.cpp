// Around the lane's runs: what devices are asked for, and commands that are executed alone.
#include "task/alone.hpp"

#include <new>
#include <utility>

#include "base/ticks.hpp"
#include "lane/collect.hpp"
#include "lane/state.hpp"

namespace tandem {
namespace lane {

void end_before(State& state, Strip& strip, std::uint32_t i) noexcept {
  std::uint32_t left = State::none;
  for (std::uint32_t k = i; k < strip.count; ++k) {
    const std::uint32_t number = strip.segment(k);
    LaneSegment& segment = state.segments[number];
    if (segment.stopped || number == left) continue;
    segment.rest = rewind(state, strip, k);
    if (left == State::none) state.parsing = number;
    left = number;
  }
  strip.count = i;
  strip.sets &= (1u << i) - 1;
  strip.rows = static_cast<std::uint8_t>(strip.rows & ((1u << i) - 1));
  strip.is_uniform = false;
}

bool Collected::add(State& state, const Strip& strip) noexcept {
  bool has_room = true;
  for (std::uint32_t i = 0; i < strip.count; ++i) {
    if (const std::uint32_t number = strip.segment(i); number != segment_) {
      leave(state);
      segment_ = number;
      begin_ = begin_of(state, strip, i);
      state.segments[number].first_key = batch_.size();
    }
    has_room = has_room && !batch_.full();
    if (TD_UNLIKELY(!has_room)) continue;
    Query& q = batch_.next();
    const bool has_key = !strip.is_row(i) || state.rows->batch.query(place_of(state, strip) + i).operation().has_key;
    q.key = strip.key[i];
    q.key_bytes = static_cast<std::uint8_t>(info::key_bytes(strip.info[i]));
    q.opcode = has_key ? Opcode::get : Opcode::nothing;
    q.options = 0;
    batch_.commit();
  }
  return has_room;
}

// The present segment's parser begins again.
void Collected::leave(State& state) noexcept {
  if (segment_ == State::none) return;
  LaneSegment& segment = state.segments[segment_];
  segment.rest = begin_.rewind(*segment.parser);
}

void Collected::end(State& state) noexcept {
  leave(state);
  for (LaneSegment& segment : state.segments) {
    if (!segment.stopped) segment.resume();
  }
}

}  // namespace lane

namespace {
constexpr std::uint32_t not_asked = 1u << 31;  // a number that no query of a batch has
}

void Lane::execute_taken(LaneSegment& segment, Output& out) {
  lane::State& s = *state_;
  s.segments = {&segment, 1};
  s.out = &out;
  s.answering = 0;
  lane::execute_taken(s);
  s.answering = lane::State::none;
  segment.output_end = out.size();
}

void Lane::collect(std::span<LaneSegment> segments, Batch& batch) noexcept {
  lane::State& s = *state_;
  if (s.rows != nullptr) s.rows->end_run();
  s.segments = segments;
  for (LaneSegment& segment : segments) segment.first_key = not_asked;
  s.item_bytes_max = s.options.item_bytes_max;
  s.keys = nullptr;
  s.unusual_layout = 0;
  s.defers = false;
  lane::set_ring(s);
  set_found(&batch);
  lane::go_to_begin(s);
  const bool was_elsewhere = std::exchange(s.is_elsewhere, context_.shared.placement.wants_search());
  lane::Collected collected(batch);
  ops_.collect(s, collected);
  collected.end(s);
  s.is_elsewhere = was_elsewhere;
  set_found(nullptr);
}

bool Lane::ask(std::span<LaneSegment> segments) noexcept {
  constexpr std::uint32_t queries_max = 1024;
  lane::State& s = *state_;
  end_asking();
  if (context_.remote == nullptr || !context_.shared.placement.wants_search()) return false;
  if (s.asked == nullptr) s.asked.reset(new (std::nothrow) Batch(queries_max));
  if (TD_UNLIKELY(s.asked == nullptr)) return false;
  s.asked->clear();
  collect(segments, *s.asked);
  if (s.asked->size() == 0) return false;
  const std::uint64_t from = cycles_now();
  context_.remote->search(*s.asked, 0);
  context_.waited_ticks += cycles_now() - from;
  if (s.asked->found.end == 0) return false;
  set_found(s.asked.get());
  return true;
}

void Lane::end_asking() noexcept {
  set_found(nullptr);
  if (TD_UNLIKELY(context_.remote != nullptr)) context_.remote->end();
}

Batch& Lane::taken() noexcept { return state_->rows->taken; }

bool Lane::has_taken() const noexcept { return state_->rows != nullptr && state_->rows->taken.size() != 0; }

ParseStop Lane::take(LaneSegment& segment) noexcept {
  lane::State& s = *state_;
  s.rows_answered.clear();
  if (TD_UNLIKELY(!lane::has_rows(s))) return ParseStop::close;
  Batch& taken = s.rows->taken;
  taken.clear();
  std::size_t consumed = 0;
  ParseStop stop{};
  try {
    stop = segment.parser->parse(segment.rest, segment.end, taken, consumed);
  } catch (const std::bad_alloc&) {
    stop = ParseStop::close;  // there is no memory for what is derived for the query
  }
  segment.rest += consumed;
  return stop;
}

}  // namespace tandem
