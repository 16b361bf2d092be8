#include "bench/engine/wire.hpp"

#include <cstring>
#include <stdexcept>

#include "net/limits.hpp"
#include "net/output_range.hpp"
#include "task/write_response.hpp"

namespace tandem::bench {
namespace {

std::unique_ptr<Runner> make_runner(Engine& engine, const EnginePlan& plan, Context& context,
                                    std::uint32_t batch_queries, std::uint64_t batch_bytes) {
  if (plan.uses_devices()) require_feasible(engine.placement(), plan.plan);
  return std::make_unique<Runner>(context, plan.uses_devices() ? engine.schedulers() : nullptr, batch_queries,
                                  batch_bytes + lane_padding_bytes);
}

}  // namespace

WireDriver::WireDriver(Engine& engine, const EnginePlan& plan, std::uint32_t batch_queries, std::uint64_t batch_bytes)
    : engine_(engine),
      context_(engine.make_context()),
      runner_(make_runner(engine, plan, *context_, batch_queries, batch_bytes)),
      parser_(options_, engine.shared().clock),
      lane_(*context_, options_),
      received_(runner_->count()),
      plan_(plan.plan),
      reply_context_{engine.shared().heap, engine.shared().clock, options_, output_} {
  options_.item_bytes_max = engine.options().item_bytes_max;
}

void WireDriver::end_task(Task task, std::uint64_t& begin) noexcept {
  if (TD_UNLIKELY(sampled_)) {
    const std::uint64_t now = cycles_now();
    context_->tasks.cycles[static_cast<std::size_t>(task)].add(now - begin);
    begin = now;
  }
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(task);
}

WireDriver::Answered WireDriver::run(std::string_view requests) {
  answered_ = {};
  sampled_ = sampler_.next();
  std::uint64_t begin = TD_UNLIKELY(sampled_) ? cycles_now() : 0;
  std::uint64_t& received = received_[runner_->next()];
  received = cycles_now();
  Batch& batch = runner_->filling();
  batch.input().reuse();
  TD_ASSERT(batch.input().has_room(requests.size() + lane_padding_bytes));
  char* const input = batch.input().room();
  std::memcpy(input, requests.data(), requests.size());
  batch.input().take(requests.size());
  end_task(Task::receive, begin);
  const char* const end = input + requests.size();
  const char* const rest = run_lane(input, end);
  if (rest == end) {
    hand_over();
    latency_.record(cycles_now() - received, answered_.queries);
    sampled_ = false;
    return answered_;
  }
  const auto [stop, consumed] = runner_->parse(batch, {parser_, rest, end, 0}, sampled_);
  if (TD_UNLIKELY(stop != ParseStop::need_more && stop != ParseStop::batch_full))
    throw std::runtime_error("the parser refused a request of the benchmark");
  if (TD_UNLIKELY(consumed != static_cast<std::size_t>(end - rest)))
    throw std::runtime_error("the parser left a part of the benchmark's requests");
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(Task::parse);
  if (TD_UNLIKELY(sampled_)) {
    for (const Task task : {Task::receive, Task::send})
      context_->tasks.queries[static_cast<std::size_t>(task)].add(batch.size());
  }
  runner_->submit(plan_);
  while (!runner_->can_fill()) answer_oldest();
  sampled_ = false;
  return answered_;
}

// Returns how far it got.
const char* WireDriver::run_lane(const char* begin, const char* end) {
  const Parser::Begins begins = parser_.begins();
  if (plan_ != plan_cpu || begins == Parser::Begins::neither || !lane_.may_run()) return begin;
  LaneSegment segment{.begin = begin, .end = end, .binary = begins == Parser::Begins::packet};
  while (lane_.run({&segment, 1}, output_, net::output_flush_bytes, sampled_) == 0) {
    if (segment.rest == segment.begin) break;
    answered_.queries += segment.queries;
    hand_over();
    segment = {.begin = segment.rest, .end = end, .binary = segment.binary};
  }
  answered_.queries += segment.queries;
  if (TD_UNLIKELY(sampled_)) {
    for (const Task task : {Task::receive, Task::send})
      context_->tasks.queries[static_cast<std::size_t>(task)].add(answered_.queries);
  }
  return segment.rest;
}

WireDriver::Answered WireDriver::finish() {
  answered_ = {};
  while (runner_->in_flight() != 0) answer_oldest();
  return answered_;
}

void WireDriver::answer_oldest() {
  const std::uint64_t received = received_[runner_->oldest()];
  const std::uint64_t queries_before = answered_.queries;
  runner_->answer_oldest(*this);
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(Task::key_compare);
  hand_over();
  latency_.record(cycles_now() - received, answered_.queries - queries_before);
  TD_ASSERT(answered_.queries != queries_before);
}

// Like a worker: much output is handed over before the batch ends, and then the epoch ends, too.
bool WireDriver::write(Batch& batch, Strip strip) {
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(Task::key_compare);
  answered_.queries += strip.size();
  std::uint32_t lengths = 0;
  for (std::uint32_t i = strip.begin; i < strip.end; ++i) lengths |= batch.result(i).value_bytes;
  if (TD_UNLIKELY(lengths > copied_value_bytes_max)) {
    write_with_pins(batch, strip);
  } else {
    task::write_response(batch, strip, reply_context_);
  }
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(Task::write_response);
  if (TD_LIKELY(output_.size() + output_.pinned_bytes() < net::output_flush_bytes)) return true;
  hand_over();
  return false;
}

void WireDriver::write_with_pins(const Batch& batch, Strip strip) {
  for (std::uint32_t i = strip.begin; i < strip.end; ++i) {
    task::write_response(batch, {i, i + 1}, reply_context_);
    if (output_.pinned_bytes() >= net::output_flush_bytes) hand_over();
  }
}

// Workloads have no such requests.
void WireDriver::control(Batch& /*batch*/, std::uint32_t /*i*/) {
  throw std::logic_error("the benchmark has no control queries");
}

void WireDriver::hand_over() {
  if (output_.empty()) return;
  std::uint64_t begin = TD_UNLIKELY(sampled_) ? cycles_now() : 0;
  const net::OutputRange all{&output_, 0, output_.size(), 0, output_.externals().size()};
  answered_.reply_bytes += output_.size() + output_.pinned_bytes();
  if (TD_UNLIKELY(replies_ != nullptr))
    all.for_each([&](const char* bytes, std::size_t count, Location) { replies_->append(bytes, count); });
  if (TD_UNLIKELY(all.has_externals())) {
    for (const Output::Segment& segment : output_.externals()) engine_.shared().heap.unpin(segment.pin);
  }
  output_.clear();
  end_task(Task::send, begin);
}

}  // namespace tandem::bench
