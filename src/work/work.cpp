#include "work/work.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "codec/ethernet.hpp"
#include "codec/udp.hpp"

namespace tandem {

Work::Work(Context& context, const ProtocolOptions& protocol, Planner& planner, std::unique_ptr<Runner> runner,
           Meter& meter, Sink& sink, const WorkOptions& options)
    : context_(context),
      planner_(planner),
      runner_(std::move(runner)),
      meter_(meter),
      sink_(sink),
      options_(options),
      cas_(protocol.cas),
      lane_(context, protocol),
      in_flight_(runner_->count()) {
  lane_.set_turn(options.turn_ticks);
  lane_.set_owner(this);
  begin_intake();
}

Work::~Work() = default;

void Work::begin_pass(std::uint64_t now, bool rows_only) noexcept {
  meter_.begin_pass();
  rows_only_ = rows_only;
  pass_begin_ = in_.begin = in_.since = now;
  in_.sampled = meter_.sampled();
  if (TD_UNLIKELY(runner_->has_devices())) choose_for_pass();
}

void Work::end_pass() noexcept {
  TD_ASSERT(in_.empty());
  input().reuse();
  meter_.end_pass();
}

void Work::begin_intake() {
  in_.batch = &runner_->filling();
  input().reuse();
  in_.restart_clock(cycles_now());
  in_.since = pass_begin_;
  in_.sampled = meter_.sampled();
}

void Work::empty_input() {
  end();
  input().reuse();
}

TD_INLINE LaneSegment& Work::add_segment(const char* begin, const char* end, Parser& parser) {
  const Parser::Speaks speaks = parser.speaks();
  LaneSegment& segment = in_.segments.emplace_back();
  segment.begin = segment.rest = begin;
  segment.end = end;
  segment.parser = &parser;
  segment.binary = speaks == Parser::Speaks::binary;
  segment.stopped = TD_UNLIKELY(speaks == Parser::Speaks::neither);
  return segment;
}

void Work::lend(void* owner, Parser& parser, const char* begin, const char* end, std::uint64_t waits_since, bool fills,
                bool follows) {
  if (TD_UNLIKELY(!parser.has_begun()) && begin != end && !fills) parser.begin(*begin);
  LaneSegment& segment = add_segment(begin, end, parser);
  segment.stopped = segment.stopped || fills;
  segment.follows = follows;
  segment.within_command = !fills && !parser.begins_command(begin, end);
  if (TD_UNLIKELY(waits_since != 0)) {
    in_.oldest_receipt = std::min(in_.oldest_receipt, waits_since);
  } else if (TD_UNLIKELY(in_.sampled)) {
    waits_since = cycles_now();
  }
  Asker& asker = in_.askers.emplace_back();
  asker.owner = owner;
  asker.fills = fills;
  asker.waits_since = waits_since;
}

void Work::add_message(void* owner, Parser& parser, const char* frame, const char* end, bool is_raw) {
  LaneSegment& segment = add_segment(frame + udp_frame_bytes, end, parser);
  segment.frame = frame;
  Asker& asker = in_.askers.emplace_back();
  asker.owner = owner;
  asker.frame = frame;
  asker.is_raw = is_raw;
  if (TD_UNLIKELY(in_.sampled)) asker.waits_since = cycles_now();
}

void Work::add_datagram(void* owner, Parser& parser, const char* frame, std::size_t bytes, bool follows) {
  if (TD_UNLIKELY(asks_with_input_)) {
    std::memcpy(room(bytes), frame, bytes);
    frame = place(bytes);
  } else if (TD_UNLIKELY(!has_place())) {
    empty_input();
  }
  // Behind one of which a command is executed alone they are executed in the order of their receipt.
  follows = follows && !in_.askers.empty() && in_.askers.back().frame != nullptr;
  add_message(owner, parser, frame, frame + bytes, false);
  in_.segments.back().follows = follows;
}

void Work::add_placed(void* owner, Parser& parser, const char* begin, std::size_t bytes, bool is_raw) {
  add_message(owner, parser, is_raw ? begin + ethernet::header_bytes : begin, begin + bytes, is_raw);
  in_.has_raw = in_.has_raw || is_raw;
}

// Calls submit() for the intake's flight, and begins another one.
template <class Submit>
void Work::hand_over(Submit submit) {
  sink_.mark_in_flight(in_.askers, true);
  for (std::size_t i = 0; i < in_.segments.size(); ++i)
    in_.bytes += static_cast<std::uint64_t>(in_.segments[i].end - input_of(in_.segments[i], in_.askers[i]));
  bytes_in_flight_ += in_.bytes;
  std::swap(in_, in_flight_[runner_->next()]);
  submit();
  begin_intake();
}

// Leaves a free flight to be filled after the next one is handed over. False: the device is late. The thread does not
// wait longer for it, because all its askers would wait; a little longer where devices alone have the index, as the
// host could do no more than ask them again.
bool Work::free_flight() {
  constexpr std::chrono::microseconds patience(1000), patience_elsewhere(8000);
  while (runner_->in_flight() + 1 == runner_->count()) {
    const auto limit = context_.shared.placement.wants_search() ? patience_elsewhere : patience;
    if (!options_.in_order && !runner_->wait_for_oldest(limit)) return false;
    answer_oldest();
  }
  return true;
}

bool Work::ask_with_input() {
  const Plan& plan = plan_of_waiting();
  if (!begins_with_input(plan) || !runner_->can_begin(plan)) return false;
  if (!free_flight()) return false;
  FrameColumns* const columns = runner_->frames_to_fill(plan);
  if (columns == nullptr || !fill(*columns)) return false;
  hand_over([&] { runner_->submit_frames(plan, cas_); });
  return true;
}

// The keys of what waits.
bool Work::ask_with_keys() {
  constexpr std::uint64_t key_bytes_min = 2;
  std::uint64_t bytes = 0;
  for (const LaneSegment& s : in_.segments) bytes += static_cast<std::uint64_t>(s.end - s.begin);
  const std::uint64_t keys_max = std::min<std::uint64_t>(bytes / key_bytes_min, UINT32_MAX);
  if (!runner_->can_begin(planner_.plan_for(static_cast<std::uint32_t>(keys_max)))) return false;
  if (!free_flight()) return false;
  if (TD_UNLIKELY(in_.has_raw)) open_raw();
  lane_.collect(in_.segments, *in_.batch);
  const Plan plan = planner_.plan_for(in_.batch->size());
  if (in_.batch->size() == 0 || !runner_->can_begin(plan)) {
    in_.batch->clear();
    return false;
  }
  hand_over([&] { runner_->submit(plan); });
  return true;
}

void Work::answer_oldest() {
  sink_.begin_run(cycles_now());
  const unsigned number = runner_->oldest();
  std::swap(in_, in_flight_[number]);
  bytes_in_flight_ -= std::exchange(in_.bytes, 0);
  sink_.mark_in_flight(in_.askers, false);
  static_cast<void>(runner_->begin_answer());  // it is in_.batch
  if (in_.batch->size() == 0) {
    if (!runner_->begin_located()) runner_->begin_frames() ? send_whole_answers() : runner_->end_answers();
  }
  answer();
  runner_->end_answer();
  std::swap(in_, in_flight_[number]);
}

}  // namespace tandem
