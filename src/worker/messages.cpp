#include "worker/messages.hpp"

#include <algorithm>

namespace tandem::net {

void Messages::give_up(Asker& asker) noexcept {
  asker.is_over = true;
  worker_.counters.udp_replies_dropped.add();
}

// Looked at after each strip's number of queries: it may be a system call.
bool Messages::time_has_ended(Asker& asker) noexcept {
  if (TD_LIKELY(asker.executed - datagram_of(asker).looked_at < strip_queries_max)) return false;
  datagram_of(asker).looked_at = asker.executed;
  return limits_.datagram_time_has_ended();
}

bool Messages::may_begin(Asker& asker) noexcept {
  if (asker.is_over) return false;
  const std::uint64_t share = worker_.server.options.requests_per_event;
  if (TD_LIKELY(datagram_of(asker).messages < share * queries_per_request_of_event && asker.controls < share &&
                !time_has_ended(asker)))
    return true;
  give_up(asker);
  return false;
}

bool Messages::may_grow(Asker& asker, const OutputRange& range) noexcept {
  if (TD_LIKELY(fits(datagram_of(asker), range) && !time_has_ended(asker))) return true;
  drop(asker, range);
  return false;
}

void Messages::drop(Asker& asker, const OutputRange& range) noexcept {
  take_off(range);
  give_up(asker);
}

void Messages::take_off(const OutputRange& range) noexcept {
  sender_.drop_pins(range);
  if (TD_LIKELY(range.end == output_.size() && range.externals_end == output_.externals().size()))
    output_.truncate(range.begin, range.externals_begin);
}

void Messages::add(const UdpReply& to, std::string_view message) {
  const std::size_t begin = output_.size();
  output_.append(message);
  messages_.push_back({to, begin, output_.size(), 0, 0});
}

void Messages::send() {
  for (auto first = messages_.begin(); first != messages_.end();) {
    UdpPort* const port = first->to.port;
    const auto last = std::find_if(first, messages_.end(), [port](const UdpMessage& m) { return m.to.port != port; });
    port->send(output_, {first, last}, worker_.counters);
    first = last;
  }
  for (const UdpMessage& m : messages_) sender_.drop_pins(m.range(output_));
  messages_.clear();
}

}  // namespace tandem::net
