#include "bench/engine/wire.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "net/limits.hpp"
#include "task/write_response.hpp"

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
      parser_(options_, engine.shared().clock),
      lane_(*context_, options_),
      received_(runner_->count()),
      segments_(runner_->count()),
      owners_(runner_->count()),
      plan_(plan.plan),
      is_binary_(protocol == WireProtocol::binary),
      in_datagrams_(protocol == WireProtocol::udp || protocol == WireProtocol::raw),
      is_raw_(protocol == WireProtocol::raw),
      sink_(sink),
      reply_context_{engine.shared().heap, engine.shared().clock, options_, output_} {
  options_.item_bytes_max = engine.options().item_bytes_max;
  if (!plan.is_chosen) return;
  planner_.emplace(Preset::automatic, engine.schedulers(), engine.shared().placement);
  if (engine.steering() != nullptr) planner_->join(*engine.steering());
}

bool WireDriver::choose(std::uint32_t requests) noexcept {
  if (planner_) {
    planner_->begin(cycles_now());
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
  report(batch.requests.size());
  return answered_;
}

// What was answered, to the planner that chooses.
void WireDriver::report(std::uint64_t request_bytes) noexcept {
  if (!planner_) return;
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
  if (plan_ == plan_cpu || begins_with_input(plan_)) {
    // A connection that waits for a device has those replies first, also where the device ceases to serve.
    while (runner_->in_flight() != 0) answer_oldest();
    const Answered earlier = std::exchange(answered_, {});
    run_lane(filling, segments);
    if (segments.empty()) {
      hand_over();
      record_latency(received_ticks, answered_.queries);
    }
    answered_.queries += earlier.queries;
    answered_.reply_bytes += earlier.reply_bytes;
  }
  if (segments.empty()) {
    sampled_ = false;
    return;
  }
  parse(filling, segments, owners_[runner_->next()]);
  segments.clear();
  if (TD_UNLIKELY(sampled_)) {
    for (const Task task : {Task::receive, Task::send})
      context_->tasks.queries[static_cast<std::size_t>(task)].add(filling.size());
  }
  runner_->submit(plan_);
  while (!runner_->can_fill()) answer_oldest();
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
  while (lane_parsers_.size() <= number) lane_parsers_.emplace_back(options_, engine_.shared().clock);
  return lane_parsers_[number];
}

// Answers what the lane takes, and leaves the rest in `segments`.
void WireDriver::run_lane(const Batch& batch, Segments& segments) {
  if (in_datagrams_) return;
  lane_.set_answers(runner_->runs(), runner_->located());
  if (!lane_.may_run()) return;
  const char* const input = batch.input().begin();
  lane_segments_.clear();
  lane_clients_.clear();
  for (const Segment& s : segments) {
    TD_ASSERT(batch.input().has_behind(input + s.end, lane_padding_bytes));
    lane_segments_.push_back({.begin = input + s.begin,
                              .end = input + s.end,
                              .parser = &lane_parser(lane_segments_.size()),
                              .binary = is_binary_,
                              .rest = input + s.begin});
    lane_clients_.push_back(s.client);
  }
  for (std::size_t i = 0; i < lane_segments_.size();) {
    const std::span<LaneSegment> left = std::span(lane_segments_).subspan(i);
    lane_.set_answers(runner_->runs(), runner_->located());
    const std::size_t done = lane_.run(left, output_, net::output_flush_bytes, sampled_);
    bool any = done != 0;
    for (std::size_t k = 0; k < left.size(); ++k) {
      const LaneSegment& s = left[k];
      any = any || s.rest != s.begin;
      answered_.queries += s.queries + s.rows;
      if (s.has_replies()) {
        output_replies_.push_back(
            {lane_clients_[i + k], {&output_, s.output_begin, s.output_end, s.externals_begin, s.externals_end}});
      }
    }
    hand_over();
    if (!any) break;
    i += done;
    for (LaneSegment& s : left.subspan(done)) s.resume();
  }
  if (TD_UNLIKELY(sampled_)) {
    for (const Task task : {Task::receive, Task::send})
      context_->tasks.queries[static_cast<std::size_t>(task)].add(answered_.queries);
  }
  segments.clear();
  for (std::size_t i = 0; i < lane_segments_.size(); ++i) {
    const LaneSegment& s = lane_segments_[i];
    if (s.rest == s.end) continue;
    segments.push_back(
        {static_cast<std::uint32_t>(s.rest - input), static_cast<std::uint32_t>(s.end - input), lane_clients_[i]});
  }
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
    owner_ = owners_[runner_->oldest()].data();
    runner_->answer_oldest(*this);
  } else {
    answer_frames(runner_->begin_answer(), segments);
    runner_->end_answer();
  }
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(Task::key_compare);
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
      Segments one{s};
      answer_streams(batch, one);
    }
  }
  taken_.resize(left);
  if (TD_LIKELY(!keeps_)) answer_streams(batch, taken_);
}

// What the lane leaves, too.
void WireDriver::answer_streams(Batch& batch, Segments& streams) {
  run_lane(batch, streams);
  if (TD_LIKELY(!keeps_)) runner_->end_answers();
  finish(batch, streams);
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
    if (TD_UNLIKELY(keeps_)) finish(batch, std::exchange(left, {}));
  }
  finish(batch, left);
}

// The host's answers to what neither a device nor the lane has answered.
void WireDriver::finish(Batch& batch, const Segments& segments) {
  if (segments.empty()) return;
  parse(batch, segments, host_owners_);
  owner_ = host_owners_.data();
  runner_->run(batch, *this);
  hand_over();
  batch.clear();
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

// PP of all of it.
void WireDriver::parse(Batch& batch, const Segments& segments, Owners& owners) {
  owners.clear();
  for (const Segment& s : segments) {
    const std::string_view requests = requests_of(batch, s);
    const char *const begin = requests.data(), *const end = begin + requests.size();
    const auto [stop, consumed] = runner_->parse(batch, {parser_, begin, end, 0}, sampled_);
    if (TD_UNLIKELY(stop != ParseStop::need_more && stop != ParseStop::batch_full))
      throw std::runtime_error("the parser refused a request of the benchmark");
    if (TD_UNLIKELY(consumed != static_cast<std::size_t>(end - begin)))
      throw std::runtime_error("the parser left a part of the benchmark's requests");
    owners.push_back({batch.size(), s.client});
  }
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(Task::parse);
}

// Like a worker: much output is handed over before the batch ends, and then the epoch ends, too.
bool WireDriver::write(Batch& batch, Strip strip) {
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(Task::key_compare);
  answered_.queries += strip.size();
  for (Strip part = strip; part.begin != strip.end; part.begin = part.end) {
    while (owner_->end <= part.begin) ++owner_;
    part.end = std::min(strip.end, owner_->end);
    write_part(batch, part);
    add_replies(owner_->client);
  }
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(Task::write_response);
  if (TD_LIKELY(output_.size() + output_.pinned_bytes() < net::output_flush_bytes)) return true;
  hand_over();
  return false;
}

// Of one client.
void WireDriver::write_part(const Batch& batch, Strip strip) {
  std::uint32_t lengths = 0;
  for (std::uint32_t i = strip.begin; i < strip.end; ++i) lengths |= batch.result(i).value_bytes;
  if (TD_UNLIKELY(in_datagrams_)) {
    write_datagrams(batch, strip);
  } else if (TD_UNLIKELY(lengths > copied_value_bytes_max)) {
    write_with_pins(batch, strip);
  } else {
    task::write_response(batch, strip, reply_context_);
  }
}

// The header of each reply is that of its request, which is the only one of its datagram; before it, of a raw frame,
// the headers of a frame.
void WireDriver::write_datagrams(const Batch& batch, Strip strip) {
  const std::uint32_t frame_bytes = is_raw_ ? ethernet::header_bytes : 0;
  for (std::uint32_t i = strip.begin; i < strip.end; ++i) {
    const std::size_t begin = output_.size();
    const char* const header = batch.query(i).wire - udp_frame_bytes;
    output_.append(header - frame_bytes, frame_bytes);
    output_.append(header, udp_frame_bytes);
    task::write_response(batch, {i, i + 1}, reply_context_);
    if (!is_raw_) continue;
    const auto payload_bytes = static_cast<std::uint32_t>(output_.size() - begin - frame_bytes);
    char* const frame = output_.reserve(0) - (output_.size() - begin);
    ethernet::write_reply_headers(header - frame_bytes, payload_bytes, frame);
    ethernet::write_udp_sum(frame, payload_bytes);
  }
}

void WireDriver::write_with_pins(const Batch& batch, Strip strip) {
  for (std::uint32_t i = strip.begin; i < strip.end; ++i) {
    task::write_response(batch, {i, i + 1}, reply_context_);
    if (output_.pinned_bytes() < net::output_flush_bytes) continue;
    add_replies(owner_->client);
    hand_over();
  }
}

// Workloads have no such requests.
void WireDriver::control(Batch& /*batch*/, std::uint32_t /*i*/) {
  throw std::logic_error("the benchmark has no control queries");
}

// What was written since the last call is this client's.
void WireDriver::add_replies(std::uint32_t client) {
  const std::size_t end = output_.size(), externals_end = output_.externals().size();
  if (TD_LIKELY(!output_replies_.empty())) {
    auto& [last_client, last] = output_replies_.back();
    if (last_client == client) {
      last.end = end;
      last.externals_end = externals_end;
    } else if (last.end != end || last.externals_end != externals_end) {
      output_replies_.push_back({client, {&output_, last.end, end, last.externals_end, externals_end}});
    }
  } else if (!output_.empty()) {
    output_replies_.push_back({client, {&output_, 0, end, 0, externals_end}});
  }
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
