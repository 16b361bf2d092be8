// The clients' side of a worker's work: replies to connections and datagrams (SD), control commands, values that are
// received into their slots, and what is kept of input.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "work/sink.hpp"
#include "worker/connection_limits.hpp"
#include "worker/connections.hpp"
#include "worker/messages.hpp"
#include "worker/responder.hpp"
#include "worker/sender.hpp"
#include "worker/worker_state.hpp"

namespace tandem::net {

class Replies final : public Sink {
 public:
  // All outlive the replies. output: the work's.
  Replies(WorkerState& worker, Connections& connections, ConnectionLimits& limits, Sender& sender, Responder& responder,
          Output& output) noexcept
      : worker_(worker),
        connections_(connections),
        limits_(limits),
        sender_(sender),
        responder_(responder),
        messages_(worker, limits, sender, output) {}

  void begin_run(std::uint64_t now) override;
  void send(Asker& to, const OutputRange& replies, bool ends) override;
  void send_message(Asker& to, const OutputRange& message) override { messages_.end(to, message); }
  void send_whole(Asker& to, std::string_view replies) override;
  void end_run(std::uint64_t queries, std::uint64_t metas) override;
  void flush() override { messages_.send(); }

  void mark_in_flight(std::span<const Asker> askers, bool is_in_flight) override;
  void answered_all(Intake& in) override;
  std::uint64_t bytes() const override {
    return worker_.counters.bytes_read.get() + worker_.counters.bytes_written.get();
  }

  bool is_open(const Asker& asker) const override;
  void ended(Asker& asker, const LaneSegment& segment, std::uint64_t since) override;
  void control(Asker& asker, const Query& query) override;
  bool begin_large(Asker& asker, LaneSegment& segment) override;
  std::optional<Filled> finish_large(Asker& asker, LaneSegment& segment) override;

  bool may_begin(Asker& asker) override { return messages_.may_begin(asker); }
  bool may_grow(Asker& asker, const OutputRange& message) override { return messages_.may_grow(asker, message); }
  void drop_message(Asker& asker, const OutputRange& message) override { messages_.drop(asker, message); }
  void restart_time() override { messages_.restart_time(); }
  void answered(const Asker& asker, const Query& query, const Result& result) override;

 private:
  void finish(Connection& c);
  static void note_input(Connection& c) noexcept;

  WorkerState& worker_;
  Connections& connections_;
  ConnectionLimits& limits_;
  Sender& sender_;
  Responder& responder_;
  Messages messages_;
};

}  // namespace tandem::net
