// Requests that a device answers whole, from their bytes, or whose keys it locates (frames/frames.hpp): which input of
// an intake it is given, and its answers. What it leaves goes through the lane and the parser.
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

  // The intake's flight has returned: takes the replies, if the device has made them.
  void take_replies();
  // Sends the replies to connections that are answered whole: those of one run from where the device has written them.
  // What is left of the others waits for the lane, with the
  // device's replies ahead of it and behind it.
  void send_whole();
  // The reply to a datagram; empty: there is none.
  std::string_view reply(const FrameDatagram& datagram) const noexcept {
    return {joined_.data() + datagram.output_begin, datagram.output_end - datagram.output_begin};
  }
  // The replies were sent.
  void end_answer() noexcept;

 private:
  template <class OfStream, class OfDatagram>
  void for_each_asked(OfStream stream, OfDatagram datagram);
  void take_stream(std::size_t i);
  bool take_whole(std::size_t i);
  void send_to(LaneWait& wait, const FrameCounts& answered, std::string_view replies);
  void take_datagram(FrameDatagram& datagram);
  void keep_stream(std::size_t i);
  static void sample_keys(const char* begin, const char* end, std::vector<std::string_view>& keys);

  WorkerState& worker_;
  Connections& connections_;
  ConnectionLimits& limits_;
  Sender& sender_;
  Batches& batches_;
  LaneStage& lane_;
  bool is_open_ = false, takes_datagrams_ = false, takes_queries_ = false;
  std::vector<LaneWait> answered_;  // connections whose input the device has answered whole
  // Streams of which one run is the answer, by their segments.
  struct Whole {
    std::size_t segment;
    FrameRun run;
  };
  std::vector<Whole> whole_;
  Output joined_;  // replies to other streams, and to datagrams
  Output unsent_;  // empty between two replies
  // What is left, in place of the intake's.
  std::vector<LaneSegment> segments_;
  std::vector<LaneWait> waits_;
};

}  // namespace tandem::net
