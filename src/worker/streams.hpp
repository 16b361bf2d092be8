// Answers that are sent in pieces (Stream): dumps and watched events. Each pass sends a piece of some of them, in turn.
// Input behind the command waits until its stream has ended.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstddef>

#include "codec/output.hpp"
#include "codec/protocol.hpp"
#include "worker/connections.hpp"
#include "worker/sender.hpp"
#include "worker/worker_state.hpp"

namespace tandem::net {

class Streams {
 public:
  // All outlive the streams. wakeup: notified when a watcher has lines to send.
  Streams(WorkerState& worker, const EventFd& wakeup, Connections& connections, Sender& sender) noexcept
      : worker_(worker), wakeup_(wakeup), connections_(connections), sender_(sender) {}

  // Begins the answer to a command, or appends the reason of a refusal to `text`.
  void begin(Connection& c, const StreamRequest& request, Output& text);
  // A streaming connection has an event.
  void serve(Connection& c);
  // The worker was woken: watchers may have lines.
  void note_wakeup() noexcept { are_due_ = !connections_.streams().empty(); }
  // Whether a stream has something to send.
  bool are_due() const noexcept { return are_due_; }
  // Sends a piece of some streams. `buffer` is empty before and after.
  void send(Output& buffer);
  // The server stops: sends watchers the events until now, as far as their sockets take them.
  void send_last_events(Output& buffer);

 private:
  void end(Connection& c);

  WorkerState& worker_;
  const EventFd& wakeup_;
  Connections& connections_;
  Sender& sender_;
  std::size_t next_ = 0;  // place among the connections' streams: the next to send a piece
  bool are_due_ = false;
};

}  // namespace tandem::net
