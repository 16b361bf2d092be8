#include "bench/engine/wire.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "codec/binary.hpp"
#include "codec/ethernet.hpp"
#include "codec/udp.hpp"

namespace tandem::bench {
namespace {

std::unique_ptr<Runner> make_runner(Engine& engine, const EnginePlan& plan, Context& context,
                                    std::uint32_t batch_queries, std::uint64_t batch_bytes) {
  auto runner = std::make_unique<Runner>(context, plan.uses_devices() ? engine.schedulers() : nullptr, batch_queries,
                                         batch_bytes + lane_padding_bytes, Runner::Frames::yes);
  // Else the host would do everything, unless devices search for queries instead.
  if (begins_with_input(plan.plan) && !runner->has_frames(plan.plan) &&
      (plan.placement != tandem::Placement::on_device || engine.schedulers()->count() == 1))
    throw std::runtime_error("the device has no memory for plan " + plan.plan.text());
  return runner;
}

// Of one plan for all batches, or as a server with preset auto has it.
Planner make_planner(Engine& engine, const EnginePlan& plan) {
  const IndexPlacement& placement = engine.shared().placement;
  if (plan.uses_devices() && !plan.is_chosen) return {plan.plan, engine.schedulers(), placement};
  Planner planner(plan.is_chosen ? Preset::automatic : Preset::cpu, engine.schedulers(), placement);
  planner.join(engine.steering());
  return planner;
}

ProtocolOptions protocol_of(const Engine& engine) {
  ProtocolOptions options;
  options.item_bytes_max = engine.options().item_bytes_max;
  return options;
}

}  // namespace

WireDriver::WireDriver(Engine& engine, const EnginePlan& plan, WireProtocol protocol, std::uint32_t batch_queries,
                       std::uint64_t batch_bytes, SinkKind sink)
    : engine_(engine),
      context_(engine.make_context()),
      options_(protocol_of(engine)),
      planner_(make_planner(engine, plan)),
      meter_(*context_, false),
      work_(*context_, options_, planner_, make_runner(engine, plan, *context_, batch_queries, batch_bytes), meter_,
            *this, {.in_order = !plan.answers_hot}),
      received_(batch_bytes + lane_padding_bytes),
      is_binary_(protocol == WireProtocol::binary),
      in_datagrams_(protocol == WireProtocol::udp || protocol == WireProtocol::raw),
      is_raw_(protocol == WireProtocol::raw),
      sink_(sink) {}

bool WireDriver::asks_device(std::uint32_t requests) noexcept {
  if (planner_.is_steered()) planner_.begin(cycles_now());
  return work_.asks_device(requests);
}

WireDriver::Answered WireDriver::run(const Tape::Slice& batch, std::uint64_t received_ticks) {
  answered_ = {};
  bytes_ += batch.requests.size();
  work_.begin_pass(received_ticks);
  if (TD_UNLIKELY(dispatch_ != nullptr)) {
    run_dispatched(batch, received_ticks);
  } else {
    receive(batch);
    work_.end();
  }
  work_.end_pass();
  return answered_;
}

// As each connection of a server has its own parser.
WireDriver::Client& WireDriver::client(std::size_t number) {
  while (clients_.size() <= number) {
    Client& added = clients_.emplace_back(options_, engine_.shared().clock);
    added.number = has_clients() ? static_cast<std::uint32_t>(clients_.size() - 1) : 0;
    added.parser.begin(is_binary_ ? static_cast<char>(codec::binary::request_magic) : 'g');
  }
  return clients_[number];
}

// RV: what each connection has sent is placed as a worker places it.
void WireDriver::receive(const Tape::Slice& batch) {
  {
    const Meter::Timed timed(meter_, Task::receive);
    sink_.add_clients(has_clients() ? batch.ends.size() : 1);
    const char* ring = nullptr;
    if (is_raw_) {
      std::memcpy(work_.room(batch.requests.size()), batch.requests.data(), batch.requests.size());
      ring = work_.place(batch.requests.size());
    }
    std::uint32_t from = 0;
    std::size_t number = 0;
    for (const std::uint32_t end : batch.ends) {
      const std::uint32_t begin = std::exchange(from, end);
      const std::size_t bytes = end - begin;
      if (!is_raw_) std::memcpy(work_.room(bytes), batch.requests.data() + begin, bytes);
      Client& sender = client(number++);
      if (TD_LIKELY(!in_datagrams_)) {
        work_.add(&sender, sender.parser, bytes);
      } else {
        work_.add_placed(&sender, sender.parser, is_raw_ ? ring + begin : work_.place(bytes), bytes, is_raw_);
      }
    }
  }
  end_task(Task::receive);
}

WireDriver::Answered WireDriver::answer_done() {
  answered_ = {};
  while (work_.answers_ready()) work_.answer_oldest();
  if (TD_UNLIKELY(dispatch_ != nullptr)) take_dispatched();
  return answered_;
}

WireDriver::Answered WireDriver::finish() {
  answered_ = {};
  work_.finish();
  while (TD_UNLIKELY(dispatch_ != nullptr) && dispatch_->in_flight() != 0) answer_dispatched();
  if (TD_UNLIKELY(kept_ != nullptr)) take_kept();
  if (planner_.is_steered()) planner_.pause(Planner::work_of(context_->counters, work_.bytes()));
  return answered_;
}

WireDriver::Answered WireDriver::finish_untimed() {
  timed_ = false;
  const Answered answered = finish();
  timed_ = true;
  return answered;
}

void WireDriver::record_latency(std::uint64_t received_ticks, std::uint64_t queries, bool by_hot_keys) {
  if (TD_UNLIKELY(!timed_)) return;
  const std::uint64_t ticks = cycles_now() - received_ticks;
  latency_.record(ticks, queries);
  if (TD_UNLIKELY(timeline_ != nullptr)) timeline_->add(received_ticks, ticks, queries);
  if (TD_LIKELY(!by_hot_keys)) return;
  hot_latency_.record(ticks, queries);
  if (TD_UNLIKELY(hot_timeline_ != nullptr)) hot_timeline_->add(received_ticks, ticks, queries);
}

void WireDriver::take_kept() {
  for (Client& c : clients_) kept_->append(std::exchange(c.kept, {}));
}

// --- Sink

void WireDriver::put(Client& to, const char* bytes, std::size_t count) {
  if (TD_UNLIKELY(probe_ != nullptr) && !std::exchange(sends_, true)) probe_->ended(Task::write_response);
  answered_.reply_bytes += count;
  bytes_ += count;
  sink_.keep(TD_UNLIKELY(kept_ != nullptr) ? &to.kept : nullptr);
  sink_.put(to.number, bytes, count);
}

void WireDriver::send(Asker& to, const OutputRange& replies, bool /*ends*/) {
  if (TD_UNLIKELY(executes_parcels_)) {
    TD_ASSERT(!replies.has_externals());
    static_cast<Parcel*>(to.owner)->replies.append(replies.output->data() + replies.begin, replies.copied_bytes());
    return;
  }
  Client& c = *static_cast<Client*>(to.owner);
  replies.for_each([&](const char* bytes, std::size_t count, Location pin) {
    put(c, bytes, count);
    if (TD_UNLIKELY(pin != no_location)) engine_.shared().heap.unpin(pin);
  });
}

void WireDriver::send_message(Asker& to, const OutputRange& message) {
  if (TD_UNLIKELY(message.bytes() == udp_frame_bytes)) return;  // of a key that is not hot: the answer is to come
  if (TD_UNLIKELY(is_raw_)) return send_frame(to, message);
  send(to, message, false);
}

// As a packet ring has it: the headers of a frame before each reply.
void WireDriver::send_frame(Asker& to, const OutputRange& message) {
  const char* const headers = to.frame - ethernet::header_bytes;
  frame_.assign(headers, headers + ethernet::header_bytes);
  message.for_each([&](const char* bytes, std::size_t count, Location pin) {
    frame_.insert(frame_.end(), bytes, bytes + count);
    if (TD_UNLIKELY(pin != no_location)) engine_.shared().heap.unpin(pin);
  });
  const auto payload_bytes = static_cast<std::uint32_t>(frame_.size() - ethernet::header_bytes);
  ethernet::write_reply_headers(headers, payload_bytes, frame_.data());
  ethernet::write_udp_sum(frame_.data(), payload_bytes);
  put(*static_cast<Client*>(to.owner), frame_.data(), frame_.size());
}

void WireDriver::send_whole(Asker& to, std::string_view replies) {
  put(*static_cast<Client*>(to.owner), replies.data(), replies.size());
}

void WireDriver::end_run(std::uint64_t /*queries*/, std::uint64_t /*metas*/) {
  if (TD_UNLIKELY(sends_)) end_task(Task::send);
  sends_ = false;
}

void WireDriver::answered_all(Intake& in) {
  if (TD_UNLIKELY(executes_parcels_)) return;
  const auto has_rest = [](const LaneSegment& s) { return s.frame != nullptr && s.rest != s.end; };
  if (TD_UNLIKELY(std::ranges::any_of(in.segments, has_rest)))
    throw std::runtime_error("the parser refused a datagram of the benchmark");
  answered_.queries += in.queries;
  record_latency(in.begin, in.queries, in.hot);
  if (TD_UNLIKELY(context_->hot_latency != nullptr)) meter_.record(in);  // by which the router chooses a threshold
  // What follows of a batch of which hot keys were answered is put in its place.
  if (TD_UNLIKELY(kept_ != nullptr) && !in.hot) take_kept();
}

void WireDriver::ended(Asker& /*asker*/, const LaneSegment& segment, std::uint64_t /*since*/) {
  if (segment.rest != segment.end) throw std::runtime_error("the parser refused a request of the benchmark");
}

void WireDriver::control(Asker& /*asker*/, const Query& /*query*/) {
  throw std::runtime_error("the benchmark has no answer to a control command");
}

void WireDriver::drop_message(Asker& /*asker*/, const OutputRange& /*message*/) {
  throw std::runtime_error("a reply to a datagram of the benchmark is not whole");
}

}  // namespace tandem::bench
