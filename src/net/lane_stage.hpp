// The fast lane of a pass (lane/lane.hpp): input of connections and datagrams wait for it, are offered to it all
// together, and what the lane does not answer is parsed.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstdint>

#include "lane/lane.hpp"
#include "net/batches.hpp"
#include "net/connections.hpp"
#include "net/request_parser.hpp"
#include "net/responder.hpp"
#include "net/sender.hpp"
#include "net/worker_state.hpp"

namespace tandem::net {

class LaneStage final : LaneMessages {
 public:
  // All outlive the stage.
  LaneStage(WorkerState& worker, Connections& connections, const ConnectionLimits& limits, Sender& sender,
            Responder& responder, Batches& batches, RequestParser& parser);
  LaneStage(const LaneStage&) = delete;
  LaneStage& operator=(const LaneStage&) = delete;

  // has_frames: a device begins with the input, ahead of the lane. takes_queries: devices are asked in the lane's
  // place.
  void begin_pass(bool takes_queries, bool has_frames) noexcept {
    is_allowed_ = !takes_queries;
    const bool may_run = lane_.may_run();
    is_open_ = may_wait() && (has_frames || may_run);
    takes_datagrams_ = is_open_ && may_run;
  }
  // Whether input of this pass may wait for the lane.
  bool is_open() const noexcept { return is_open_; }
  // Has the connection's input wait. waits_since: when it was received, if not in this pass; else 0. False: the lane
  // does not take it.
  bool wait(Connection& c, const char* begin, const char* end, std::uint64_t waits_since);
  // Whether datagrams of this pass may wait for it.
  bool takes_datagrams() const noexcept { return takes_datagrams_; }
  // The same for a datagram, of which [begin, end) is a copy, or the original.
  bool wait(UdpDatagram& datagram, const char* begin, const char* end);
  // Answers what waits, and parses what the lane leaves; batches that are full are run on the host.
  void run();

  // Counts requests that a device has answered whole.
  void count(const FrameRun& answered, LaneWait& wait) noexcept;

 private:
  bool may_wait() const noexcept;
  bool may_run() const noexcept { return may_wait() && lane_.may_run(); }
  // What a run has answered.
  struct Ended {
    std::uint64_t queries = 0, metas = 0;
  };
  std::size_t run_from(std::size_t first);
  std::size_t resume_at(std::size_t first, bool has_ended) noexcept;
  std::size_t pass_followers(std::size_t first) const noexcept;
  void end(const LaneSegment& segment, LaneWait& wait, bool is_cut, Ended& ended);
  void end_datagram(const LaneSegment& segment, UdpDatagram& datagram, bool is_cut);
  void drop_open_message();
  bool before_row(LaneSegment& segment, bool begins) override;
  void parse_rest(const LaneSegment& segment, const LaneWait& wait);
  void parse_rest_of(const LaneSegment& segment, UdpDatagram& datagram);

  WorkerState& worker_;
  Connections& connections_;
  Sender& sender_;
  Responder& responder_;
  Batches& batches_;
  RequestParser& parser_;
  Lane lane_;
  bool is_allowed_ = false, is_open_ = false, takes_datagrams_ = false;
  bool has_run_ = false;               // for the segments that are answered
  const LaneSegment* open_ = nullptr;  // whose message ends the output, not whole; nullptr: all are
  std::size_t asked_ = 0;              // the segment of the last before_row()
};

}  // namespace tandem::net
