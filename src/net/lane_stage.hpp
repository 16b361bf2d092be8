// The fast lane of a pass (lane/lane.hpp): input of connections waits for it, is offered to it all together, and what
// the lane does not answer is parsed.
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

class LaneStage {
 public:
  // All outlive the stage.
  LaneStage(WorkerState& worker, Connections& connections, const ConnectionLimits& limits, Sender& sender,
            Responder& responder, Batches& batches, RequestParser& parser);

  // has_frames: a device begins with the input, ahead of the lane. takes_queries: devices are asked in the lane's
  // place.
  void begin_pass(bool takes_queries, bool has_frames) noexcept {
    is_allowed_ = !takes_queries;
    is_open_ = may_wait() && (has_frames || lane_.may_run());
  }
  // Whether input of this pass may wait for the lane.
  bool is_open() const noexcept { return is_open_; }
  // Has the connection's input wait. waits_since: when it was received, if not in this pass; else 0. False: the lane
  // does not take it.
  bool wait(Connection& c, const char* begin, const char* end, std::uint64_t waits_since);
  // Answers what waits, and parses what the lane leaves; batches that are full are run on the host.
  void run();

  // Counts requests that a device has answered whole. wait: nullptr for a datagram.
  void count(const FrameRun& answered, LaneWait* wait) noexcept;

 private:
  bool may_wait() const noexcept;
  bool may_run() const noexcept { return may_wait() && lane_.may_run(); }
  std::size_t resume_at(std::size_t first, bool has_ended) noexcept;
  void end(const LaneSegment& segment, LaneWait& wait);
  void parse_rest(const LaneSegment& segment, const LaneWait& wait);

  WorkerState& worker_;
  Connections& connections_;
  Sender& sender_;
  Responder& responder_;
  Batches& batches_;
  RequestParser& parser_;
  Lane lane_;
  bool is_allowed_ = false, is_open_ = false;
  bool has_run_ = false;  // for the segments that are answered
};

}  // namespace tandem::net
