#include "net/request_parser.hpp"

#include <algorithm>
#include <cstring>

#include "net/log.hpp"

namespace tandem::net {

// PP of the rest of the last entry's input.
task::Parsed RequestParser::parse_entry(Parser& parser) {
  const Intake& in = batches_.in();
  const auto number = static_cast<std::uint32_t>(in.entries.size() - 1);
  const Entry& entry = in.entries.back();
  return worker_.runner->parse(*in.batch, {parser, entry.rest, entry.input_end, number}, worker_.meter.sampled());
}

// False: the batch is full.
bool RequestParser::parse_to_full(Connection& c) {
  if (TD_UNLIKELY(c.fill != nullptr) && !finish_fill(c)) return true;
  if (TD_UNLIKELY(c.large_waits) && !begin_large(c)) return true;
  for (;;) {
    Entry& entry = batches_.in().entries.back();
    const task::Parsed parsed = parse_entry(c.parser);
    entry.rest += parsed.consumed;
    if (TD_UNLIKELY(worker_.is_verbose(2))) log_requests(entry);
    switch (parsed.stop) {
      case ParseStop::need_more:
        return true;
      case ParseStop::close:
      case ParseStop::quit:
        entry.stop = parsed.stop == ParseStop::quit ? Stop::quit : Stop::close;
        return true;
      case ParseStop::large_value:
        if (batches_.batch().size() != entry.first_query) {
          // The connection may be blocked by the answers to the queries before it: it begins when they are sent.
          entry.stop = Stop::large;
          return true;
        }
        if (!begin_large(c)) return true;
        break;
      case ParseStop::batch_full:
        return false;
    }
  }
}

// After so many queries of this pass. True: the rest waits for the next one.
bool RequestParser::yields_after(std::uint64_t queries) noexcept {
  Entry& entry = batches_.in().entries.back();
  const std::uint64_t share = worker_.server.options.requests_per_event * queries_per_request_of_event;
  if (queries < share || entry.rest == entry.input_end) return false;
  entry.stop = Stop::yield;
  worker_.counters.conn_yields.add();
  return true;
}

// The parser stopped at a large value: gets a slot to receive it into, or refuses it. True: the last entry's input is
// to be parsed further.
bool RequestParser::begin_large(Connection& c) {
  Intake& in = batches_.in();
  Engine& engine = worker_.server.engine;
  c.large_waits = false;
  const LargeValue& large = c.parser.large();
  const bool granted = limits_.take_filling(large.value_bytes);
  Location location = no_location;
  if (granted) {
    location = engine.begin_fill(*worker_.context, large.key, large.client_flags, large.value_bytes, large.expiry_s,
                                 large.binary_key);
  }
  if (location == no_location) {
    if (granted) worker_.server.filling.give_back(large.value_bytes);
    if (in.batch->full()) batches_.run(true);
    if (in.entries.empty()) return false;
    c.parser.refuse_large(*in.batch, static_cast<std::uint32_t>(in.entries.size() - 1));
    return true;
  }
  Entry& entry = in.entries.back();
  const auto here = static_cast<std::uint64_t>(entry.input_end - entry.rest);
  const auto bytes = static_cast<std::size_t>(std::min(here, large.value_bytes));
  char* value = worker_.heap().at(location)->value();
  std::memcpy(value, entry.rest, bytes);
  entry.rest += bytes;
  c.fill = std::make_unique<Fill>(Fill{location, value, large.value_bytes, bytes, large.line_end_bytes});
  c.after_large = true;
  c.state.store(ConnectionState::filling, std::memory_order_relaxed);
  // Until now it may have waited for its turn; from now on it waits for its client.
  connections_.touch(c);
  return finish_fill(c);
}

// True: the value and its line end have arrived, and the last entry's input is to be parsed further.
bool RequestParser::finish_fill(Connection& c) {
  Intake& in = batches_.in();
  if (!c.fill->is_whole(static_cast<std::size_t>(in.entries.back().input_end - in.entries.back().rest))) return false;
  if (in.batch->full()) batches_.run(true);
  Entry& entry = in.entries.back();
  const std::size_t line_end_bytes = c.fill->line_end_bytes;
  const bool ok = std::memcmp(entry.rest, "\r\n", line_end_bytes) == 0;
  entry.rest += line_end_bytes;
  c.parser.finish_large(*in.batch, static_cast<std::uint32_t>(in.entries.size() - 1), c.fill->location, ok);
  if (!ok) worker_.server.engine.abandon_fill(*worker_.context, c.fill->location);
  worker_.server.filling.give_back(c.fill->value_bytes);
  c.fill.reset();
  c.state.store(ConnectionState::reading, std::memory_order_relaxed);
  return true;
}

// The same for a datagram. What stops its parser ends it.
bool RequestParser::parse_to_full(Parser& parser) {
  const task::Parsed parsed = parse_entry(parser);
  batches_.in().entries.back().rest += parsed.consumed;
  return parsed.stop != ParseStop::batch_full;
}

// The batch is full. The last one is run, too: a message that it continues cannot wait for a device, or behind others.
void RequestParser::run_long(UdpDatagram& datagram) {
  do {
    batches_.run(true);
    if (batches_.in().entries.empty()) return;
  } while (!parse_to_full(*datagram.parser));
  batches_.run(false);
}

// Whether the batch holds the queries of so much input, of at least a byte each; an empty one is as good as any.
bool RequestParser::has_room(std::uint64_t bytes) noexcept {
  const Batch& batch = batches_.batch();
  return batch.size() == 0 || batch.capacity() - batch.size() >= bytes;
}

void RequestParser::log_requests(const Entry& entry) {
  const Batch& batch = batches_.batch();
  const char* last = nullptr;
  for (std::uint32_t i = entry.first_query; i < batch.size(); ++i) {
    const Query& q = batch.query(i);
    if (q.wire != last && !q.has(option::prefilled)) log().debug("<{} {}", entry.connection->fd, request_text(q));
    last = q.wire;
  }
}

}  // namespace tandem::net
