#include "net/batches.hpp"

#include "base/ticks.hpp"

namespace tandem::net {

Batches::Batches(WorkerState& worker, Connections& connections, ConnectionLimits& limits, Responder& responder)
    : worker_(worker),
      connections_(connections),
      limits_(limits),
      responder_(responder),
      in_flight_(worker.runner->count()) {
  begin_intake();
}

Entry& Batches::add_entry(Connection* c, const char* begin, const char* end, UdpDatagram* datagram) {
  return in_.entries.emplace_back(Entry{.connection = c,
                                        .datagram = datagram,
                                        .rest = begin,
                                        .input_end = end,
                                        .first_query = in_.batch->size(),
                                        .received_at = TD_UNLIKELY(in_.sampled) ? cycles_now() : 0});
}

void Batches::run(bool continues) {
  if (in_.entries.empty()) return;
  worker_.meter.parsed(in_.batch->size());
  execute(continues);
  worker_.runner->relieve();
}

void Batches::execute(bool continues) {
  if (in_.batch->size() != 0) {
    worker_.meter.answered(in_.batch->size());
    limits_.begin_batch();
    responder_.begin(in_);
    worker_.runner->run(*in_.batch, responder_);
    responder_.end();
    const std::uint64_t now = cycles_now();
    worker_.meter.record_batch(in_, now);
    if (!continues) in_.restart_clock(now);
    in_.batch->clear();
  }
  Entry last = in_.entries.back();
  const auto is_stuck = [](const Connection& c) { return c.is_blocked() || c.is_closed() || c.stream != nullptr; };
  if (continues && (last.skips || (last.connection != nullptr && is_stuck(*last.connection)))) {
    in_.entries.back().stop = Stop::yield;
    continues = false;
  }
  for (std::size_t i = 0; i < in_.entries.size() - (continues ? 1 : 0); ++i) finish(in_.entries[i]);
  in_.entries.clear();
  in_.stays_here = in_.stays_here && continues;
  if (!continues) return;
  last.first_query = 0;
  last.sent_at = 0;
  in_.entries.push_back(last);
}

// The entry's queries are answered: keeps the rest of its input.
void Batches::finish(Entry& entry) {
  if (entry.connection == nullptr || entry.connection->is_closed()) return;
  Connection& c = *entry.connection;
  const bool quits = TD_UNLIKELY(entry.stop == Stop::quit);
  if (TD_UNLIKELY((entry.stop == Stop::close || quits) && !entry.skips)) {
    c.kept.assign(nullptr, nullptr);
    static_cast<void>(limits_.charge_kept(c));  // less than before: nothing is refused
    c.closes = true;
    c.close_reason = quits ? CloseReason::normal : CloseReason::error;
    if (!c.is_blocked() && c.stream == nullptr) connections_.close(c, c.close_reason);
    return;
  }
  if (entry.rest != entry.input_end || c.kept.size() != 0) {
    if (!limits_.keep(c, entry.rest, entry.input_end)) return;
  }
  if (TD_UNLIKELY(entry.stop != Stop::need_more || entry.skips)) {
    c.large_waits = entry.stop == Stop::large && !entry.skips;
    // Latency counts the time that a connection waits for other connections, but not the time that it waits for its own
    // client.
    c.waits_since = (entry.skips && !entry.turn_ended) || c.is_blocked() ? 0
                    : entry.received_at != 0                             ? entry.received_at
                                                                         : in_.since;
    c.resumes = true;
  }
  note_input(c);
  connections_.serve_again(c);
}

void Batches::note_input(Connection& c) noexcept {
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

void Batches::begin_intake() {
  in_.batch = &worker_.runner->filling();
  input().reuse();
  in_.entries.reserve(2 * events_per_pass);
  in_.restart_clock(cycles_now());
  in_.since = pass_begin_;
  in_.sampled = worker_.meter.sampled();
}

void Batches::begin_answer() {
  answering_ = worker_.runner->oldest();
  std::swap(in_, in_flight_[answering_]);
  mark_in_flight(false);
  static_cast<void>(worker_.runner->begin_answer());  // it is in_.batch
}

void Batches::end_answer() noexcept {
  worker_.runner->end_answer();
  std::swap(in_, in_flight_[answering_]);
}

// Connections and UDP ports with input in the intake wait for its answers: a port's buffers hold the datagrams.
void Batches::mark_in_flight(bool is_in_flight) noexcept {
  UdpPort* port = nullptr;
  const auto mark_port = [&](UdpPort* of) {
    if (of == port) return;
    port = of;
    port->batches_in_flight += is_in_flight ? 1u : ~0u;
  };
  const auto mark = [&](const auto& of) {
    if (of.connection != nullptr) {
      of.connection->in_flight = is_in_flight;
    } else {
      mark_port(of.datagram->reply.port);
    }
  };
  for (const Entry& entry : in_.entries) mark(entry);
  for (const LaneWait& wait : in_.waits) mark(wait);
}

}  // namespace tandem::net
