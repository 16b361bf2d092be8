// WR and SD: from results to replies in the worker's output, and from there to the sockets.
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <new>

#include "base/process_meter.hpp"
#include "codec/command.hpp"
#include "codec/reply.hpp"
#include "codec/udp.hpp"
#include "net/system_calls.hpp"
#include "net/worker.hpp"
#include "task/write_response.hpp"

namespace tandem::net {
namespace {

// A get of the text protocol that changed nothing: executing it once more gives the client the same.
bool is_repeatable(const Query& q) noexcept { return q.is_plain_read() && !q.has(option::meta); }

// The query behind this one is of the same connection or datagram.
bool has_more(const Batch& batch, std::uint32_t i) noexcept {
  return i + 1 < batch.size() && batch.query(i + 1).connection == batch.query(i).connection;
}

bool would_block() noexcept { return errno == EAGAIN || errno == EINTR; }

// The connection's replies go through OpenSSL.
bool is_encrypted(const Connection& c) noexcept { return TD_UNLIKELY(c.tls != nullptr) && !c.tls->kernel_sends(); }

}  // namespace

// Ends the epoch where something was sent: it took a while, and its connection may not go on.
bool Worker::write(Batch& batch, Strip strip) {
  sent_ = false;
  for (std::uint32_t i = strip.begin; i < strip.end;) {
    const std::uint32_t entry = batch.query(i).connection;
    std::uint32_t end = i + 1;
    while (end < strip.end && batch.query(end).connection == entry) ++end;
    write_run(batch, i, end);
    i = end;
  }
  if (TD_UNLIKELY(recorder_.flags() != 0)) recorder_.strip_done();
  flush_if_large(batch, strip.end);
  if (TD_UNLIKELY(sent_)) skip_if_stuck(batch, strip.end);
  if (strip.size() != 0 && has_more(batch, strip.end - 1)) {
    const std::uint32_t index = batch.query(strip.end).connection;
    Entry& entry = in_.entries[index];
    if (TD_UNLIKELY(entry.skips)) return !sent_;
    if (TD_LIKELY(entry.connection != nullptr)) {
      if (TD_LIKELY(!turn_is_over(index))) return !sent_;
      note_turn(entry);
    } else {
      if (TD_LIKELY(!datagram_is_over(entry, strip.end))) return !sent_;
      if (message_open_) drop_message(entry);
      message_open_ = false;
      counters_.udp_replies_dropped.add();
    }
    skip_from(batch, strip.end);
    return false;
  }
  return !sent_;
}

// Whether a connection has had its time, since its first strip or control command in this batch was executed. What it
// waited for devices is not its own.
bool Worker::turn_is_over(std::uint32_t entry) noexcept {
  const std::uint64_t now = cycles_now();
  if (TD_LIKELY(entry == turn_entry_)) return now - turn_begin_ > turn_ticks_ + context_->waited_ticks - turn_waited_;
  turn_entry_ = entry;
  turn_begin_ = now;
  datagrams_begin_ns_ = 0;  // which are not to pay for it
  turn_waited_ = context_->waited_ticks;
  return false;
}

// By processor time, as a busy machine is no reason to drop an answer.
bool Worker::datagram_is_over(const Entry& entry, std::uint32_t next) noexcept {
  if (next - entry.first_query < strip_queries_max || cycles_now() - pass_begin_ <= turn_ticks_) return false;
  const std::uint64_t now_ns = read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  if (datagrams_begin_ns_ == 0) datagrams_begin_ns_ = now_ns;
  return now_ns - datagrams_begin_ns_ > datagrams_ns;
}

// What follows of its connection waits for the next pass.
void Worker::note_turn(Entry& entry) noexcept {
  counters_.conn_yields.add();
  entry.turn_ended = true;
}

void Worker::control(Batch& batch, std::uint32_t i) {
  Entry& entry = in_.entries[batch.query(i).connection];
  if (!entry.skips) {
    entry.connection == nullptr ? open_message(entry) : open_output(entry);
    const StreamRequest request = execute(entry.connection, batch.query(i));
    if (TD_UNLIKELY(request.kind != StreamRequest::Kind::none)) {
      if (entry.connection != nullptr) {
        begin_stream(*entry.connection, request, output_);
      } else {
        output_.append(codec::line::error);  // no answer goes on over UDP
      }
    }
    mark_output(entry);
    // Each may take as long as a hundred other requests: after some it is others' turn.
    const bool is_datagram = entry.connection == nullptr;
    const bool had_share = ++entry.controls >= state_.options.requests_per_event ||
                           (!is_datagram && turn_is_over(batch.query(i).connection));
    const bool goes_on = is_datagram ? end_message(entry) : entry.connection->stream == nullptr;
    if (TD_UNLIKELY(!goes_on || had_share) && has_more(batch, i)) {
      if (goes_on && !is_datagram) note_turn(entry);
      if (is_datagram && (goes_on || had_messages(entry))) counters_.udp_replies_dropped.add();
      skip_from(batch, i + 1);
    }
  }
  flush_if_large(batch, i + 1);
}

StreamRequest Worker::execute(Connection* c, const Query& query) {
  ConnectionState before = ConnectionState::reading;
  if (c != nullptr) before = c->state.exchange(ConnectionState::executing, std::memory_order_relaxed);
  const StreamRequest request = execute_control(query, state_.protocol, control_, output_);
  if (c != nullptr) c->state.store(before, std::memory_order_relaxed);
  if (TD_UNLIKELY(state_.stop_asked.load(std::memory_order_relaxed)) &&
      !state_.stopping.load(std::memory_order_relaxed)) {
    // Noted before the workers stop: watchers are told.
    if ((state_.events.flags() & watch_event::connevents) != 0 && c != nullptr)
      recorder_.closed(c->fd, c->peer, CloseReason::shutdown);
    state_.stop();
  }
  return request;
}

// Replies to queries [begin, end) of one entry.
void Worker::write_run(Batch& batch, std::uint32_t begin, std::uint32_t end) {
  Entry& entry = in_.entries[batch.query(begin).connection];
  if (TD_UNLIKELY(entry.skips)) return;
  if (TD_UNLIKELY(entry.connection == nullptr)) return write_datagram(batch, begin, end);
  std::uint32_t lengths = 0, metas = 0;
  for (std::uint32_t i = begin; i < end; ++i) {
    lengths |= batch.result(i).value_bytes;
    metas += batch.query(i).has(option::meta) ? 1u : 0u;
  }
  counters_.cmd_meta.add(metas);
  if (TD_UNLIKELY(lengths > copied_value_bytes_max)) return write_run_with_pins(batch, begin, end);
  open_output(entry);
  task::write_response(batch, {begin, end}, reply_context_);
  if (TD_UNLIKELY(recorder_.flags() != 0)) recorder_.answered(batch, begin, end, entry.connection->fd);
  mark_output(entry);
}

// The same where values may be pinned: one by one, so that a client that does not read has few pins. Queries that were
// executed already must be answered, unless they can be executed again.
void Worker::write_run_with_pins(Batch& batch, std::uint32_t begin, std::uint32_t end) {
  Entry& entry = in_.entries[batch.query(begin).connection];
  std::uint32_t repeatable_from = end;
  while (repeatable_from > begin && is_repeatable(batch.query(repeatable_from - 1))) --repeatable_from;
  for (std::uint32_t i = begin; i < end; ++i) {
    open_output(entry);
    task::write_response(batch, {i, i + 1}, reply_context_);
    if (TD_UNLIKELY(recorder_.flags() != 0)) recorder_.answered(batch, i, i + 1, entry.connection->fd);
    mark_output(entry);
    if (output_.pinned_bytes() < output_flush_bytes || i + 1 == end) continue;
    flush();
    if (entry.connection->is_closed()) return;
    if (!entry.connection->is_blocked() || i + 1 < repeatable_from) continue;
    StoreCounters& counters = context_->counters;
    for (std::uint32_t again = i + 1; again < end; ++again) {
      counters.cmd_get.add(~std::uint64_t{0});  // one less: it will be counted when it is answered
      (batch.result(again).status == Status::hit ? counters.get_hits : counters.get_misses).add(~std::uint64_t{0});
    }
    skip_from(batch, i + 1);
    return;
  }
}

// Each command of a datagram gets a reply of its own.
void Worker::write_datagram(Batch& batch, std::uint32_t begin, std::uint32_t end) {
  Entry& entry = in_.entries[batch.query(begin).connection];
  for (std::uint32_t i = begin; i < end;) {
    std::uint32_t next = i;
    bool ends = false;
    while (next < end && !ends) ends = ends_command(batch.query(next++));
    open_message(entry);
    task::write_response(batch, {i, next}, reply_context_);
    if (TD_UNLIKELY(recorder_.flags() != 0)) recorder_.answered(batch, i, next, entry.reply.port->fd());
    mark_output(entry);
    message_open_ = !ends;
    i = next;
    if (!ends || end_message(entry)) continue;
    if (!has_more(batch, next - 1)) return;
    if (had_messages(entry)) counters_.udp_replies_dropped.add();
    sent_ = true;  // what is skipped was looked at in this epoch
    return skip_from(batch, next);
  }
}

void Worker::open_output(Entry& entry) {
  if (entry.open) return;
  entry.open = true;
  entry.output_begin = output_.size();
  entry.externals_begin = output_.externals().size();
  if (TD_UNLIKELY(entry.ahead_bytes != 0)) write_ahead(entry);
}

void Worker::mark_output(Entry& entry) noexcept {
  entry.output_end = output_.size();
  entry.externals_end = output_.externals().size();
  written_ = static_cast<std::size_t>(&entry - in_.entries.data()) + 1;
}

// A reply to a datagram begins with the frame that it has if it fits one datagram, as most do.
void Worker::open_message(Entry& entry) {
  if (entry.open) return;
  open_output(entry);
  write_udp_frame({entry.reply.request_id, 0, 1}, output_.reserve(udp_frame_bytes));
  output_.commit(udp_frame_bytes);
}

// A datagram has had as many answers as a connection has in a turn.
bool Worker::had_messages(const Entry& entry) const noexcept {
  return entry.messages >= state_.options.requests_per_event * queries_per_request_of_event;
}

// A datagram's command is answered: its reply is what the entry wrote since it was opened. False: the datagram has had
// its share of answers.
bool Worker::end_message(Entry& entry) {
  const OutputRange range = range_of(entry);
  entry.open = false;
  const std::uint64_t bytes = range.copied_bytes() + range.pinned_bytes();
  const bool fits = entry.message_bytes + bytes <= udp_reply_bytes_max;
  if (bytes == udp_frame_bytes || !fits) {  // a quiet command; too long a reply
    if (!fits) counters_.udp_replies_dropped.add();
    drop_message(entry);
    return fits;
  }
  entry.message_bytes += bytes;
  messages_.push_back({entry.reply, entry.output_begin, entry.output_end, entry.externals_begin, entry.externals_end});
  ++entry.messages;
  return !had_messages(entry);
}

// What was written of the reply that is open.
void Worker::drop_message(Entry& entry) noexcept {
  const OutputRange range = range_of(entry);
  drop_pins(range);
  output_.truncate(range.begin, range.externals_begin);
  entry.open = false;
}

// After some replies: sends what there is when it is much. `next`: the query after the last answered one.
void Worker::flush_if_large(Batch& batch, std::uint32_t next) {
  if (TD_LIKELY(output_.size() + output_.pinned_bytes() < output_flush_bytes)) return;
  if (message_open_) {
    // A datagram's command goes on: its reply must be whole before it is sent, or too long to be.
    Entry& entry = in_.entries[written_ - 1];
    const OutputRange range = range_of(entry);
    if (entry.message_bytes + range.copied_bytes() + range.pinned_bytes() <= udp_reply_bytes_max) return;
    end_message(entry);
    message_open_ = false;
    skip_from(batch, next);
  }
  flush();
  skip_if_stuck(batch, next);
}

// Query i's connection may have become blocked or closed: then neither it nor what follows of that connection is
// executed.
void Worker::skip_if_stuck(Batch& batch, std::uint32_t i) {
  if (i >= batch.size()) return;
  const Entry& entry = in_.entries[batch.query(i).connection];
  if (entry.connection == nullptr || entry.skips) return;
  if (entry.connection->is_blocked() || entry.connection->is_closed()) skip_from(batch, i);
}

void Worker::skip_from(Batch& batch, std::uint32_t i) {
  if (i >= batch.size()) return;
  const std::uint32_t index = batch.query(i).connection;
  Entry& entry = in_.entries[index];
  entry.skips = true;
  if (entry.connection != nullptr && !entry.connection->is_closed())
    entry.rest = entry.connection->parser.rewind(batch.query(i));
  for (; i < batch.size() && batch.query(i).connection == index; ++i) {
    Query& q = batch.query(i);
    // Only a closed connection's: a large value is the first query of its pass, and a blocked connection has no pass.
    if (q.has(option::prefilled)) state_.engine.abandon_fill(*context_, batch.filled()[i]);
    q.opcode = Opcode::nothing;
    q.options = 0;
  }
}

// SD: what the output holds of each connection, one send each.
void Worker::flush() {
  if (output_.empty()) return;
  sent_ = true;
  const std::uint64_t begin = TD_UNLIKELY(sampled_) ? cycles_now() : 0;
  for (std::size_t i = flushed_; i < written_; ++i) {
    Entry& entry = in_.entries[i];
    if (!entry.open) continue;
    entry.open = false;
    if (TD_LIKELY(entry.connection != nullptr)) {
      send(*entry.connection, range_of(entry));
      if (TD_UNLIKELY(in_.sampled)) entry.sent_at = cycles_now();
    }
  }
  if (TD_UNLIKELY(!messages_.empty())) send_messages();
  output_.clear();
  if (written_ != 0) flushed_ = written_ - 1;  // the last may write more
  if (TD_UNLIKELY(sampled_)) context_->tasks.cycles[static_cast<std::size_t>(Task::send)].add(cycles_now() - begin);
}

void Worker::send_messages() {
  UdpPort* port = messages_.front().to.port;
  for (const Message& m : messages_) {
    if (m.to.port != port) {
      port->flush(counters_);
      port = m.to.port;
    }
    port->reply(m.to, {&output_, m.output_begin, m.output_end, m.externals_begin, m.externals_end}, counters_);
  }
  port->flush(counters_);
  for (const Message& m : messages_)
    drop_pins({&output_, m.output_begin, m.output_end, m.externals_begin, m.externals_end});
  messages_.clear();
}

void Worker::send(Connection& c, OutputRange range) {
  if (range.empty()) return;
  if (TD_UNLIKELY(c.is_closed())) return drop_pins(range);
  if (TD_UNLIKELY(c.is_blocked())) {
    hold(c, range);
    return;
  }
  if (TD_LIKELY(!range.has_externals())) {
    const char* const from = range.output->data() + range.begin;
    const std::ptrdiff_t sent =
        is_encrypted(c) ? c.tls->send(from, range.copied_bytes()) : send_bytes(c.fd, from, range.copied_bytes());
    if (TD_UNLIKELY(sent < 0 && !would_block())) return close_later(c);
    if (sent > 0) {
      counters_.bytes_written.add(static_cast<std::uint64_t>(sent));
      range.begin += static_cast<std::size_t>(sent);
    }
    if (TD_LIKELY(range.begin == range.end)) return;
  }
  if (hold(c, range) && (range.externals_begin == range.externals_end || !drain(c)) && !c.is_closed()) {
    counters_.blocked.add();
    c.state.store(ConnectionState::blocked, std::memory_order_relaxed);
    watch(c, watch_output);
  }
}

// Moves output into the connection's own buffer. False: there is no memory, or a limit was passed, and the connection
// is closed.
bool Worker::hold(Connection& c, const OutputRange& range) {
  const auto refuse = [&, this] {
    drop_pins(range);
    close_later(c);
    return false;
  };
  Heap& heap = state_.engine.shared().heap;
  // Output may lie here for long: where half of all pages are pinned already, what shares its page is copied.
  const bool copies = TD_UNLIKELY(heap.pins_many_pages());
  const auto is_copied = [&heap, copies](Location pin) {
    return pin == no_location || (copies && heap.class_of(pin) != huge_class);
  };
  std::uint64_t copied = 0, pinned = 0;
  range.for_each([&](const char*, std::size_t bytes, Location pin) { (is_copied(pin) ? copied : pinned) += bytes; });
  if (!charge(c, state_.unsent, copied)) return refuse();
  if (!charge(c, state_.pinned, pinned)) {
    state_.unsent.give_back(copied);
    return refuse();
  }
  try {
    auto fresh = c.is_blocked() ? nullptr : std::make_unique<Unsent>();
    (fresh != nullptr ? *fresh : *c.unsent).reserve(static_cast<std::size_t>(copied), range.stretches_max());
    if (fresh != nullptr) {
      c.blocked_index = static_cast<std::uint32_t>(blocked_.size());
      blocked_.push_back(&c);
      kept_outputs_.set(blocked_.size());
      c.unsent = std::move(fresh);
      // Its answer may have been long in coming; from now on it waits for its client.
      c.last_active_s.store(state_.engine.shared().clock.now_s(), std::memory_order_relaxed);
    }
  } catch (const std::bad_alloc&) {
    state_.unsent.give_back(copied);
    state_.pinned.give_back(pinned);
    counters_.closed_for_room.add();
    counters_.response_obj_oom.add();
    return refuse();
  }
  range.for_each([&, &unsent = *c.unsent](const char* p, std::size_t bytes, Location pin) {
    if (!is_copied(pin)) return unsent.append_pinned(p, bytes, pin);
    unsent.append(p, bytes);
    if (pin != no_location) heap.unpin(pin);
  });
  return true;
}

// Takes `bytes` of a limit that all connections share. When it is reached, a connection of this worker is closed for
// room: one that holds some of it and has stood still, else the one that holds the most; false: that is `c` itself.
bool Worker::charge(const Connection& c, MemoryBudget& budget, std::uint64_t bytes) {
  const auto held = [&budget, this](const Connection& connection) -> std::uint64_t {
    if (!connection.is_blocked()) return 0;
    return &budget == &state_.unsent ? connection.unsent->copied_bytes() : connection.unsent->pinned_bytes();
  };
  if (bytes == 0) return true;  // whatever others hold beyond a limit that was lowered
  while (!budget.take(bytes)) {
    counters_.closed_for_room.add();
    counters_.response_obj_oom.add();
    Connection* most = nullptr;
    Connection* still = nullptr;
    for (Connection* other : blocked_) {
      if (other == &c) continue;
      if (most == nullptr || held(*other) > held(*most)) most = other;
      if (held(*other) != 0 && stands_still(*other) && (still == nullptr || held(*other) > held(*still))) still = other;
    }
    if (still == nullptr && (most == nullptr || held(*most) <= held(c) + bytes)) return false;
    close_later(still != nullptr ? *still : *most);
  }
  return true;
}

// Sends unsent output. True: all has gone, and the connection goes on.
bool Worker::drain(Connection& c) {
  for (;;) {
    iovec parts[send_segments_max];
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = c.unsent->next(parts, send_segments_max);
    if (message.msg_iovlen == 0) break;
    const std::ptrdiff_t sent =
        is_encrypted(c) ? c.tls->send(parts, message.msg_iovlen) : sendmsg(c.fd, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;  // no event would tell of the room that is there
      if (errno == EFAULT) touch_pages(parts, message.msg_iovlen);
      if (!would_block()) close_later(c);
      return false;
    }
    counters_.bytes_written.add(static_cast<std::uint64_t>(sent));
    c.unsent->sent(static_cast<std::size_t>(sent), state_.engine.shared().heap);
    c.last_active_s.store(state_.engine.shared().clock.now_s(), std::memory_order_relaxed);
  }
  drop_unsent(c);
  if (TD_UNLIKELY(c.tls != nullptr)) c.readable = true;  // what waited for output to go may go on
  if (c.state.load(std::memory_order_relaxed) == ConnectionState::blocked) {
    c.state.store(c.stream != nullptr ? ConnectionState::streaming : ConnectionState::reading,
                  std::memory_order_relaxed);
    watch(c, watch_input);
  }
  if (c.closes && c.stream == nullptr) close_later(c, c.close_reason);
  return !c.is_closed();
}

void Worker::drop_unsent(Connection& c) noexcept {
  c.unsent->drop(state_.engine.shared().heap);
  state_.unsent.give_back(c.unsent->copied_bytes());
  state_.pinned.give_back(c.unsent->pinned_bytes());
  c.unsent.reset();
  blocked_.back()->blocked_index = c.blocked_index;
  blocked_[c.blocked_index] = blocked_.back();
  blocked_.pop_back();
  kept_outputs_.set(blocked_.size());
}

void Worker::drop_pins(const OutputRange& range) noexcept {
  for (std::size_t i = range.externals_begin; i < range.externals_end; ++i) {
    state_.engine.shared().heap.unpin(range.output->externals()[i].pin);
  }
}

}  // namespace tandem::net
