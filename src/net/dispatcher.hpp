// Decides what answers received input: the lane at once, or after a device. While devices work the worker serves other
// connections; their answers are taken in the order of the flights.
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

  void begin_pass() noexcept { frames_.begin_pass(); }
  // Makes room for so many bytes of input, and the lane's padding, by answering what was received before.
  void make_room(std::size_t bytes) {
    TD_ASSERT(bytes <= input_arena_bytes);
    if (TD_UNLIKELY(!batches_.input().has_room(bytes + lane_padding_bytes) || !lane_.has_room()) || is_full_of_keys())
      empty_input();
  }
  // Has the datagram wait.
  void wait(UdpDatagram& datagram) {
    if (TD_UNLIKELY(!lane_.has_room())) empty_input();
    if (TD_UNLIKELY(frames_.is_open())) return wait_in_input(datagram);
    const std::string_view request = datagram.request();
    lane_.wait(datagram, request.data(), request.data() + request.size());
  }
  // Has the input of a connection wait that does not lie in the arena, and answers it.
  void run_long(Connection& c, const char* begin, const char* end, std::uint64_t waits_since);
  // All input of the pass was received: answers it, or hands it over.
  void run_all() {
    keep_time();
    if (TD_UNLIKELY(worker_.runner->has_devices())) return run_beside_device();
    lane_.run();
  }

  // Answers what was handed over first; waits for devices, if need be. REQUIRES: Runner::in_flight() != 0.
  void answer_oldest();

 private:
  void empty_input();
  void wait_in_input(UdpDatagram& datagram);
  // So much input has probably as many keys as a flight.
  bool is_full_of_keys() noexcept {
    constexpr std::size_t bytes_per_key = 24;
    return TD_UNLIKELY(frames_.takes_keys()) && !frames_.is_open() &&
           batches_.input().used_bytes() >= bytes_per_key * device_batch_queries;
  }
  // Requests are judged by a second in which they had been received, however late this thread is, or other threads are.
  void keep_time() noexcept { worker_.server.engine.keep_time(cycles_now()); }
  void run_beside_device();
  bool hand_over();
  bool hand_over_frames();
  bool hand_over_keys();
  bool free_flight();

  WorkerState& worker_;
  Batches& batches_;
  LaneStage& lane_;
  FrameStage& frames_;
};

}  // namespace tandem::net
