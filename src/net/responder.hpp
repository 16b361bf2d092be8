// The output of a worker's replies, and the answers to control commands: statistics, administration, ranges. Replies of
// a connection are one range of the output and one send; each command of a datagram has a message of its own
// (net/messages.hpp).
//
// Thread safety: the worker's thread.
#pragma once
#include <cstdint>

#include "codec/protocol.hpp"
#include "codec/range_reply.hpp"
#include "codec/reply_writer.hpp"
#include "net/connection_limits.hpp"
#include "net/messages.hpp"
#include "net/sender.hpp"
#include "net/streams.hpp"
#include "net/worker_state.hpp"

namespace tandem::net {

class Responder final {
 public:
  // All outlive the responder.
  Responder(WorkerState& worker, ServerControl& control, ConnectionLimits& limits, Sender& sender, Streams& streams);

  // Executes a control query of the connection, or of a datagram (nullptr), and appends its reply, or begins the stream
  // of it. REQUIRES: no epoch.
  void control(Connection* c, const Query& query);

  // Empty between two intakes.
  Output& output() noexcept { return output_; }
  Messages& messages() noexcept { return messages_; }
  // Gives large buffers back.
  void end_pass() noexcept {
    if (TD_UNLIKELY(output_.capacity() > output_bytes_kept)) output_.release();
  }

 private:
  StreamRequest execute(Connection* c, const Query& query);
  void range_lines(const Query& query);
  void answer_range(codec::RangeReply& reply);
  std::uint64_t remove_keys(codec::RangeReply& range);

  WorkerState& worker_;
  ServerControl& control_;
  Streams& streams_;
  Output output_;
  const codec::ReplyContext reply_context_;
  Messages messages_;  // in output_
};

}  // namespace tandem::net
