// One UDP socket of one worker: datagrams in and out, many per system call. Framing is memcached's: a request is one
// datagram, a reply may be several, and each command of a datagram is answered on its own.
//
// Thread safety: the worker's thread alone.
#pragma once
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>

#include "net/counters.hpp"
#include "net/fd.hpp"
#include "net/limits.hpp"
#include "net/output_range.hpp"

namespace tandem::net {

// Where a reply goes.
struct UdpReply {
  class UdpPort* port;
  std::uint32_t datagram;  // index of the request in its port's last receive()
  std::uint16_t request_id;
};

class UdpPort {
 public:
  explicit UdpPort(Fd fd);
  UdpPort(UdpPort&&) noexcept;
  ~UdpPort();

  struct Datagram {
    char* data;
    std::size_t bytes;
  };

  int fd() const noexcept { return fd_.get(); }
  std::uint64_t pass = 0;          // the worker's last pass that served it
  unsigned batches_in_flight = 0;  // with a device, that have datagrams of it: its buffers are in use
  bool waits = false;              // it may hold more, for when they are answered
  // Takes what has arrived, at most datagrams_per_pass; what the last call returned is overwritten. Returns how many.
  unsigned receive() noexcept;
  Datagram datagram(unsigned i) const noexcept;
  // Queues the reply, whose first udp_frame_bytes are the frame that it has when it fits one datagram (longer ones get
  // frames of their own); it is sent by flush(), until when the output must stay as it is.
  void reply(const UdpReply& to, const OutputRange& range, NetCounters& counters) noexcept;
  void flush(NetCounters& counters) noexcept;

 private:
  void queue(std::span<const iovec> pieces, const UdpReply& to, NetCounters& counters) noexcept;

  struct Buffers;
  Fd fd_;
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace tandem::net
