// Requests that a device answers whole, from their bytes, or locates the keys of (frames/frames.hpp): which input of an
// intake it is given, and its answers. What it leaves goes through the lane and the parser.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstdint>
#include <vector>

#include "frames/frames.hpp"
#include "net/batches.hpp"
#include "net/connection_limits.hpp"
#include "net/connections.hpp"
#include "net/lane_stage.hpp"
#include "net/responder.hpp"
#include "net/sender.hpp"
#include "net/worker_state.hpp"

namespace tandem::net {

class FrameStage {
 public:
  // All outlive the stage.
  FrameStage(WorkerState& worker, Connections& connections, ConnectionLimits& limits, Sender& sender,
             Responder& responder, Batches& batches, LaneStage& lane) noexcept
      : worker_(worker),
        connections_(connections),
        limits_(limits),
        sender_(sender),
        responder_(responder),
        batches_(batches),
        lane_(lane) {}

  void begin_pass() noexcept;
  // Whether a device begins with the input of this pass.
  bool is_open() const noexcept { return is_open_; }
  // Whether devices search for keys where they do not begin with the input.
  bool takes_keys() const noexcept { return takes_keys_; }
  // The plan for the input that waits; one of the host where it does not pay.
  const Plan& plan_of_waiting() noexcept;
  // Puts it into the device's columns. False: there is nothing for the device.
  bool fill(FrameColumns& frames);

  // The intake's flight has returned. If the device has written replies, sends those to datagrams, and to streams that
  // one run answers, from where they lie. The rest waits for the lane, which has the device's answers to streams, or
  // keys that it has located (Runner::runs()).
  void take_replies();

 private:
  void send_all_whole();
  bool send_whole(const LaneSegment& segment, LaneWait& wait);
  bool send_datagram(const LaneSegment& segment, LaneWait& wait);
  void sample_keys(const char* begin, const char* end);

  WorkerState& worker_;
  Connections& connections_;
  ConnectionLimits& limits_;
  Sender& sender_;
  Responder& responder_;
  Batches& batches_;
  LaneStage& lane_;
  bool is_open_ = false, takes_keys_ = false;
  bool takes_datagrams_ = false;    // which a device can only answer whole
  std::vector<LaneWait> answered_;  // whose input the device has answered whole
};

}  // namespace tandem::net
