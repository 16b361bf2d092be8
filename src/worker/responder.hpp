// The answers to control commands: statistics, administration, ranges.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstdint>

#include "codec/protocol.hpp"
#include "codec/range_reply.hpp"
#include "codec/reply_writer.hpp"
#include "worker/streams.hpp"
#include "worker/worker_state.hpp"

namespace tandem::net {

class Responder final {
 public:
  // All outlive the responder. output: replies are appended to it.
  Responder(WorkerState& worker, ServerControl& control, Streams& streams, Output& output);

  // Executes a control query of the connection, or of a datagram (nullptr), and appends its reply, or begins the stream
  // of it. REQUIRES: no epoch.
  void control(Connection* c, const Query& query);

 private:
  StreamRequest execute(Connection* c, const Query& query);
  void range_lines(const Query& query);
  void answer_range(codec::RangeReply& reply);
  std::uint64_t remove_keys(codec::RangeReply& range);

  WorkerState& worker_;
  ServerControl& control_;
  Streams& streams_;
  Output& output_;
  const codec::ReplyContext reply_context_;
};

}  // namespace tandem::net
