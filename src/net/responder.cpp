#include "net/responder.hpp"

#include <algorithm>
#include <new>

#include "codec/command.hpp"
#include "codec/range_lines.hpp"
#include "codec/range_packets.hpp"
#include "codec/reply.hpp"
#include "codec/udp.hpp"
#include "pipeline/executor.hpp"
#include "task/scan.hpp"
#include "task/write_response.hpp"

namespace tandem::net {
namespace {

// A get of the text protocol, which changes nothing and can be executed again.
bool is_repeatable(const Query& q) noexcept { return q.is_plain_read() && !q.has(option::meta); }

// The query behind this one is of the same connection or datagram.
bool has_more(const Batch& batch, std::uint32_t i) noexcept {
  return i + 1 < batch.size() && batch.query(i + 1).connection == batch.query(i).connection;
}

}  // namespace

Responder::Responder(WorkerState& worker, ServerControl& control, ConnectionLimits& limits, Sender& sender,
                     Streams& streams)
    : worker_(worker),
      control_(control),
      limits_(limits),
      sender_(sender),
      streams_(streams),
      reply_context_{worker.heap(), worker.server.engine.shared().clock, worker.server.protocol, output_},
      messages_(worker, limits, sender, output_) {}

void Responder::begin(Intake& in) noexcept {
  entries_ = in.entries;
  notes_sending_ = in.sampled;
  flushed_ = written_ = 0;
  TD_ASSERT(!message_open_ || entries_.front().open);
}

void Responder::end() {
  flush();
  entries_ = {};
  flushed_ = written_ = 0;
}

// Ends the epoch where something was sent: that took a while, and the connection may be blocked now.
bool Responder::write(Batch& batch, Strip strip) {
  sent_ = false;
  for (std::uint32_t i = strip.begin; i < strip.end;) {
    const std::uint32_t entry = batch.query(i).connection;
    std::uint32_t end = i + 1;
    while (end < strip.end && batch.query(end).connection == entry) ++end;
    write_run(batch, i, end);
    i = end;
  }
  if (TD_UNLIKELY(worker_.recorder.flags() != 0)) worker_.recorder.strip_done();
  flush_if_large(batch, strip.end);
  if (TD_UNLIKELY(sent_)) skip_if_stuck(batch, strip.end);
  if (strip.size() != 0 && has_more(batch, strip.end - 1)) {
    const std::uint32_t index = batch.query(strip.end).connection;
    Entry& entry = entries_[index];
    if (TD_UNLIKELY(entry.skips)) return !sent_;
    if (TD_LIKELY(entry.connection != nullptr)) {
      if (TD_LIKELY(!limits_.turn_has_ended(index))) return !sent_;
      end_turn(entry);
    } else {
      const OutputRange range = entry.range_in(output_);
      if (TD_LIKELY(message_open_ ? messages_.may_grow(*entry.datagram, range) : messages_.may_begin(*entry.datagram)))
        return !sent_;
      entry.open = message_open_ = false;
    }
    skip_from(batch, strip.end);
    return false;
  }
  return !sent_;
}

// The turn is over: later queries of the connection wait for the next pass.
void Responder::end_turn(Entry& entry) noexcept {
  worker_.counters.conn_yields.add();
  entry.turn_ended = true;
}

void Responder::control(Batch& batch, std::uint32_t i) {
  Entry& entry = entries_[batch.query(i).connection];
  if (entry.datagram != nullptr && !entry.skips && !open_message(entry)) skip_from(batch, i);
  if (!entry.skips) {
    open_output(entry);
    const StreamRequest request = execute(entry.connection, batch.query(i));
    if (TD_UNLIKELY(request.kind != StreamRequest::Kind::none)) {
      if (entry.connection != nullptr) {
        streams_.begin(*entry.connection, request, output_);
      } else {
        output_.append(codec::line::error);  // there are no streams over UDP
      }
    }
    mark_output(entry);
    // Each may take as long as a hundred other requests: a few are a turn.
    if (TD_LIKELY(entry.datagram == nullptr)) {
      const bool ends_turn = ++entry.controls >= worker_.server.options.requests_per_event ||
                             limits_.turn_has_ended(batch.query(i).connection);
      const bool continues = entry.connection->stream == nullptr;
      if (TD_UNLIKELY(!continues || ends_turn) && has_more(batch, i)) {
        if (continues) end_turn(entry);
        skip_from(batch, i + 1);
      }
    } else {
      ++entry.datagram->controls;
      end_message(entry);
    }
  }
  flush_if_large(batch, i + 1);
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

namespace {
// Counts the keys that were removed, and tells the reply.
class RemovedKeys final : public ResponseWriter {
 public:
  explicit RemovedKeys(codec::RangeReply& reply) noexcept : reply_(reply) {}
  bool write(Batch& batch, Strip strip) override {
    for (std::uint32_t i = strip.begin; i < strip.end; ++i) {
      if (batch.result(i).status != Status::removed) continue;
      ++count;
      reply_.removed(batch.query(i).key_view());
    }
    return true;
  }
  void control(Batch&, std::uint32_t) override {}
  std::uint64_t count = 0;

 private:
  codec::RangeReply& reply_;
};
}  // namespace

// Each as a delete does. No epoch has begun.
std::uint64_t Responder::remove_keys(codec::RangeReply& range) {
  constexpr std::uint32_t at_once = 128;
  Batch batch(at_once);
  RemovedKeys removed(range);
  Executor executor(*worker_.context);
  range.begin_removal();
  std::size_t at = 0;
  for (std::size_t left = range.key_count(); left != 0;) {
    for (; left != 0 && !batch.full(); --left) {
      const std::string_view key = range.next_key(at);
      Query& query = batch.next();
      query = {};
      query.opcode = Opcode::remove;
      query.key = key.data();
      query.key_bytes = static_cast<std::uint8_t>(key.size());
      batch.commit();
    }
    executor.run(batch, removed);
    batch.clear();
  }
  return removed.count;
}

// Replies to queries [begin, end) of one entry.
void Responder::write_run(Batch& batch, std::uint32_t begin, std::uint32_t end) {
  Entry& entry = entries_[batch.query(begin).connection];
  if (TD_UNLIKELY(entry.skips)) return;
  if (TD_UNLIKELY(entry.connection == nullptr)) return write_datagram(batch, begin, end);
  std::uint32_t lengths = 0, metas = 0;
  for (std::uint32_t i = begin; i < end; ++i) {
    lengths |= batch.result(i).value_bytes;
    metas += batch.query(i).has(option::meta) ? 1u : 0u;
  }
  worker_.counters.cmd_meta.add(metas);
  if (TD_UNLIKELY(lengths > copied_value_bytes_max)) return write_run_with_pins(batch, begin, end);
  open_output(entry);
  task::write_response(batch, {begin, end}, reply_context_);
  if (TD_UNLIKELY(worker_.recorder.flags() != 0)) worker_.recorder.answered(batch, begin, end, entry.connection->fd);
  mark_output(entry);
}

// The same where values may be pinned: one by one, so that a client that does not read pins few of them. All queries of
// the run are executed already; those that cannot be executed again must be answered.
void Responder::write_run_with_pins(Batch& batch, std::uint32_t begin, std::uint32_t end) {
  Entry& entry = entries_[batch.query(begin).connection];
  std::uint32_t repeatable_from = end;
  while (repeatable_from > begin && is_repeatable(batch.query(repeatable_from - 1))) --repeatable_from;
  for (std::uint32_t i = begin; i < end; ++i) {
    open_output(entry);
    task::write_response(batch, {i, i + 1}, reply_context_);
    if (TD_UNLIKELY(worker_.recorder.flags() != 0)) worker_.recorder.answered(batch, i, i + 1, entry.connection->fd);
    mark_output(entry);
    if (output_.pinned_bytes() < output_flush_bytes || i + 1 == end) continue;
    flush();
    if (entry.connection->is_closed()) return;
    if (!entry.connection->is_blocked() || i + 1 < repeatable_from) continue;
    StoreCounters& counters = worker_.context->counters;
    for (std::uint32_t again = i + 1; again < end; ++again) {
      counters.cmd_get.add(~std::uint64_t{0});  // minus one: it is counted when it is answered
      (batch.result(again).status == Status::hit ? counters.get_hits : counters.get_misses).add(~std::uint64_t{0});
    }
    skip_from(batch, i + 1);
    return;
  }
}

// Each command of a datagram gets a reply of its own.
void Responder::write_datagram(Batch& batch, std::uint32_t begin, std::uint32_t end) {
  Entry& entry = entries_[batch.query(begin).connection];
  for (std::uint32_t i = begin; i < end;) {
    std::uint32_t next = i;
    bool ends = false;
    while (next < end && !ends) ends = ends_command(batch.query(next++));
    if (TD_UNLIKELY(!open_message(entry))) {
      sent_ = true;  // what is skipped was looked at in this epoch
      return skip_from(batch, i);
    }
    task::write_response(batch, {i, next}, reply_context_);
    if (TD_UNLIKELY(worker_.recorder.flags() != 0))
      worker_.recorder.answered(batch, i, next, entry.datagram->reply.port->fd());
    mark_output(entry);
    if (batch.query(i).has(option::meta)) worker_.counters.cmd_meta.add();  // one query is one command
    entry.datagram->executed += next - i;
    message_open_ = !ends;
    if (ends) end_message(entry);
    i = next;
  }
}

void Responder::open_output(Entry& entry) {
  if (entry.open) return;
  entry.open = true;
  entry.output_begin = output_.size();
  entry.externals_begin = output_.externals().size();
}

void Responder::mark_output(Entry& entry) noexcept {
  entry.output_end = output_.size();
  entry.externals_end = output_.externals().size();
  written_ = static_cast<std::size_t>(&entry - entries_.data()) + 1;
}

// For the next query of a datagram. False: it gets no more answers.
bool Responder::open_message(Entry& entry) {
  if (entry.open) return true;
  if (TD_UNLIKELY(!messages_.may_begin(*entry.datagram))) return false;
  open_output(entry);
  write_udp_frame({entry.datagram->reply.request_id, 0, 1}, output_.reserve(udp_frame_bytes));
  output_.commit(udp_frame_bytes);
  return true;
}

void Responder::end_message(Entry& entry) {
  messages_.end(*entry.datagram, entry.range_in(output_));
  entry.open = false;
}

// Sends the output if it is large. `next`: the query after the last answered one.
void Responder::flush_if_large(Batch& batch, std::uint32_t next) {
  if (TD_LIKELY(output_.size() + output_.pinned_bytes() < output_flush_bytes)) return;
  if (message_open_) {
    // A datagram's command has more queries: its reply is sent when it is whole, or dropped when it is too long.
    Entry& entry = entries_[written_ - 1];
    if (messages_.may_grow(*entry.datagram, entry.range_in(output_))) return;
    entry.open = message_open_ = false;
    skip_from(batch, next);
  }
  flush();
  skip_if_stuck(batch, next);
}

// If query i's connection is blocked or closed, neither it nor that connection's later queries are executed.
void Responder::skip_if_stuck(Batch& batch, std::uint32_t i) {
  if (i >= batch.size()) return;
  const Entry& entry = entries_[batch.query(i).connection];
  if (entry.connection == nullptr || entry.skips) return;
  if (entry.connection->is_blocked() || entry.connection->is_closed()) skip_from(batch, i);
}

void Responder::skip_from(Batch& batch, std::uint32_t i) {
  if (i >= batch.size()) return;
  const std::uint32_t index = batch.query(i).connection;
  Entry& entry = entries_[index];
  entry.skips = true;
  if (entry.connection != nullptr && !entry.connection->is_closed())
    entry.rest = entry.connection->parser.rewind(batch.query(i));
  for (; i < batch.size() && batch.query(i).connection == index; ++i) {
    Query& q = batch.query(i);
    // Only a closed connection's: a large value is the first query of its pass, and a blocked connection has no pass.
    if (q.has(option::prefilled)) worker_.server.engine.abandon_fill(*worker_.context, batch.filled()[i]);
    q.opcode = Opcode::nothing;
    q.options = 0;
  }
}

// SD: one send for each connection. A message that is not whole stays.
void Responder::flush() {
  if (output_.empty()) return;
  sent_ = true;
  const Meter::Timed timed(worker_.meter, Task::send);
  for (std::size_t i = flushed_; i < written_; ++i) {
    Entry& entry = entries_[i];
    if (!entry.open || TD_UNLIKELY(entry.connection == nullptr)) continue;
    entry.open = false;
    sender_.send(*entry.connection, entry.range_in(output_));
    if (TD_UNLIKELY(notes_sending_)) entry.sent_at = cycles_now();
  }
  if (TD_UNLIKELY(!messages_.empty())) messages_.send();
  if (TD_LIKELY(!message_open_)) output_.clear();
  if (written_ != 0) flushed_ = written_ - 1;  // the last may write more
}

}  // namespace tandem::net
