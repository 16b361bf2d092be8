// Requests that a device answers whole, from their bytes, or locates the keys of (frames/frames.hpp): which input of an
// intake it is given, and its answers. What it leaves goes through the lane and the parser.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "codec/output.hpp"
#include "frames/frames.hpp"
#include "net/batches.hpp"
#include "net/connection_limits.hpp"
#include "net/connections.hpp"
#include "net/lane_stage.hpp"
#include "net/sender.hpp"
#include "net/worker_state.hpp"

namespace tandem::net {

class FrameStage {
 public:
  // All outlive the stage.
  FrameStage(WorkerState& worker, Connections& connections, ConnectionLimits& limits, Sender& sender, Batches& batches,
             LaneStage& lane) noexcept
      : worker_(worker), connections_(connections), limits_(limits), sender_(sender), batches_(batches), lane_(lane) {}

  void begin_pass() noexcept;
  // Whether a device begins with the input of this pass.
  bool is_open() const noexcept { return is_open_; }
  // Whether it does with datagrams, which it can only answer whole.
  bool takes_datagrams() const noexcept { return takes_datagrams_; }
  // Whether devices search for queries instead, which are batched for them.
  bool takes_queries() const noexcept { return takes_queries_; }
  // Copies the datagram to the input, where it waits for the device. REQUIRES: the input has room.
  void wait(UdpPort& port, unsigned number, std::uint16_t request_id);
  // The plan for the input that waits; one of the host where it does not pay.
  const Plan& plan_of_waiting() noexcept;
  // Puts it into the device's columns. False: there is nothing for the device.
  bool fill(FrameColumns& frames);

  // The intake's flight has returned. If the device has written replies, sends those to streams that one run answers,
  // from where they lie, and takes those to datagrams. The other streams wait for the lane, which has the device's
  // answers to them, or keys that it has located (Runner::runs()).
  void take_replies();
  // The reply to a datagram; empty: there is none.
  std::string_view reply(const FrameDatagram& datagram) const noexcept {
    return {replies_.data() + datagram.output_begin, datagram.output_end - datagram.output_begin};
  }
  // The replies were sent.
  void end_answer() noexcept;

 private:
  template <class OfStream, class OfDatagram>
  void for_each_asked(OfStream stream, OfDatagram datagram);
  void send_whole_streams();
  bool send_whole(const LaneSegment& segment, LaneWait& wait);
  void take_datagram(FrameDatagram& datagram);

  WorkerState& worker_;
  Connections& connections_;
  ConnectionLimits& limits_;
  Sender& sender_;
  Batches& batches_;
  LaneStage& lane_;
  bool is_open_ = false, takes_datagrams_ = false, takes_queries_ = false;
  std::vector<LaneWait> answered_;  // connections with input that the device has answered whole
  Output replies_;                  // to datagrams
};

}  // namespace tandem::net
