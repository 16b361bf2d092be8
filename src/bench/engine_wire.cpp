#include "bench/engine_wire.hpp"

#include <cstring>
#include <stdexcept>

#include "net/limits.hpp"
#include "net/output_range.hpp"

namespace tandem::bench {

WireDriver::WireDriver(Engine& engine, const EnginePlan& plan, std::uint32_t batch_queries, std::uint64_t batch_bytes)
    : engine_(engine),
      context_(engine.make_context()),
      runner_(plan.make(*context_)),
      parser_(options_, engine.shared().clock),
      batch_(batch_queries),
      arena_(std::make_unique_for_overwrite<char[]>(batch_bytes)),
      arena_bytes_(batch_bytes) {
  options_.item_bytes_max = engine.options().item_bytes_max;
  batch_.plan = plan.plan;
}

void WireDriver::end_task(Task task, std::uint64_t& begin) noexcept {
  if (TD_UNLIKELY(sampled_)) {
    const std::uint64_t now = cycles_now();
    context_->tasks.cycles[static_cast<std::size_t>(task)].add(now - begin);
    begin = now;
  }
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(task);
}

std::uint64_t WireDriver::run(std::string_view requests) {
  TD_ASSERT(requests.size() <= arena_bytes_);
  reply_bytes_ = 0;
  sampled_ = sampler_.next();
  std::uint64_t begin = TD_UNLIKELY(sampled_) ? cycles_now() : 0;
  std::memcpy(arena_.get(), requests.data(), requests.size());
  end_task(Task::receive, begin);
  const char* at = arena_.get();
  const char* const end = at + requests.size();
  std::uint64_t queries = 0;
  for (;;) {
    std::size_t consumed = 0;
    const ParseStop stop = parser_.parse(at, end, batch_, scratch_, 0, consumed);
    at += consumed;
    end_task(Task::parse, begin);
    if (TD_UNLIKELY(stop != ParseStop::need_more && stop != ParseStop::batch_full))
      throw std::runtime_error("the parser refused a request of the benchmark");
    if (batch_.size() == 0) break;
    queries += batch_.size();
    run_batch();
    if (TD_UNLIKELY(sampled_)) begin = cycles_now();
    if (TD_LIKELY(at == end)) break;
  }
  if (TD_UNLIKELY(at != end)) throw std::runtime_error("the parser left a part of the benchmark's requests");
  if (TD_UNLIKELY(sampled_)) {
    for (const Task task : {Task::receive, Task::parse, Task::send})
      context_->tasks.queries[static_cast<std::size_t>(task)].add(queries);
    sampled_ = false;
  }
  return reply_bytes_;
}

void WireDriver::run_batch() {
  runner_->run(batch_, *this);
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(Task::index);
  hand_over();
  batch_.clear();
  scratch_.clear();
}

// As a worker does it: much output is handed over before the batch ends, and then the epoch ends, too.
bool WireDriver::write(Batch& batch, Strip strip) {
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(Task::index);
  std::uint32_t lengths = 0;
  for (std::uint32_t i = strip.begin; i < strip.end; ++i) lengths |= batch.result(i).value_bytes;
  if (TD_UNLIKELY(lengths > copied_value_bytes_max)) {
    write_with_pins(batch, strip);
  } else {
    write_replies(batch, strip.begin, strip.end, engine_.shared().heap, engine_.shared().clock, options_, output_);
  }
  if (TD_UNLIKELY(probe_ != nullptr)) probe_->ended(Task::write_response);
  if (TD_LIKELY(output_.size() + output_.pinned_bytes() < net::output_flush_bytes)) return true;
  hand_over();
  return false;
}

void WireDriver::write_with_pins(const Batch& batch, Strip strip) {
  for (std::uint32_t i = strip.begin; i < strip.end; ++i) {
    write_replies(batch, i, i + 1, engine_.shared().heap, engine_.shared().clock, options_, output_);
    if (output_.pinned_bytes() >= net::output_flush_bytes) hand_over();
  }
}

// No request of a workload is one.
void WireDriver::control(Batch& /*batch*/, std::uint32_t /*i*/) {
  throw std::logic_error("the benchmark has no control queries");
}

void WireDriver::hand_over() {
  if (output_.empty()) return;
  std::uint64_t begin = TD_UNLIKELY(sampled_) ? cycles_now() : 0;
  const net::OutputRange all{&output_, 0, output_.size(), 0, output_.externals().size()};
  reply_bytes_ += output_.size() + output_.pinned_bytes();
  if (TD_UNLIKELY(replies_ != nullptr))
    all.for_each([&](const char* bytes, std::size_t count, Location) { replies_->append(bytes, count); });
  if (TD_UNLIKELY(all.has_externals())) {
    for (const Output::Segment& segment : output_.externals()) engine_.shared().heap.unpin(segment.pin);
  }
  output_.clear();
  end_task(Task::send, begin);
}

}  // namespace tandem::bench
