// Replies to datagrams in a worker's output. Each command of a datagram has a message of its own, which is sent whole
// or not at all. A datagram has a share of bytes, messages and time, as a connection has in its turn; what is beyond it
// is dropped, and counted once.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "codec/output.hpp"
#include "net/udp_port.hpp"
#include "work/intake.hpp"
#include "worker/connection_limits.hpp"
#include "worker/sender.hpp"
#include "worker/worker_state.hpp"

namespace tandem::net {

// REQUIRES: a datagram's.
inline UdpDatagram& datagram_of(const Asker& asker) noexcept { return *static_cast<UdpDatagram*>(asker.owner); }

class Messages {
 public:
  // All outlive the messages.
  Messages(WorkerState& worker, ConnectionLimits& limits, Sender& sender, Output& output) noexcept
      : worker_(worker), limits_(limits), sender_(sender), output_(output) {}

  // Of the following, those that take a message off the output do so if it is the output's end; else it remains there,
  // and is not sent.

  // Before another command of the datagram. False: it has had its share.
  bool may_begin(Asker& asker) noexcept;
  // While a command of the datagram has more keys: `range` is what its message has until now.
  // False: it is taken off, as it is too long or the datagrams' time is over, and the datagram gets no more answers.
  bool may_grow(Asker& asker, const OutputRange& range) noexcept;
  // The message is whole: keeps it to be sent, or takes it off.
  void end(Asker& asker, const OutputRange& range) {
    if (TD_UNLIKELY(range.bytes() == udp_frame_bytes)) return take_off(range);  // a quiet command
    UdpDatagram& datagram = datagram_of(asker);
    if (TD_UNLIKELY(!fits(datagram, range))) return drop(asker, range);
    datagram.message_bytes += range.bytes();
    ++datagram.messages;
    messages_.push_back({datagram.reply, range.begin, range.end, range.externals_begin, range.externals_end});
  }
  // Takes it off unfinished: the datagram gets no more answers.
  void drop(Asker& asker, const OutputRange& range) noexcept;
  // Adds a message that a device has written, frame included.
  void add(const UdpReply& to, std::string_view message);
  // A connection's requests were executed meanwhile: that is not the datagrams' time.
  void restart_time() noexcept { limits_.restart_datagrams(); }

  // Sends what was kept. The caller clears the output.
  void send();

 private:
  bool fits(const UdpDatagram& datagram, const OutputRange& range) const noexcept {
    return datagram.message_bytes + range.bytes() <= udp_reply_bytes_max;
  }
  bool time_has_ended(Asker& asker) noexcept;
  void give_up(Asker& asker) noexcept;
  void take_off(const OutputRange& range) noexcept;

  WorkerState& worker_;
  ConnectionLimits& limits_;
  Sender& sender_;
  Output& output_;
  std::vector<UdpMessage> messages_;
};

}  // namespace tandem::net
