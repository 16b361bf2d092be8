#include "worker/replies.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "net/log.hpp"

namespace tandem::net {
namespace {

Connection& connection_of(const Asker& asker) noexcept { return *static_cast<Connection*>(asker.owner); }
Connection* connection_or_none(const Asker& asker) noexcept {
  return asker.frame == nullptr ? &connection_of(asker) : nullptr;
}

}  // namespace

// Requests are judged by a second in which they had been received, however late this thread is, or other threads are.
void Replies::begin_run(std::uint64_t now) { worker_.server.engine.keep_time(now); }

void Replies::end_run(std::uint64_t /*queries*/, std::uint64_t metas) { worker_.counters.cmd_meta.add(metas); }

void Replies::send(Asker& to, const OutputRange& replies, bool ends) {
  Connection& c = connection_of(to);
  sender_.send(c, replies);
  if (TD_LIKELY(ends)) finish(c);
}

void Replies::send_whole(Asker& to, std::string_view replies) {
  if (TD_UNLIKELY(to.frame != nullptr)) return messages_.add(datagram_of(to).reply, replies);
  Connection& c = connection_of(to);
  worker_.counters.device_streams.add();
  sender_.send(c, replies);
  finish(c);
}

// All its input is answered.
TD_INLINE void Replies::finish(Connection& c) {
  if (TD_UNLIKELY(c.is_closed())) return;
  if (TD_UNLIKELY(c.kept.size() != 0)) {
    if (!limits_.keep(c, nullptr, nullptr)) return;
    note_input(c);
  }
  connections_.serve_again(c);
}

// Connections and UDP ports with input in the intake wait for its answers: a port's buffers hold the datagrams.
void Replies::mark_in_flight(std::span<const Asker> askers, bool is_in_flight) {
  UdpPort* port = nullptr;
  for (const Asker& asker : askers) {
    if (asker.frame == nullptr) {
      connection_of(asker).in_flight = is_in_flight;
    } else if (UdpPort* const of = datagram_of(asker).reply.port; of != port) {
      port = of;
      port->batches_in_flight += is_in_flight ? 1u : ~0u;
    }
  }
}

void Replies::answered_all(Intake& in) { worker_.meter.record(in); }

bool Replies::is_open(const Asker& asker) const {
  const Connection& c = connection_of(asker);
  return !c.is_closed() && !c.is_blocked() && c.stream == nullptr;
}

void Replies::control(Asker& asker, const Query& query) {
  Connection* const c = connection_or_none(asker);
  if (c != nullptr && worker_.is_verbose(2)) log().debug("<{} {}", c->fd, request_text(query));
  responder_.control(c, query);
}

bool Replies::begin_large(Asker& asker, LaneSegment& segment) {
  Connection& c = connection_of(asker);
  Engine& engine = worker_.server.engine;
  const LargeValue& large = c.parser.large();
  if (!limits_.take_filling(large.value_bytes)) return false;
  const Location location = engine.begin_fill(*worker_.context, large.key, large.client_flags, large.value_bytes,
                                              large.expiry_s, large.binary_key);
  if (location == no_location) {
    worker_.server.filling.give_back(large.value_bytes);
    return false;
  }
  const auto here = static_cast<std::uint64_t>(segment.end - segment.rest);
  const auto bytes = static_cast<std::size_t>(std::min(here, large.value_bytes));
  char* value = worker_.heap().at(location)->value();
  std::memcpy(value, segment.rest, bytes);
  segment.rest += bytes;
  c.fill = std::make_unique<Fill>(Fill{location, value, large.value_bytes, bytes, large.line_end_bytes});
  c.after_large = true;
  c.state.store(ConnectionState::filling, std::memory_order_relaxed);
  // Until now it may have waited for its turn; from now on it waits for its client.
  connections_.touch(c);
  asker.fills = true;
  return true;
}

std::optional<Sink::Filled> Replies::finish_large(Asker& asker, LaneSegment& segment) {
  Connection& c = connection_of(asker);
  if (!c.fill->is_whole(static_cast<std::size_t>(segment.end - segment.rest))) return std::nullopt;
  const Fill fill = *c.fill;
  const bool ok = std::memcmp(segment.rest, "\r\n", fill.line_end_bytes) == 0;
  segment.rest += fill.line_end_bytes;
  if (!ok) worker_.server.engine.abandon_fill(*worker_.context, fill.location);
  worker_.server.filling.give_back(fill.value_bytes);
  c.fill.reset();
  c.state.store(ConnectionState::reading, std::memory_order_relaxed);
  asker.fills = false;
  return Filled{fill.location, ok};
}

// The connection's input is answered: keeps the rest of it.
void Replies::ended(Asker& asker, const LaneSegment& segment, std::uint64_t since) {
  Connection& c = connection_of(asker);
  if (c.is_closed()) return;
  if (TD_UNLIKELY(asker.stop != ParseStop::need_more)) {
    c.kept.assign(nullptr, nullptr);
    static_cast<void>(limits_.charge_kept(c));  // less than before: nothing is refused
    c.closes = true;
    c.close_reason = asker.stop == ParseStop::quit ? CloseReason::normal : CloseReason::error;
    if (!c.is_blocked() && c.stream == nullptr) connections_.close(c, c.close_reason);
    return;
  }
  if (segment.rest != segment.end || c.kept.size() != 0) {
    if (!limits_.keep(c, segment.rest, segment.end)) return;
  }
  if (segment.rest != segment.end && !segment.incomplete) {
    const bool has_stream = c.stream != nullptr;
    if (segment.turn_ended) worker_.counters.conn_yields.add();
    // Latency counts the time that a connection waits for other connections, but not the time that it waits for its own
    // client.
    c.waits_since = has_stream || c.is_blocked() ? 0 : asker.waits_since != 0 ? asker.waits_since : since;
    c.resumes = true;
  }
  note_input(c);
  connections_.serve_again(c);
}

// What `stats conns` says that the connection waits for, where the parser knows.
void Replies::note_input(Connection& c) noexcept {
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

void Replies::answered(const Asker& asker, const Query& query, const Result& result) {
  const Connection* const c = connection_or_none(asker);
  const int fd = c != nullptr ? c->fd : datagram_of(asker).reply.port->fd();
  if (worker_.recorder.flags() != 0) worker_.recorder.answered(query, result, fd);
  if (worker_.is_verbose(2) && c != nullptr && query.continues_line == 0 && !query.has(option::prefilled))
    log().debug("<{} {}", fd, request_text(query));
}

}  // namespace tandem::net
