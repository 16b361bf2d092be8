// RV and PP: from ready sockets to a batch of queries.
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "codec/command.hpp"
#include "codec/udp.hpp"
#include "net/log.hpp"
#include "net/system_calls.hpp"
#include "net/worker.hpp"

namespace tandem::net {
namespace {

// Adds the cycles of its life to a task's counter, in passes that are sampled.
class Timed {
 public:
  Timed(bool sampled, TaskCounters& counters, Task task) noexcept
      : counter_(sampled ? &counters.cycles[static_cast<std::size_t>(task)] : nullptr) {
    if (TD_UNLIKELY(sampled)) begin_ = cycles_now();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  ~Timed() {
    if (TD_UNLIKELY(counter_ != nullptr)) counter_->add(cycles_now() - begin_);
  }

 private:
  Counter* counter_;
  std::uint64_t begin_ = 0;
};

}  // namespace

void Worker::serve(Connection& c) {
  if (c.pass.load(std::memory_order_relaxed) == pass_ || c.is_closed()) return;
  if (TD_UNLIKELY(c.in_flight)) return;  // it is served when its answers are sent
  c.pass.store(pass_, std::memory_order_relaxed);
  if (TD_UNLIKELY(c.is_blocked() || c.stream != nullptr)) {
    if (c.stream != nullptr) return serve_stream(c);
    // OpenSSL may hold input that no event tells of.
    if (!drain(c) || (!c.resumes && c.tls == nullptr)) return;
  }
  const std::uint64_t waits_since = c.resumes ? c.waits_since : 0;
  const std::size_t kept = c.kept.size();
  if (TD_UNLIKELY(kept >= long_input_bytes) && c.fill == nullptr) return serve_long(c);
  make_room(kept + receive_bytes_max);
  char* begin = in_.batch->input().room();
  if (kept != 0) std::memcpy(begin, c.kept.data(), kept);
  std::size_t bytes = kept;
  if (TD_LIKELY(!c.resumes)) {
    const bool value = TD_UNLIKELY(c.fill != nullptr) && c.fill->received_bytes < c.fill->value_bytes;
    if (TD_UNLIKELY(!c.readable)) return;
    const std::size_t got = value ? receive_value(c, begin + kept) : receive(c, begin + kept);
    // A value without a line end may be whole with nothing behind it.
    if (got == 0 && !(value && c.fill != nullptr && c.fill->is_whole(0))) return go_on_next_pass(c);
    if (TD_UNLIKELY(c.is_closed())) return;  // an entry would name it after the pass
    bytes += got;
  }
  c.resumes = false;
  in_.batch->input().take(bytes);
  if (TD_LIKELY(wait_for_lane(c, begin, begin + bytes, waits_since))) return;
  add_entry(&c, begin, begin + bytes);
  if (TD_UNLIKELY(waits_since != 0)) went_on(in_.entries.back(), waits_since);
  parse(c);
}

// A line too long for the arena: it is received and parsed where it is kept.
void Worker::serve_long(Connection& c) {
  if (!c.resumes) {
    char* to;
    try {
      to = c.kept.reserve(receive_bytes_max);
    } catch (const std::bad_alloc&) {
      return refuse_kept(c);
    }
    if (!charge_kept(c)) return;
    if (!c.readable) return;
    const std::size_t got = receive(c, to);
    if (got == 0) return go_on_next_pass(c);
    c.kept.added(got);
  }
  const std::uint64_t waits_since = c.resumes ? c.waits_since : 0;
  c.resumes = false;
  add_entry(&c, c.kept.data(), c.kept.data() + c.kept.size());
  if (waits_since != 0) went_on(in_.entries.back(), waits_since);
  parse(c);
}

// Replaces the kept input. False: there is no memory, or the limit was passed, and the connection is closed.
bool Worker::keep(Connection& c, const char* begin, const char* end) noexcept {
  try {
    c.kept.assign(begin, end);
  } catch (const std::bad_alloc&) {
    refuse_kept(c);
    return false;
  }
  return charge_kept(c);
}

// Keeps State::kept in step with the connection's buffer. False: the limit was passed and the connection is closed.
bool Worker::charge_kept(Connection& c) noexcept {
  const std::size_t capacity = c.kept.capacity();
  if (TD_LIKELY(capacity == c.kept_counted)) return true;
  const std::size_t cost = state_.kept_cost(capacity), charged = state_.kept_cost(c.kept_counted);
  if (cost < charged) {
    state_.kept.give_back(charged - cost);
  } else if (TD_UNLIKELY(cost != charged) && !state_.kept.take(cost - charged)) {
    refuse_kept(c);
    return false;
  }
  count_kept(c, capacity);
  return true;
}

// There is no memory, or no part of the limit left, for what the connection has sent: it is closed, as by memcached.
void Worker::refuse_kept(Connection& c) noexcept {
  counters_.closed_for_room.add();
  counters_.read_buf_oom.add();
  close_later(c);
}

void Worker::count_kept(Connection& c, std::size_t capacity) noexcept {
  kept_bytes_.add(capacity - c.kept_counted);
  kept_inputs_.add(std::uint64_t{capacity != 0} - std::uint64_t{c.kept_counted != 0});
  c.kept_counted = capacity;
}

void Worker::make_room(std::size_t bytes) {
  TD_ASSERT(bytes <= input_arena_bytes);
  if (TD_LIKELY(in_.batch->input().has_room(bytes + lane_padding_bytes))) return;
  run_lane();
  run_batch(false);
  in_.batch->input().reuse();
}

// False: nothing came, or the connection is to be closed.
bool Worker::received(Connection& c, std::ptrdiff_t bytes) noexcept {
  if (TD_LIKELY(bytes > 0)) {
    counters_.bytes_read.add(static_cast<std::uint64_t>(bytes));
    c.last_active_s.store(state_.engine.shared().clock.now_s(), std::memory_order_relaxed);
    return true;
  }
  if (bytes == 0 || (errno != EAGAIN && errno != EINTR)) {
    close_later(c, bytes == 0 ? CloseReason::normal : CloseReason::error);
  } else if (errno == EAGAIN) {
    c.readable = false;
  }
  return false;
}

std::size_t Worker::receive(Connection& c, char* to) noexcept {
  const Timed timed(sampled_, context_->tasks, Task::receive);
  if (TD_UNLIKELY(c.tls != nullptr)) return receive_tls(c, to);
  const std::ptrdiff_t bytes = receive_bytes(c.fd, to, receive_bytes_max);
  if (!received(c, bytes)) return 0;
  if (TD_LIKELY(static_cast<std::size_t>(bytes) < receive_bytes_max)) c.readable = c.ended;
  return static_cast<std::size_t>(bytes);
}

// Receives the rest of a large value into its slot, and what follows it to `to`; returns the bytes of the latter.
std::size_t Worker::receive_value(Connection& c, char* to) noexcept {
  if (TD_UNLIKELY(c.tls != nullptr)) return receive_value_tls(c, to);
  Fill& fill = *c.fill;
  const std::uint64_t missing = fill.value_bytes - fill.received_bytes;
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(missing, receive_value_bytes_max));
  iovec parts[2] = {{fill.value + fill.received_bytes, wanted}, {to, receive_bytes_max}};
  const std::ptrdiff_t bytes = readv(c.fd, parts, wanted == missing ? 2 : 1);
  if (TD_UNLIKELY(bytes < 0) && errno == EFAULT) touch_pages(parts, 1);
  if (!received(c, bytes)) return 0;
  const auto got = static_cast<std::size_t>(bytes);
  fill.received_bytes += std::min(got, wanted);
  if (got < (wanted == missing ? wanted + receive_bytes_max : wanted)) c.readable = c.ended;
  return got > wanted ? got - wanted : 0;
}

void Worker::add_entry(Connection* c, const char* begin, const char* end) {
  in_.entries.push_back({.connection = c,
                         .rest = begin,
                         .input_end = end,
                         .output_begin = 0,
                         .output_end = 0,
                         .externals_begin = 0,
                         .externals_end = 0,
                         .first_query = in_.batch->size(),
                         .stop = Stop::need_more,
                         .open = false,
                         .skips = false,
                         .turn_ended = false,
                         .reply = {},
                         .received_at = TD_UNLIKELY(in_.sampled) ? cycles_now() : 0});
}

// PP of what is left of the last entry's input.
task::Parsed Worker::parse_entry(const Entry& entry, Parser& parser) {
  const auto number = static_cast<std::uint32_t>(in_.entries.size() - 1);
  return runner_->parse(*in_.batch, {parser, entry.rest, entry.input_end, number}, sampled_);
}

// The last entry's input, to queries. The batch is executed on the way when it is full.
void Worker::parse(Connection& c) {
  if (TD_UNLIKELY(c.fill != nullptr) && !finish_fill(c)) return;
  if (TD_UNLIKELY(c.large_waits) && !begin_large(c)) return;
  const std::uint64_t share = state_.options.requests_per_event * queries_per_request_of_event;
  std::uint64_t had = 0;
  while (!in_.entries.empty()) {
    Entry& entry = in_.entries.back();
    const task::Parsed parsed = parse_entry(entry, c.parser);
    entry.rest += parsed.consumed;
    if (TD_UNLIKELY(state_.verbosity.load(std::memory_order_relaxed) >= 2)) log_requests(entry);
    switch (parsed.stop) {
      case ParseStop::need_more:
        return;
      case ParseStop::close:
      case ParseStop::quit:
        entry.stop = parsed.stop == ParseStop::quit ? Stop::quit : Stop::close;
        return;
      case ParseStop::large_value:
        if (in_.batch->size() != entry.first_query) {
          // What stands before it may turn out to be unanswerable for now, and this value with it: begin it when that
          // is decided.
          entry.stop = Stop::large;
          return;
        }
        if (!begin_large(c)) return;
        break;
      case ParseStop::batch_full:
        had += in_.batch->size() - entry.first_query;
        run_batch(true);
        if (!in_.entries.empty() && had >= share && in_.entries.back().rest != in_.entries.back().input_end) {
          in_.entries.back().stop = Stop::yield;
          counters_.conn_yields.add();
          return;
        }
        break;
    }
  }
}

// A part of what values that have not come whole may take. Who has stopped sending one of this worker gives way, if
// that makes room enough.
bool Worker::take_filling(std::uint64_t bytes) noexcept {
  while (!state_.filling.take(bytes)) {
    Connection* const still = longest_still_filling(bytes);
    if (still == nullptr) return false;
    counters_.closed_for_room.add();
    close_later(*still);
  }
  return true;
}

// The parser stopped at a large value: gets a slot to receive it into, or has it refused. True: the last entry's input
// is to be parsed on.
bool Worker::begin_large(Connection& c) {
  c.large_waits = false;
  const LargeValue& large = c.parser.large();
  const bool granted = take_filling(large.value_bytes);
  Location location = no_location;
  if (granted) {
    location = state_.engine.begin_fill(*context_, large.key, large.client_flags, large.value_bytes, large.expiry_s,
                                        large.binary_key);
  }
  if (location == no_location) {
    if (granted) state_.filling.give_back(large.value_bytes);
    if (in_.batch->full()) run_batch(true, true);
    if (in_.entries.empty()) return false;
    c.parser.refuse_large(*in_.batch, static_cast<std::uint32_t>(in_.entries.size() - 1));
    return true;
  }
  Entry& entry = in_.entries.back();
  const auto here = static_cast<std::uint64_t>(entry.input_end - entry.rest);
  const auto bytes = static_cast<std::size_t>(std::min(here, large.value_bytes));
  char* value = state_.engine.shared().heap.at(location)->value();
  std::memcpy(value, entry.rest, bytes);
  entry.rest += bytes;
  c.fill = std::make_unique<Fill>(Fill{location, value, large.value_bytes, bytes, large.line_end_bytes});
  c.state.store(ConnectionState::filling, std::memory_order_relaxed);
  // What came may have waited for others; from now on it waits for its client.
  c.last_active_s.store(state_.engine.shared().clock.now_s(), std::memory_order_relaxed);
  return finish_fill(c);
}

// True: the value and its line end were there, and the last entry's input is to be parsed on.
bool Worker::finish_fill(Connection& c) {
  if (!c.fill->is_whole(static_cast<std::size_t>(in_.entries.back().input_end - in_.entries.back().rest))) return false;
  if (in_.batch->full()) run_batch(true, true);
  Entry& entry = in_.entries.back();
  const std::size_t line_end_bytes = c.fill->line_end_bytes;
  const bool ok = std::memcmp(entry.rest, "\r\n", line_end_bytes) == 0;
  entry.rest += line_end_bytes;
  c.parser.finish_large(*in_.batch, static_cast<std::uint32_t>(in_.entries.size() - 1), c.fill->location, ok);
  if (!ok) state_.engine.abandon_fill(*context_, c.fill->location);
  state_.filling.give_back(c.fill->value_bytes);
  c.fill.reset();
  c.state.store(ConnectionState::reading, std::memory_order_relaxed);
  return true;
}

// Executes and answers what is in the batch, or hands it over to the device, unless `here`. goes_on: the last entry's
// connection has more input to parse; its entry stays, unless the batch was handed over or the connection is blocked or
// closed by now.
void Worker::run_batch(bool goes_on, bool here) {
  if (in_.entries.empty()) return;
  pass_parsed_ += in_.batch->size();
  if (TD_UNLIKELY(runner_->has_devices()) && !here && hand_over(goes_on)) return;
  execute(goes_on);
  runner_->relieve();
}

void Worker::execute(bool goes_on) {
  if (in_.batch->size() != 0) {
    pass_answered_ += in_.batch->size();
    turn_entry_ = UINT32_MAX;
    runner_->run(*in_.batch, *this);
    TD_ASSERT(!message_open_);
    flush();
    const std::uint64_t now = cycles_now();
    if (TD_UNLIKELY(in_.sampled || now - std::min(in_.begin, in_.oldest_receipt) > slow_ticks_)) record_batch(now);
    if (!goes_on) {
      in_.begin = now;
      in_.oldest_receipt = UINT64_MAX;
    }
    in_.batch->clear();
  }
  Entry last = in_.entries.back();
  if (goes_on && (last.skips || last.connection->is_blocked() || last.connection->is_closed() ||
                  last.connection->stream != nullptr)) {
    in_.entries.back().stop = Stop::yield;
    goes_on = false;
  }
  for (std::size_t i = 0; i < in_.entries.size() - (goes_on ? 1 : 0); ++i) finish(in_.entries[i]);
  in_.entries.clear();
  flushed_ = written_ = 0;
  if (!goes_on) return;
  last.first_query = 0;
  last.sent_at = 0;
  in_.entries.push_back(last);
}

// An entry's queries are answered: keeps what is left of its input.
void Worker::finish(Entry& entry) {
  if (entry.connection == nullptr || entry.connection->is_closed()) return;
  Connection& c = *entry.connection;
  const bool quits = TD_UNLIKELY(entry.stop == Stop::quit);
  if (TD_UNLIKELY((entry.stop == Stop::close || quits) && !entry.skips)) {
    c.kept.assign(nullptr, nullptr);
    static_cast<void>(charge_kept(c));  // less than before: nothing is refused
    c.closes = true;
    c.close_reason = quits ? CloseReason::normal : CloseReason::error;
    if (!c.is_blocked() && c.stream == nullptr) close_later(c, c.close_reason);
    return;
  }
  if (entry.rest != entry.input_end || c.kept.size() != 0) {
    if (!keep(c, entry.rest, entry.input_end)) return;
  }
  if (TD_UNLIKELY(entry.stop != Stop::need_more || entry.skips)) {
    c.large_waits = entry.stop == Stop::large && !entry.skips;
    // A client that does not read waits for itself; one whose turn ended waits for others.
    c.waits_since = (entry.skips && !entry.turn_ended) || c.is_blocked() ? 0
                    : entry.received_at != 0                             ? entry.received_at
                                                                         : in_.since;
    c.resumes = true;
  }
  note_input(c);
  go_on_next_pass(c);
}

// What `stats conns` says that the connection waits for, where the parser knows.
void Worker::note_input(Connection& c) noexcept {
  const ConnectionState now = c.state.load(std::memory_order_relaxed);
  const Parser::Within within = c.parser.within();
  if (TD_LIKELY(now == ConnectionState::reading && within == Parser::Within::command)) return;
  if (now == ConnectionState::reading || now == ConnectionState::keeping || now == ConnectionState::dropping) {
    c.state.store(within == Parser::Within::command ? ConnectionState::reading
                  : within == Parser::Within::value ? ConnectionState::keeping
                                                    : ConnectionState::dropping,
                  std::memory_order_relaxed);
  }
}

// Has the connection served again without another event, if it has something to go on with.
void Worker::go_on_next_pass(Connection& c) {
  if (TD_LIKELY(!c.readable && !c.resumes) || c.is_blocked() || c.is_closed() || c.waiting) return;
  c.waiting = true;
  waiting_.push_back(&c);
}

// Each datagram is a connection of its own: what is not complete in it is dropped.
// Returns how many came.
unsigned Worker::serve_udp(UdpPort& port) {
  if (port.pass == pass_) return 0;  // its buffers are in use
  if (TD_UNLIKELY(port.batches_in_flight != 0)) {
    port.waits = true;
    return 0;
  }
  port.pass = pass_;
  unsigned count;
  {
    const Timed timed(sampled_, context_->tasks, Task::receive);
    count = port.receive();
  }
  if (TD_UNLIKELY(count == datagrams_per_pass)) udp_waits_ = true;
  for (unsigned i = 0; i < count; ++i) {
    const UdpPort::Datagram datagram = port.datagram(i);
    counters_.udp_requests.add();
    counters_.bytes_read.add(datagram.bytes);
    UdpFrame frame;
    if (!read_udp_frame(datagram.data, datagram.bytes, frame)) {
      counters_.udp_requests_dropped.add();
      continue;
    }
    const std::string_view request =
        bring_datagram({datagram.data + udp_frame_bytes, datagram.bytes - udp_frame_bytes});
    add_entry(nullptr, request.data(), request.data() + request.size());
    in_.entries.back().reply = {&port, i, frame.request_id};
    if (TD_UNLIKELY(parse_datagram(in_.entries.back()) == ParseStop::batch_full)) {
      const Entry entry = in_.entries.back();
      in_.batch->resize(entry.first_query);
      in_.entries.pop_back();
      serve_long_datagram(entry);
    }
  }
  return count;
}

// Where a device can read it, if there is one.
std::string_view Worker::bring_datagram(std::string_view request) {
  if (TD_LIKELY(!runner_->has_devices())) return request;
  make_room(request.size());
  return in_.batch->input().bring(request);
}

ParseStop Worker::parse_datagram(Entry& entry) {
  Parser parser(state_.protocol, state_.engine.shared().clock);
  return parse_entry(entry, parser).stop;
}

// A datagram's reply cannot be sent in parts, so its queries go into one batch: a larger one, if need be.
void Worker::serve_long_datagram(Entry entry) {
  run_batch(false);
  // From the port's buffer: what of it was brought may lie in the arena of a batch that was handed over.
  const UdpPort::Datagram datagram = entry.reply.port->datagram(entry.reply.datagram);
  const std::string_view request = bring_datagram({datagram.data + udp_frame_bytes, datagram.bytes - udp_frame_bytes});
  entry.rest = request.data();
  entry.input_end = request.data() + request.size();
  entry.first_query = 0;
  in_.entries.push_back(entry);
  if (parse_datagram(in_.entries.back()) == ParseStop::batch_full) {
    // More than a batch holds by itself. No query takes less than two bytes, but for empty lines.
    in_.batch->clear();
    if (long_batch_ == nullptr)
      long_batch_ = std::make_unique<Batch>(static_cast<std::uint32_t>(datagram_slot_bytes / 2));
    Batch* const batch = std::exchange(in_.batch, long_batch_.get());
    if (parse_datagram(in_.entries.back()) == ParseStop::batch_full) {
      std::uint32_t whole = in_.batch->size();
      while (whole != 0 && !ends_command(in_.batch->query(whole - 1))) --whole;
      in_.batch->resize(whole);
      counters_.udp_replies_dropped.add();
    }
    run_batch(false, true);
    in_.batch = batch;
  }
}

void Worker::log_requests(const Entry& entry) const {
  const int fd = entry.connection != nullptr ? entry.connection->fd : entry.reply.port->fd();
  const char* last = nullptr;
  for (std::uint32_t i = entry.first_query; i < in_.batch->size(); ++i) {
    const Query& q = in_.batch->query(i);
    if (q.wire != last && !q.has(option::prefilled)) log().debug("<{} {}", fd, request_text(q));
    last = q.wire;
  }
}

}  // namespace tandem::net
