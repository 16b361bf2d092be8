// Answers what waits in an intake: input of connections and datagrams is offered to the lane (lane/lane.hpp) all
// together, with what a device has answered, located or found. What the lane leaves is then answered one segment after
// the other: the command at its rest alone, outside an epoch, and the lane behind that.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstdint>
#include <span>

#include "lane/lane.hpp"
#include "net/batches.hpp"
#include "net/connection_limits.hpp"
#include "net/connections.hpp"
#include "net/responder.hpp"
#include "net/sender.hpp"
#include "net/worker_state.hpp"

namespace tandem::net {

class LaneStage final : LaneOwner {
 public:
  // All outlive the stage.
  LaneStage(WorkerState& worker, Connections& connections, ConnectionLimits& limits, Sender& sender,
            Responder& responder, Batches& batches);
  LaneStage(const LaneStage&) = delete;
  LaneStage& operator=(const LaneStage&) = delete;

  // Whether clients that watch, or the log, are told of single requests.
  bool tells_of_requests() const noexcept { return worker_.recorder.flags() != 0 || worker_.is_verbose(2); }
  // Whether there is room for another segment.
  bool has_room() noexcept { return batches_.in().segments.size() != UINT16_MAX; }
  // Has the connection's input wait, or that of a value that is received into its slot (Connection::fill). waits_since:
  // when it was received, if not in this pass; else 0. REQUIRES: has_room().
  void wait(Connection& c, const char* begin, const char* end, std::uint64_t waits_since);
  // The same for a datagram, of which [begin, end) is a copy, or the original.
  void wait(UdpDatagram& datagram, const char* begin, const char* end);
  // Puts the keys of what waits into the intake's batch, for devices.
  void collect() noexcept { lane_.collect(batches_.in().segments, *batches_.in().batch); }
  // Answers what waits.
  void run();

  // Counts requests that a device has answered whole.
  void count(const FrameRun& answered, LaneWait& wait) noexcept;

 private:
  // What was answered.
  struct Ended {
    std::uint64_t queries = 0, metas = 0;
  };
  void take_answers() noexcept;
  void end_answers() noexcept;
  void run_all();
  void run_asked();
  void pass_over(LaneSegment& segment) noexcept;
  // Queries of this worker until now.
  std::uint64_t executed() const noexcept { return worker_.context->tasks.queries_total.get(); }
  bool waits_for_search(std::size_t number) const noexcept;
  // Has the lane run, and records sampled keys while their bytes are there. Returns how many segments are done.
  TD_INLINE std::size_t run_lane(std::span<LaneSegment> segments) {
    Output& output = responder_.output();
    // A message that is not whole stays until it is.
    const std::size_t full_bytes =
        output.size() + static_cast<std::size_t>(output.external_bytes()) + output_flush_bytes;
    open_ = nullptr;
    const std::size_t done =
        lane_.run(segments, output, full_bytes, worker_.meter.sampled(), worker_.meter.keys_of(batches_.in()));
    worker_.meter.record_keys();
    return done;
  }
  std::size_t run_from(std::size_t first);
  std::size_t resume_at(std::size_t first, bool has_ended) noexcept;
  std::size_t pass_followers(std::size_t first) const noexcept;
  void note_rows(std::size_t first);
  TD_INLINE static void count(const LaneSegment& segment, LaneWait& wait, Ended& ended) noexcept {
    ended.queries += segment.queries + segment.rows;
    ended.metas += segment.row_metas;
    for (const LaneCommand meta : {LaneCommand::meta_read, LaneCommand::meta_read_key, LaneCommand::meta_store})
      ended.metas += segment.commands[static_cast<std::size_t>(meta)];
    for (std::size_t command = 0; command < lane_command_count; ++command)
      wait.commands[command] += segment.commands[command];
  }
  TD_INLINE void add(const Ended& ended) noexcept {
    worker_.meter.parsed(ended.queries);
    worker_.meter.answered(ended.queries);
    worker_.counters.cmd_meta.add(ended.metas);
  }
  void end(const LaneSegment& segment, LaneWait& wait, bool is_cut, Ended& ended);
  void end_datagram(const LaneSegment& segment, UdpDatagram& datagram, bool is_cut);
  void drop_open_message();
  bool before_row(LaneSegment& segment, bool begins) override;
  void answered(const LaneSegment& segment, const Query& query, const Result& result) override;

  // --- lane_rest.cpp
  // Of connections and datagrams that the lane has left, and of all when they are answered.
  void finish(std::size_t number) {
    const LaneSegment& segment = batches_.in().segments[number];
    Connection* const c = batches_.in().waits[number].connection;
    const bool is_usual = c != nullptr && segment.is_answered() && !segment.within_command && c->kept.size() == 0 &&
                          c->parser.begins_command() && !c->is_closed();
    if (TD_LIKELY(is_usual)) return connections_.serve_again(*c);
    finish_unusual(number);
  }
  void finish_unusual(std::size_t number);
  void go_on(std::size_t number);
  bool goes_on(const LaneSegment& segment, const LaneWait& wait) const noexcept;
  void run_one(std::size_t number);
  bool act(std::size_t number);
  bool act_for(Connection& c, std::size_t number);
  bool act_for(UdpDatagram& datagram, std::size_t number);
  ParseStop take_and_execute(std::size_t number);
  void execute(std::size_t number);
  void send(const LaneSegment& segment, LaneWait& wait);
  bool begin_large(Connection& c, std::size_t number);
  bool finish_large(Connection& c, std::size_t number);
  void finish_connection(const LaneSegment& segment, LaneWait& wait);
  static void note_input(Connection& c) noexcept;

  WorkerState& worker_;
  Connections& connections_;
  ConnectionLimits& limits_;
  Sender& sender_;
  Responder& responder_;
  Batches& batches_;
  Lane lane_;
  const LaneSegment* open_ = nullptr;  // whose message ends the output, not whole; nullptr: all are
  std::size_t asked_ = 0;              // the segment of the last before_row()
};

}  // namespace tandem::net
