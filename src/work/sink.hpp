// What only the owner of a thread's work can do: it has the clients.
//
// Thread safety: the thread of the work.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "query/batch.hpp"
#include "work/intake.hpp"
#include "work/output_range.hpp"

namespace tandem {

class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  // --- each run of the lane
  // Requests are about to be judged by the time `now`, in ticks.
  virtual void begin_run(std::uint64_t now) = 0;
  // Replies to a stream, in order, which the sink takes over with their pins; none: `ends`. ends: all of its input is
  // answered, and it is not asked about any more. Usually the only call for a segment.
  virtual void send(Asker& to, const OutputRange& replies, bool ends) = 0;
  // A message to a datagram is whole. As the following two it may be taken off the output if it is the output's end.
  virtual void send_message(Asker& to, const OutputRange& message) = 0;
  // Replies of a device to all of a stream or datagram, which last until the call returns.
  virtual void send_whole(Asker& to, std::string_view replies) = 0;
  // So many queries were answered, and so many of meta commands among them; their replies were sent.
  virtual void end_run(std::uint64_t queries, std::uint64_t metas) = 0;
  // Sends the messages of datagrams that were given to send.
  virtual void flush() {}

  // --- of an intake
  // Those have input in a flight now, or not any more.
  virtual void mark_in_flight(std::span<const Asker> /*askers*/, bool /*is_in_flight*/) {}
  // All of it is answered. The sink records latencies.
  virtual void answered_all(Intake& in) = 0;
  // Bytes of requests and replies until now.
  virtual std::uint64_t bytes() const = 0;

  // --- of streams with more than plain requests
  // Whether it takes replies now. If not, its rest is not answered.
  virtual bool is_open(const Asker& /*asker*/) const { return true; }
  // The segment is answered as far as it can be: the sink keeps its rest, or closes the connection. since: begin of the
  // pass in which the intake's first input was received, in ticks.
  virtual void ended(Asker& asker, const LaneSegment& segment, std::uint64_t since) = 0;
  // Executes a control query and appends its reply to the output. REQUIRES: no epoch.
  virtual void control(Asker& asker, const Query& query) = 0;
  // The parser has stopped at a large value: gets a slot to receive it into, and takes what is at the segment's rest.
  // False: it is refused.
  virtual bool begin_large(Asker& /*asker*/, LaneSegment& /*segment*/) { return false; }
  struct Filled {
    Location location;
    bool ok;  // its line end is right
  };
  // Of an asker that `fills`: takes the line end from the segment's rest. Nothing: it has not arrived.
  virtual std::optional<Filled> finish_large(Asker& /*asker*/, LaneSegment& /*segment*/) { return std::nullopt; }

  // --- of datagrams with more than one command, each of which has a message of its own
  // Before another command. False: it has had its share.
  virtual bool may_begin(Asker& /*asker*/) { return true; }
  // While a command has more keys: what its message has until now. False: it was dropped.
  virtual bool may_grow(Asker& /*asker*/, const OutputRange& /*message*/) { return true; }
  // The message stays unfinished: its pins are dropped, and the datagram gets no more answers.
  virtual void drop_message(Asker& asker, const OutputRange& message) = 0;
  // Streams' requests were executed meanwhile: that is not the datagrams' time.
  virtual void restart_time() {}

  // Only of work that makes rows of all: the query has been answered, in the epoch that still lasts.
  virtual void answered(const Asker& /*asker*/, const Query& /*query*/, const Result& /*result*/) {}

 protected:
  ~Sink() = default;
};

}  // namespace tandem
