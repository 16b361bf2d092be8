#include "bench/engine/wire.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "codec/binary.hpp"
#include "codec/udp.hpp"
#include "net/lane_ranges.hpp"
#include "net/limits.hpp"

namespace tandem::bench {
namespace {

std::unique_ptr<Runner> make_runner(Engine& engine, const EnginePlan& plan, Context& context,
                                    std::uint32_t batch_queries, std::uint64_t batch_bytes) {
  if (plan.uses_devices()) require_feasible(engine.placement(), plan.plan);
  auto runner = std::make_unique<Runner>(context, plan.uses_devices() ? engine.schedulers() : nullptr, batch_queries,
                                         batch_bytes + lane_padding_bytes, Runner::Frames::yes);
  // Else the host would do everything, unless devices search for queries instead.
  if (begins_with_input(plan.plan) && !runner->has_frames(plan.plan) &&
      (plan.placement != tandem::Placement::on_device || engine.schedulers()->count() == 1))
    throw std::runtime_error("the device has no memory for plan " + plan.plan.text());
  return runner;
}

}  // namespace

WireDriver::WireDriver(Engine& engine, const EnginePlan& plan, WireProtocol protocol, std::uint32_t batch_queries,
                       std::uint64_t batch_bytes, SinkKind sink)
    : engine_(engine),
      context_(engine.make_context()),
      runner_(make_runner(engine, plan, *context_, batch_queries, batch_bytes)),
      lane_(*context_, options_),
      received_(runner_->count()),
      segments_(runner_->count()),
      inputs_in_flight_(runner_->count()),
      plan_(plan.plan),
      is_binary_(protocol == WireProtocol::binary),
      in_datagrams_(protocol == WireProtocol::udp || protocol == WireProtocol::raw),
      is_raw_(protocol == WireProtocol::raw),
      sink_(sink) {
  options_.item_bytes_max = engine.options().item_bytes_max;
  lane_.set_owner(this);
  if (!plan.is_chosen) return;
  planner_.emplace(Preset::automatic, engine.schedulers(), engine.shared().placement);
  planner_->join(engine.steering());
}

bool WireDriver::choose(std::uint32_t requests) noexcept {
  if (planner_) {
    if (planner_->is_steered()) planner_->begin(cycles_now());
    plan_ = planner_->plan_for(requests);
  }
  return runner_->can_begin(plan_);
}

void WireDriver::end_task(Task task, std::uint64_t& begin) noexcept {
  if (TD_UNLIKELY(sampled_)) {
    const std::uint64_t now = cycles_now();
    context_->tasks.cycles[static_cast<std::size_t>(task)].add(now - begin);
    begin = now;
  }
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(task);
}

WireDriver::Answered WireDriver::run(const Tape::Slice& batch, std::uint64_t received_ticks) {
  answered_ = {};
  if (TD_UNLIKELY(dispatch_ != nullptr)) {
    run_dispatched(batch, received_ticks);
  } else {
    run_planned(batch, received_ticks);
  }
  runner_->relieve();  // as a worker does
  report(batch.requests.size());
  return answered_;
}

// What was answered, to the planner that chooses.
void WireDriver::report(std::uint64_t request_bytes) noexcept {
  // What is verified has each batch alone, and is no load that comes again.
  if (!planner_ || !planner_->is_steered() || keeps_) return;
  bytes_ += request_bytes + answered_.reply_bytes;
  planner_->end(cycles_now(), Planner::work_of(context_->counters, bytes_), runner_->in_flight() != 0);
}

void WireDriver::run_planned(const Tape::Slice& batch, std::uint64_t received_ticks) {
  sampled_ = sampler_.next();
  received_[runner_->next()] = received_ticks;
  Batch& filling = runner_->filling();
  Segments& segments = segments_[runner_->next()];
  receive(batch, filling, segments);
  if (begin_frames(segments)) {
    while (!runner_->can_fill()) answer_oldest();
    sampled_ = false;
    return;
  }
  LaneInput& input = inputs_in_flight_[runner_->next()];
  place(filling, segments, input);
  segments.clear();
  if (begin_keys(filling, input)) {
    while (!runner_->can_fill()) answer_oldest();
    sampled_ = false;
    return;
  }
  // A connection that waits for a device has those replies first, also where the device ceases to serve.
  while (runner_->in_flight() != 0) answer_oldest();
  const Answered earlier = std::exchange(answered_, {});
  run_lane(input, nullptr);
  hand_over();
  record_latency(received_ticks, answered_.queries);
  answered_.queries += earlier.queries;
  answered_.reply_bytes += earlier.reply_bytes;
  sampled_ = false;
}

WireDriver::Segment WireDriver::place(std::string_view requests, std::uint32_t client, Batch& batch) {
  InputArena& input = batch.input();
  TD_ASSERT(input.has_room(requests.size() + lane_padding_bytes));
  char* const to = input.room();
  std::memcpy(to, requests.data(), requests.size());
  input.take(requests.size());
  const auto at = static_cast<std::uint32_t>(input.offset_of(to));
  return {at, at + static_cast<std::uint32_t>(requests.size()), client};
}

// RV: what each connection has sent is placed as a worker places it.
void WireDriver::receive(const Tape::Slice& requests, Batch& batch, Segments& segments) {
  std::uint64_t begin = TD_UNLIKELY(sampled_) ? cycles_now() : 0;
  segments.clear();
  batch.input().reuse();
  sink_.add_clients(has_clients() ? requests.ends.size() : 1);
  std::uint32_t from = 0;
  if (is_raw_) {
    TD_ASSERT(batch.input().has_room(requests.requests.size() + lane_padding_bytes));
    std::memcpy(batch.input().room(), requests.requests.data(), requests.requests.size());
    batch.input().take(requests.requests.size());
    for (const std::uint32_t end : requests.ends) segments.push_back({std::exchange(from, end), end, 0});
    return end_task(Task::receive, begin);
  }
  for (const std::uint32_t end : requests.ends) {
    const std::string_view one = requests.requests.substr(from, end - from);
    from = end;
    segments.push_back(place(one, has_clients() ? static_cast<std::uint32_t>(segments.size()) : 0, batch));
  }
  end_task(Task::receive, begin);
}

// What a device may answer whole is given to it, or text whose keys it may locate.
bool WireDriver::begin_frames(const Segments& segments) {
  if (locates_keys(plan_) && (is_binary_ || in_datagrams_)) return false;
  FrameColumns* const frames = runner_->frames_to_fill(plan_);
  if (frames == nullptr) return false;
  for (const Segment& s : segments)
    static_cast<void>(is_raw_         ? frames->add_frame(s.begin, s.end - s.begin)
                      : in_datagrams_ ? frames->add_datagram(s.begin, s.end - s.begin)
                                      : frames->add_stream(s.begin, s.end - s.begin));
  if (frames->empty()) return false;
  runner_->submit_frames(plan_, options_.cas);
  return true;
}

// As each connection of a server has its own.
Parser& WireDriver::lane_parser(std::size_t number) {
  while (lane_parsers_.size() <= number) {
    lane_parsers_.emplace_back(options_, engine_.shared().clock);
    lane_parsers_.back().begin(is_binary_ ? static_cast<char>(codec::binary::request_magic) : 'g');
  }
  return lane_parsers_[number];
}

void WireDriver::place(const Batch& batch, const Segments& segments, LaneInput& input) {
  input.segments.clear();
  input.clients.clear();
  for (const Segment& s : segments) {
    const std::string_view requests = requests_of(batch, s);
    input.segments.push_back({.begin = requests.data(),
                              .end = requests.data() + requests.size(),
                              .parser = &lane_parser(input.segments.size()),
                              .binary = is_binary_,
                              .rest = requests.data(),
                              .frame = in_datagrams_ ? requests.data() - udp_frame_bytes : nullptr});
    input.clients.push_back(s.client);
  }
}

// What devices do not begin with they may search for.
bool WireDriver::begin_keys(Batch& batch, LaneInput& input) {
  if (!runner_->can_begin(plan_)) return false;
  if (begins_with_input(plan_) && plan_ != plan_located_index) return false;  // the host searches as fast
  lane_.collect(input.segments, batch);
  if (batch.size() == 0) return false;
  runner_->submit(plan_);
  return true;
}

void WireDriver::take_replies(const LaneSegment& s, std::uint32_t client) {
  answered_.queries += s.queries + s.rows;
  if (!s.has_replies()) return;
  if (TD_UNLIKELY(is_raw_)) return send_frame(s, client);
  output_replies_.push_back({client, net::range_of(s, output_)});
}

// As a packet ring has it: the headers of a frame before each reply.
void WireDriver::send_frame(const LaneSegment& s, std::uint32_t client) {
  const net::OutputRange message = net::range_of(s, output_);
  const char* const headers = s.frame - ethernet::header_bytes;
  frame_.assign(headers, headers + ethernet::header_bytes);
  message.for_each(
      [&](const char* bytes, std::size_t count, Location) { frame_.insert(frame_.end(), bytes, bytes + count); });
  const auto payload_bytes = static_cast<std::uint32_t>(frame_.size() - ethernet::header_bytes);
  ethernet::write_reply_headers(headers, payload_bytes, frame_.data());
  ethernet::write_udp_sum(frame_.data(), payload_bytes);
  send(client, frame_.data(), frame_.size());
}

// found: the keys that devices have searched for; nullptr: they have the answers to the text, or nothing.
void WireDriver::run_lane(LaneInput& input, const Batch* found) {
  const std::span<LaneSegment> all(input.segments);
  for (std::size_t i = 0; i < all.size();) {
    const std::span<LaneSegment> left = all.subspan(i);
    found != nullptr ? lane_.set_found(found) : lane_.set_answers(runner_->runs(), runner_->located());
    if (TD_UNLIKELY(!lane_.may_run())) break;
    const std::size_t done = lane_.run(left, output_, net::output_flush_bytes, sampled_);
    bool any = done != 0;
    for (std::size_t k = 0; k < left.size(); ++k) {
      any = any || left[k].rest != left[k].begin;
      take_replies(left[k], input.clients[i + k]);
    }
    if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(Task::write_response);
    hand_over();
    i += done;
    for (LaneSegment& s : left.subspan(done)) s.resume();
    if (!any) break;
  }
  lane_.set_answers(nullptr, nullptr);
  if (TD_LIKELY(!keeps_)) runner_->end_answers();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (TD_UNLIKELY(all[i].rest != all[i].end)) finish(all[i], input.clients[i]);
  }
  if (TD_UNLIKELY(sampled_)) {
    for (const Task task : {Task::receive, Task::send})
      context_->tasks.queries[static_cast<std::size_t>(task)].add(answered_.queries);
  }
}

// What the lane has left of the segment: a command alone, and the lane behind it, in turn.
void WireDriver::finish(LaneSegment& s, std::uint32_t client) {
  const std::span<LaneSegment> one(&s, 1);
  for (bool alone = !engine_.shared().placement.wants_search(); s.rest != s.end;) {
    s.resume();
    if (alone) {
      execute_alone(s);
      alone = false;
    } else {
      const bool is_asked = lane_.ask(one);
      if (lane_.may_run()) lane_.run(one, output_, net::output_flush_bytes, sampled_);
      if (is_asked) lane_.end_asking();
      alone = s.stopped || s.rest == s.begin;
    }
    take_replies(s, client);
    hand_over();
  }
}

void WireDriver::execute_alone(LaneSegment& s) {
  s.forget_replies(output_);
  if (s.frame != nullptr) output_.append(s.frame, udp_frame_bytes);
  const ParseStop stop = lane_.take(s);
  if (TD_UNLIKELY((stop != ParseStop::need_more && stop != ParseStop::batch_full) || !lane_.has_taken()))
    throw std::runtime_error("the parser refused a request of the benchmark");
  lane_.execute_taken(s, output_);
}

WireDriver::Answered WireDriver::answer_done() {
  answered_ = {};
  while (runner_->in_flight() != 0 && runner_->oldest_is_done()) answer_oldest();
  if (TD_UNLIKELY(dispatch_ != nullptr)) take_dispatched();
  return answered_;
}

WireDriver::Answered WireDriver::finish() {
  answered_ = {};
  while (runner_->in_flight() != 0) answer_oldest();
  while (TD_UNLIKELY(dispatch_ != nullptr) && dispatch_->in_flight() != 0) answer_dispatched();
  report(0);
  return answered_;
}

WireDriver::Answered WireDriver::finish_untimed() {
  timed_ = false;
  const Answered answered = finish();
  timed_ = true;
  return answered;
}

void WireDriver::record_latency(std::uint64_t received_ticks, std::uint64_t queries) {
  if (TD_UNLIKELY(!timed_)) return;
  const std::uint64_t ticks = cycles_now() - received_ticks;
  latency_.record(ticks, queries);
  if (TD_UNLIKELY(timeline_ != nullptr)) timeline_->add(received_ticks, ticks, queries);
}

void WireDriver::answer_oldest() {
  const std::uint64_t received = received_[runner_->oldest()];
  const std::uint64_t queries_before = answered_.queries;
  Segments& segments = segments_[runner_->oldest()];
  if (segments.empty()) {
    LaneInput& input = inputs_in_flight_[runner_->oldest()];
    run_lane(input, &runner_->begin_answer());
  } else {
    answer_frames(runner_->begin_answer(), segments);
  }
  runner_->end_answer();
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(Task::write_response);
  hand_over();
  record_latency(received, answered_.queries - queries_before);
  TD_ASSERT(answered_.queries != queries_before);
}

// Replies to streams that one run answers are handed over from where they lie; the rest are the lane's, with the
// device's answers.
void WireDriver::answer_frames(Batch& batch, Segments& segments) {
  taken_.clear();
  std::swap(taken_, segments);
  const bool has_runs = !runner_->begin_located() && runner_->begin_frames();
  if (!has_runs && runner_->located() == nullptr) runner_->end_answers();
  if (has_runs && in_datagrams_) return answer_datagrams(batch, taken_);
  std::size_t left = 0;
  for (const Segment& s : taken_) {
    if (FrameRun run; TD_LIKELY(has_runs) && TD_LIKELY(runner_->take_whole_frames(s.begin, s.end, run))) {
      answered_.queries += run.keys;
      send(s.client, runner_->reply(run), run.reply_bytes);
    } else if (TD_LIKELY(!keeps_)) {
      taken_[left++] = s;
    } else {  // replies are compared in the order of requests
      answer(batch, {s});
    }
  }
  taken_.resize(left);
  if (TD_LIKELY(!keeps_)) answer(batch, taken_);
}

// By the lane, with the device's answers.
void WireDriver::answer(Batch& batch, const Segments& segments) {
  place(batch, segments, input_);
  run_lane(input_, nullptr);
}

// An answer of a device is for one datagram, or for neighbouring raw frames.
void WireDriver::answer_datagrams(Batch& batch, const Segments& datagrams) {
  Segments left;
  for (std::size_t i = 0; i < datagrams.size(); ++i) {
    const Segment& first = datagrams[i];
    FrameRun run;
    if (runner_->take_frames(first.begin, first.end, run)) {
      answered_.queries += run.keys;
      send(first.client, runner_->reply(run), run.reply_bytes);
      while (datagrams[i].end < first.begin + run.bytes) ++i;
      continue;
    }
    left.push_back(first);
    if (TD_UNLIKELY(keeps_)) answer(batch, std::exchange(left, {}));
  }
  answer(batch, left);
}

// What the segment's headers are before. Those of raw frames are verified.
std::string_view WireDriver::requests_of(const Batch& batch, Segment segment) const {
  std::string_view all(batch.input().begin() + segment.begin, segment.end - segment.begin);
  if (!in_datagrams_) return all;
  if (is_raw_) {
    const ethernet::Udp udp = ethernet::read_frame(all.data(), static_cast<std::uint32_t>(all.size()));
    UdpFrame frame{};
    all = all.substr(ethernet::header_bytes, udp.payload_bytes);
    if (TD_UNLIKELY(udp.fault != ethernet::Fault::none || !read_udp_frame(all.data(), all.size(), frame)))
      throw std::runtime_error("a frame of the benchmark has a fault");
  }
  return all.substr(udp_frame_bytes);
}

void WireDriver::send(std::uint32_t client, const char* bytes, std::size_t count) {
  answered_.reply_bytes += count;
  sink_.put(client, bytes, count);
}

void WireDriver::hand_over() {
  if (output_.empty()) return;
  if (TD_UNLIKELY(executed_ != nullptr)) {
    TD_ASSERT(output_.externals().empty());
    executed_->replies.append(output_.data(), output_.size());
    output_replies_.clear();
    return output_.clear();
  }
  std::uint64_t begin = TD_UNLIKELY(sampled_) ? cycles_now() : 0;
  for (const auto& replies : output_replies_)
    replies.range.for_each([&](const char* bytes, std::size_t count, Location) { send(replies.client, bytes, count); });
  for (const Output::Segment& segment : output_.externals()) {
    if (segment.pin != no_location) engine_.shared().heap.unpin(segment.pin);
  }
  output_replies_.clear();
  output_.clear();
  end_task(Task::send, begin);
}

}  // namespace tandem::bench
