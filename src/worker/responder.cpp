#include "worker/responder.hpp"

#include <new>

#include "codec/range_lines.hpp"
#include "codec/range_packets.hpp"
#include "codec/reply.hpp"
#include "task/alone.hpp"
#include "task/scan.hpp"

namespace tandem::net {

Responder::Responder(WorkerState& worker, ServerControl& control, Streams& streams, Output& output)
    : worker_(worker),
      control_(control),
      streams_(streams),
      output_(output),
      reply_context_{worker.heap(), worker.server.engine.shared().clock, worker.server.protocol, output_} {}

void Responder::control(Connection* c, const Query& query) {
  worker_.context->let_go();  // it may wait for what is in flight
  const StreamRequest request = execute(c, query);
  if (TD_LIKELY(request.kind == StreamRequest::Kind::none)) return;
  if (c != nullptr) return streams_.begin(*c, request, output_);
  output_.append(codec::line::error);  // there are no streams over UDP
}

StreamRequest Responder::execute(Connection* c, const Query& query) {
  ConnectionState before = ConnectionState::reading;
  if (c != nullptr) before = c->state.exchange(ConnectionState::executing, std::memory_order_relaxed);
  StreamRequest request;
  const codec::ReplyKind reply = codec::reply_of(query);
  if (TD_UNLIKELY(reply == codec::ReplyKind::meta_range)) {
    range_lines(query);
  } else if (TD_UNLIKELY(reply == codec::ReplyKind::binary_range)) {
    codec::RangePackets packets(query, reply_context_);
    answer_range(packets);
  } else {
    request = execute_control(query, worker_.server.protocol, control_, output_);
  }
  if (c != nullptr) c->state.store(before, std::memory_order_relaxed);
  if (TD_UNLIKELY(worker_.server.stop_asked.load(std::memory_order_relaxed)) &&
      !worker_.server.stopping.load(std::memory_order_relaxed)) {
    // Before the workers stop, so that watchers are told.
    if ((worker_.server.events.flags() & watch_event::connevents) != 0 && c != nullptr)
      worker_.recorder.closed(c->fd, c->peer, CloseReason::shutdown);
    worker_.server.stop();
  }
  return request;
}

void Responder::range_lines(const Query& query) {
  worker_.counters.cmd_meta.add();
  codec::RangeLines lines(query, reply_context_);
  if (!worker_.server.protocol.ordered) {
    output_.append("CLIENT_ERROR ranges need an ordered index (option ordered)\r\n");
  } else if (!lines.error().empty()) {
    output_.append(lines.error());
  } else {
    answer_range(lines);
  }
}

void Responder::answer_range(codec::RangeReply& reply) {
  output_.reserve(codec::RangeReply::failure_bytes_max);
  try {
    const ScanEnd end = task::scan(*worker_.context, reply.range(), reply.limit(), reply);
    if (reply.removes()) {
      const std::uint64_t removed = remove_keys(reply);
      reply.finish(end, removed);
      worker_.counters.range_removes.add();
      worker_.counters.range_removed.add(removed);
    } else {
      reply.finish(end, end.count);
      worker_.counters.range_reads.add();
      worker_.counters.range_items.add(end.count);
    }
  } catch (const std::bad_alloc&) {
    reply.restart();
    reply.fail_for_memory();
  }
}

// Each as a delete does. No epoch has begun.
std::uint64_t Responder::remove_keys(codec::RangeReply& range) {
  Batch batch(1);
  std::uint64_t count = 0;
  range.begin_removal();
  std::size_t at = 0;
  for (std::size_t left = range.key_count(); left != 0; --left) {
    const std::string_view key = range.next_key(at);
    Query& query = batch.query(0);
    query = {};
    query.opcode = Opcode::remove;
    query.key = key.data();
    query.key_bytes = static_cast<std::uint8_t>(key.size());
    batch.resize(1);
    task::execute_alone(*worker_.context, batch, [&] {
      if (batch.result(0).status != Status::removed) return;
      ++count;
      range.removed(key);
    });
  }
  return count;
}

}  // namespace tandem::net
