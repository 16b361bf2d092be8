#include "bench/load/plan.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "codec/udp.hpp"

namespace tandem::load {

using workload::OpKind;

Plan::Plan(const Options& given) : options(given), frame_bytes(given.udp ? udp_frame_bytes : 0) {
  if (!options.trace.empty()) {
    trace.emplace(workload::Trace::read(options.trace));
    partition.emplace(*trace, options.connections);
    if (options.replay_speed > 0 && !trace->has_times())
      throw std::invalid_argument("the trace has no times to replay it by");
    phases.push_back({options.workloads.front(), nullptr, nullptr});
    phases.back().codec = make_codec(options.protocol, Contents(*trace), options.verify, options.getk);
    return;
  }
  for (const workload::Spec& spec : options.workloads) {
    Phase phase{spec, std::make_unique<workload::KeySpace>(spec), nullptr};
    phase.codec = make_codec(options.protocol, Contents(*phase.keys), options.verify, options.getk);
    phases.push_back(std::move(phase));
  }
}

std::uint64_t Plan::quota_of(std::uint32_t index) const noexcept {
  if (options.ops == 0) return UINT64_MAX;
  return options.ops / options.connections + (index < options.ops % options.connections ? 1 : 0);
}

double Plan::ops_per_batch() const noexcept {
  if (options.multiget <= 1) return options.pipeline;
  double gets = 0;
  for (const Phase& phase : phases) gets += phase.spec.mix[OpKind::get] / static_cast<double>(phases.size());
  return options.pipeline * options.multiget / std::max(gets, 0.5 / options.multiget);
}

RequestMaker::RequestMaker(const Plan& plan, std::uint32_t connection)
    : plan_(plan), quota_(plan.quota_of(connection)) {
  if (plan.partition) {
    records_ = plan.partition->stream(connection);
    quota_ = std::min<std::uint64_t>(quota_, records_.size());
    return;
  }
  for (const Phase& phase : plan.phases) streams_.emplace_back(phase.spec, connection, plan.options.connections);
}

std::uint8_t RequestMaker::phase_at(std::uint64_t now_ns) const noexcept {
  if (plan_.phases.size() == 1) return 0;
  const Alternation& alternation = plan_.options.alternation;
  const std::uint64_t turn = alternation.every_ops != 0
                                 ? ops_made_ / alternation.every_ops
                                 : (now_ns - std::min(now_ns, plan_.start_ns)) / alternation.every_ns;
  return static_cast<std::uint8_t>(turn % plan_.phases.size());
}

std::uint64_t RequestMaker::next_due_ns() const noexcept {
  if (!has_more()) return UINT64_MAX;
  return workload::Trace::due_ns(plan_.trace->records()[records_[ops_made_]], plan_.options.replay_speed);
}

void RequestMaker::make(Batch& batch, std::uint64_t now_ns) {
  batch.clear();
  for (std::uint32_t i = 0; i < plan_.options.pipeline && has_more(); ++i) {
    const std::uint8_t phase = phase_at(now_ns);
    if (plan_.options.multiget > 1) {
      make_multiget_slot(batch, phase);
    } else {
      ++batch.ops;
      add_op(batch, draw(phase), phase);
    }
  }
}

RequestMaker::Drawn RequestMaker::draw(std::uint8_t phase) noexcept {
  if (plan_.trace) {
    const workload::TraceRecord& record = plan_.trace->records()[records_[ops_made_++]];
    return {record.kind, record.key, record.value_bytes, record.ttl_s, 0};
  }
  ++ops_made_;
  const workload::Op op = streams_[phase].next();
  const bool is_write = op.kind != OpKind::get && op.kind != OpKind::remove && op.kind != OpKind::scan;
  const Phase& from = plan_.phases[phase];
  return {op.kind, op.key, is_write ? from.keys->value_bytes(op.key) : 0, from.spec.ttl_s, op.scan_keys};
}

// One get of `multiget` keys, preceded by the other operations drawn until there are enough keys.
void RequestMaker::make_multiget_slot(Batch& batch, std::uint8_t phase) {
  get_keys_.clear();
  for (std::uint32_t others = 0; others < others_per_key_max * plan_.options.multiget && has_more();) {
    const Drawn drawn = draw(phase);
    ++batch.ops;
    if (drawn.kind != OpKind::get) {
      add_op(batch, drawn, phase);
      ++others;
      continue;
    }
    get_keys_.push_back(drawn.key);
    if (get_keys_.size() == plan_.options.multiget) break;
  }
  if (get_keys_.empty()) return;
  Request request{};
  request.key_count = static_cast<std::uint32_t>(get_keys_.size());
  request.phase = phase;
  request.kind = RequestKind::multiget;
  request.op = OpKind::get;
  add(batch, request, get_keys_.data());
}

void RequestMaker::add_op(Batch& batch, const Drawn& drawn, std::uint8_t phase) {
  Request request{};
  request.key_count = 1;
  request.value_bytes = drawn.value_bytes;
  request.ttl_s = drawn.ttl_s;
  request.phase = phase;
  request.op = drawn.kind;
  switch (drawn.kind) {
    case OpKind::get:
    case OpKind::read_modify_write:  // its write follows its reply
      request.kind = RequestKind::get;
      break;
    case OpKind::scan:
      request.kind = RequestKind::scan;
      request.scan_items = drawn.scan_items;
      break;
    case OpKind::set:
    case OpKind::insert:
      request.kind = RequestKind::set;
      break;
    case OpKind::remove:
      request.kind = RequestKind::remove;
      break;
    case OpKind::touch:
      request.kind = RequestKind::touch;
      break;
  }
  add(batch, request, &drawn.key);
}

void RequestMaker::make_follow_ups(Batch& batch, const std::vector<FollowUp>& follow_ups) {
  batch.clear();
  for (const FollowUp& one : follow_ups) {
    Request request{};
    request.start_ns = one.start_ns;
    request.key_count = 1;
    request.value_bytes = one.value_bytes;
    request.ttl_s = one.ttl_s;
    request.phase = one.phase;
    request.kind = RequestKind::set;
    request.op = OpKind::read_modify_write;
    add(batch, request, &one.key);
  }
}

void RequestMaker::add(Batch& batch, Request request, const std::uint64_t* keys) {
  request.key = keys[0];
  request.opaque = opaque_;
  opaque_ += request.key_count + 1;
  const Codec& codec = plan_.codec_of(request);
  const std::size_t room = batch.size + plan_.frame_bytes + Codec::request_bytes_max(request);
  if (batch.buffer.size() < room) batch.buffer.resize(2 * room);
  char* const start = batch.buffer.data() + batch.size + plan_.frame_bytes;
  const char* const end = codec.write(request, keys, start);
  request.bytes = static_cast<std::uint32_t>(end - start);
  batch.size = static_cast<std::size_t>(end - batch.buffer.data());
  batch.requests.push_back(request);
  if (request.key_count > 1) batch.keys.insert(batch.keys.end(), keys, keys + request.key_count);
}

}  // namespace tandem::load
