// Decides what answers received input: the lane, the host's pipeline, or a device. While devices work the worker serves
// other connections; their answers are taken in the order of the flights.
//
// Input that waits for a device which is late is answered here, so that one device does not delay other devices' input.
//
// Thread safety: the worker's thread.
#pragma once
#include <cstddef>
#include <string_view>

#include "net/batches.hpp"
#include "net/frame_stage.hpp"
#include "net/lane_stage.hpp"
#include "net/worker_state.hpp"

namespace tandem::net {

class Dispatcher {
 public:
  // All outlive the dispatcher.
  Dispatcher(WorkerState& worker, Batches& batches, LaneStage& lane, FrameStage& frames) noexcept
      : worker_(worker), batches_(batches), lane_(lane), frames_(frames) {}

  void begin_pass() noexcept {
    frames_.begin_pass();
    lane_.begin_pass(frames_.takes_queries(), frames_.is_open());
  }
  // Makes room for so many bytes of input, and the lane's padding, by answering what was received before.
  void make_room(std::size_t bytes) {
    TD_ASSERT(bytes <= input_arena_bytes);
    if (TD_UNLIKELY(!batches_.input().has_room(bytes + lane_padding_bytes))) empty_input();
  }
  // Has the datagram wait for the lane, or a device. False: neither takes it.
  bool wait(UdpDatagram& datagram) {
    if (TD_UNLIKELY(!lane_.takes_datagrams())) return false;
    if (TD_UNLIKELY(frames_.is_open())) return wait_in_input(datagram);
    const std::string_view request = datagram.request();
    return lane_.wait(datagram, request.data(), request.data() + request.size());
  }
  // The batch is full: runs it, or hands it over. continues: as Batches::run().
  void run_batch(bool continues) {
    keep_time();
    run_parsed(continues);
  }
  // All input of the pass was received: answers what waits for a device or the lane, then the batch.
  void run_all() {
    keep_time();
    run_waiting();
    run_parsed(false);
  }

  // Answers what was handed over first; waits for devices, if need be. REQUIRES: Runner::in_flight() != 0.
  void answer_oldest();

 private:
  void empty_input();
  bool wait_in_input(UdpDatagram& datagram);
  // Requests are judged by a second in which they had been received, however late this thread is, or other threads are.
  void keep_time() noexcept { worker_.server.engine.keep_time(cycles_now()); }
  void run_parsed(bool continues) {
    if (batches_.in().entries.empty()) return;
    if (TD_UNLIKELY(worker_.runner->has_devices()) && hand_over_batch(continues)) return;
    batches_.run(continues);
  }
  void run_waiting() {
    if (TD_UNLIKELY(frames_.is_open()) && hand_over_frames()) return;
    lane_.run();
  }
  bool hand_over_batch(bool continues);
  bool hand_over_frames();
  bool free_flight();
  void answer_frames();

  WorkerState& worker_;
  Batches& batches_;
  LaneStage& lane_;
  FrameStage& frames_;
};

}  // namespace tandem::net
