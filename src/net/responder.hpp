// WR: from the results of a batch to replies in one output, which the sender sends (SD). The executor calls write() for
// each strip. Replies of a connection are one range of the output and one send; each command of a datagram has a
// message of its own (net/messages.hpp).
//
// A connection with a full socket, a turn that has ended, or no socket any more has its later queries of the batch
// turned into nothing (Entry::skips); the input from them on is kept and parsed again later. So are those of a datagram
// that has had its share, whose input is dropped.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstdint>
#include <span>

#include "codec/protocol.hpp"
#include "codec/range_reply.hpp"
#include "codec/reply_writer.hpp"
#include "net/connection_limits.hpp"
#include "net/intake.hpp"
#include "net/messages.hpp"
#include "net/sender.hpp"
#include "net/streams.hpp"
#include "net/worker_state.hpp"
#include "task/response_writer.hpp"

namespace tandem::net {

class Responder final : public ResponseWriter {
 public:
  // All outlive the responder.
  Responder(WorkerState& worker, ServerControl& control, ConnectionLimits& limits, Sender& sender, Streams& streams);

  // Around the run of a batch: its replies are for these entries, which stay where they are. end() sends what is left
  // and may be followed by another begin() for the same entries. A datagram's command of which keys are left to the
  // next batch has its message go on there, as that of the first entry.
  void begin(Intake& in) noexcept;
  void end();

  bool write(Batch& batch, Strip strip) override;
  void control(Batch& batch, std::uint32_t i) override;

  // Sends all output.
  void flush();
  // The output, for a part that sends replies of its own between two batches, and its messages. Empty before and after.
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
  void write_run(Batch& batch, std::uint32_t begin, std::uint32_t end);
  void write_run_with_pins(Batch& batch, std::uint32_t begin, std::uint32_t end);
  void write_datagram(Batch& batch, std::uint32_t begin, std::uint32_t end);
  void open_output(Entry& entry);
  void mark_output(Entry& entry) noexcept;
  bool open_message(Entry& entry);
  void end_message(Entry& entry);
  void flush_if_large(Batch& batch, std::uint32_t next);
  void skip_if_stuck(Batch& batch, std::uint32_t i);
  void skip_from(Batch& batch, std::uint32_t i);
  void end_turn(Entry& entry) noexcept;

  WorkerState& worker_;
  ServerControl& control_;
  ConnectionLimits& limits_;
  Sender& sender_;
  Streams& streams_;
  std::span<Entry> entries_;
  bool notes_sending_ = false;             // Entry::sent_at
  std::size_t flushed_ = 0, written_ = 0;  // entries sent, and entries with replies in output_
  Output output_;
  const codec::ReplyContext reply_context_;
  Messages messages_;          // in output_
  bool sent_ = false;          // output was sent since the last write() began
  bool message_open_ = false;  // the last written command of a datagram is not answered whole
};

}  // namespace tandem::net
