#include "net/dispatcher.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "codec/udp.hpp"

namespace tandem::net {

void Dispatcher::empty_input() {
  run_all();
  batches_.input().reuse();
}

// Where the device can read it.
void Dispatcher::wait_in_input(UdpDatagram& datagram) {
  make_room(datagram.bytes);
  InputArena& input = batches_.input();
  char* const to = input.room();
  std::memcpy(to, datagram.data, datagram.bytes);
  input.take(datagram.bytes);
  lane_.wait(datagram, to + udp_frame_bytes, to + datagram.bytes);
}

void Dispatcher::run_long(Connection& c, const char* begin, const char* end, std::uint64_t waits_since) {
  lane_.wait(c, begin, end, waits_since);
  keep_time();
  lane_.run();
}

void Dispatcher::run_beside_device() {
  if (!hand_over()) lane_.run();
  if (!worker_.planner.is_steered()) return;
  const NetCounters& c = worker_.counters;
  worker_.planner.end(cycles_now(),
                      Planner::work_of(worker_.context->counters, c.bytes_read.get() + c.bytes_written.get()),
                      worker_.runner->in_flight() != 0);
}

// Submits what waits, if devices begin with its plan.
bool Dispatcher::hand_over() {
  const Intake& in = batches_.in();
  if (in.empty()) return false;
  // No device begins with packets; where devices alone have the index, it is asked for the keys of all then.
  const bool has_others = frames_.takes_keys() && std::ranges::any_of(in.segments, [](const LaneSegment& s) {
                            return s.binary || s.frame != nullptr;
                          });
  if (frames_.is_open() && !has_others) return hand_over_frames();
  return frames_.takes_keys() && hand_over_keys();
}

// Input that a device answers from its bytes, or of which it locates the keys.
bool Dispatcher::hand_over_frames() {
  const Plan& plan = frames_.plan_of_waiting();
  if (!begins_with_input(plan) || !worker_.runner->can_begin(plan)) return false;
  if (!free_flight()) return false;
  FrameColumns* const columns = worker_.runner->frames_to_fill(plan);
  if (columns == nullptr || !frames_.fill(*columns)) return false;
  batches_.hand_over([&] { worker_.runner->submit_frames(plan, worker_.server.protocol.cas); });
  return true;
}

// The keys of what waits.
bool Dispatcher::hand_over_keys() {
  constexpr std::uint64_t key_bytes_min = 2;
  const Intake& in = batches_.in();
  std::uint64_t bytes = 0;
  for (const LaneSegment& s : in.segments) bytes += static_cast<std::uint64_t>(s.end - s.begin);
  const std::uint64_t keys_max = std::min<std::uint64_t>(bytes / key_bytes_min, UINT32_MAX);
  if (!worker_.runner->can_begin(worker_.planner.plan_for(static_cast<std::uint32_t>(keys_max)))) return false;
  if (!free_flight()) return false;
  lane_.collect();
  const Plan plan = worker_.planner.plan_for(in.batch->size());
  if (in.batch->size() == 0 || !worker_.runner->can_begin(plan)) {
    in.batch->clear();
    return false;
  }
  batches_.hand_over([&] { worker_.runner->submit(plan); });
  return true;
}

// Leaves a free flight to be filled after the next one is handed over. False: the device is late. The worker does not
// wait longer for it, because all its connections would wait.
bool Dispatcher::free_flight() {
  constexpr std::chrono::microseconds patience(1000);
  Runner& runner = *worker_.runner;
  while (runner.in_flight() + 1 == runner.count()) {
    if (!runner.wait_for_oldest(patience)) return false;
    answer_oldest();
  }
  return true;
}

void Dispatcher::answer_oldest() {
  keep_time();
  batches_.begin_answer();
  if (batches_.in().batch->size() == 0) frames_.take_replies();
  lane_.run();
  batches_.end_answer();
}

}  // namespace tandem::net
