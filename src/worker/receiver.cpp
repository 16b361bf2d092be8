#include "worker/receiver.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "codec/udp.hpp"

namespace tandem::net {

Receiver::Receiver(WorkerState& worker, Connections& connections, ConnectionLimits& limits, Work& work) noexcept
    : worker_(worker), connections_(connections), limits_(limits), work_(work), reader_(worker, connections) {}

void Receiver::receive(Connection& c) {
  const std::uint64_t waits_since = c.resumes ? c.waits_since : 0;
  const std::size_t kept = c.kept.size();
  if (TD_UNLIKELY(kept >= long_input_bytes) && c.fill == nullptr) return receive_long(c);
  char* const begin = work_.room(kept + receive_bytes_max);
  if (kept != 0) std::memcpy(begin, c.kept.data(), kept);
  std::size_t bytes = kept;
  if (TD_LIKELY(!c.resumes)) {
    const bool value = TD_UNLIKELY(c.fill != nullptr) && c.fill->received_bytes < c.fill->value_bytes;
    if (TD_UNLIKELY(!c.readable)) return;
    const std::size_t got = value ? reader_.receive_value(c, begin + kept) : reader_.receive(c, begin + kept);
    // A value without a line end may be whole with nothing behind it.
    if (got == 0 && !(value && c.fill != nullptr && c.fill->is_whole(0))) return connections_.serve_again(c);
    if (TD_UNLIKELY(c.is_closed())) return;  // it is freed after the pass, and an entry would name it
    bytes += got;
  }
  c.resumes = false;
  work_.add(&c, c.parser, bytes, waits_since, c.fill != nullptr);
}

// A line too long for the arena: it is received and answered in the buffer of kept input.
void Receiver::receive_long(Connection& c) {
  if (!c.resumes) {
    char* to;
    try {
      to = c.kept.reserve(receive_bytes_max);
    } catch (const std::bad_alloc&) {
      return limits_.refuse_kept(c);
    }
    if (!limits_.charge_kept(c)) return;
    if (!c.readable) return;
    const std::size_t got = reader_.receive(c, to);
    if (got == 0) return connections_.serve_again(c);
    c.kept.added(got);
  }
  const std::uint64_t waits_since = c.resumes ? c.waits_since : 0;
  c.resumes = false;
  work_.end();  // what waits lies in the arena
  if (TD_UNLIKELY(c.is_closed())) return;
  work_.lend(&c, c.parser, c.kept.data(), c.kept.data() + c.kept.size(), waits_since);
  work_.answer_here();
}

unsigned Receiver::receive(UdpPort& port) {
  if (port.pass == worker_.pass) return 0;  // its buffers are in use
  port.has_more = true;
  if (TD_UNLIKELY(port.batches_in_flight != 0)) return 0;
  port.pass = worker_.pass;
  unsigned count;
  std::uint64_t bytes = 0;
  {
    const Meter::Timed timed(worker_.meter, Task::receive);
    count = port.receive(worker_.counters);
  }
  for (unsigned i = 0; i < count; ++i) bytes += port.datagram(i).bytes;
  worker_.counters.udp_requests.add(count);
  worker_.counters.bytes_read.add(bytes);
  bool follows = false;
  for (unsigned i = 0; i < count; ++i) {
    UdpDatagram& datagram = port.datagram(i);
    UdpFrame frame;
    if (TD_UNLIKELY(!read_udp_frame(datagram.data, datagram.bytes, frame))) {
      worker_.counters.udp_requests_dropped.add();
      continue;
    }
    datagram.begin(frame.request_id, worker_.server.protocol, worker_.clock());
    work_.add_datagram(&datagram, *datagram.parser, datagram.data, datagram.bytes, std::exchange(follows, true));
  }
  return count;
}

}  // namespace tandem::net
